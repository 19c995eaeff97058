/* What a sandbox may use, computed from config and machine without a syscall (defaults in
 * docs/config.md). */
#pragma once

#include <stdint.h>

/* The defaults. */
enum {
        LIMITS_MEMORY = 512 << 20,
        LIMITS_PIDS = 128,
        LIMITS_CPU_MILLI = 1000,
        LIMITS_TMP = 64 << 20,
        LIMITS_WORKSPACE = 128 << 20,
        LIMITS_SHM = 64 << 20,
        LIMITS_SOCKET_BUFFERS = 10 << 20,
};

/* Pictures that a result shows. */
enum {
        LIMITS_PICTURE_SIDE = 2000,     /* pixels: what models take in a conversation with many */
        LIMITS_PICTURE_SIDE_MAX = 8000, /* what models take of a single image */
        LIMITS_PICTURE_BYTES_MIN = 10000,
        LIMITS_PICTURE_BYTES_MAX =
                3932160, /* 5 MiB of base64: the limit of the largest providers of models, for one image */
};

struct limits {
        uint64_t memory; /* bytes */
        uint32_t pids;
        uint32_t cpu_milli; /* thousandths of a core */
        uint64_t tmp;       /* bytes of /tmp */
        uint64_t workspace; /* bytes of /workspace */
        uint64_t shm;       /* bytes of /dev/shm */
        uint32_t tmp_inodes;
        uint32_t workspace_inodes;
        uint32_t shm_inodes;
        uint32_t open_files; /* RLIMIT_NOFILE; default 1024 */
        uint64_t
                socket_buffers; /* bytes that a control group may count apart from memory; 0: no network */
};

void limits_default(struct limits *limits);

/* Cuts /tmp, /workspace and /dev/shm in proportion so that together they take at most half of the
 * memory limit: tmpfs pages are charged to the sandbox and survive an out-of-memory kill. */
void limits_fit(struct limits *limits);

/* For sandboxes with the host uid of other processes: the kernel refuses all processes of a uid to
 * send descriptors once more are on their way than the sender may open, mostly 1,024. */
void limits_share_uid(struct limits *limits);

/* Maximum number of live sessions of a machine: a quarter of RAM / 4 MiB, 16 to 1,024. */
uint32_t limits_sessions_max(uint64_t ram_bytes);
