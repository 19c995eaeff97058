#include "policy/limits.h"

#define MIB (1024ull * 1024)

enum {
        SESSIONS_MIN = 16,
        SESSIONS_MAX = 1024,
        BYTES_PER_INODE = 4096, /* small files use up bytes and inodes at the same rate */
        INODES_MIN = 1024,
        OPEN_FILES_SHARED_MAX = 512,
};

static uint32_t inodes_for(uint64_t bytes)
{
        uint64_t inodes = bytes / BYTES_PER_INODE;

        if (inodes < INODES_MIN)
                return INODES_MIN;
        return inodes > UINT32_MAX ? UINT32_MAX : (uint32_t)inodes;
}

static void set_inodes(struct limits *limits)
{
        limits->tmp_inodes = inodes_for(limits->tmp);
        limits->workspace_inodes = inodes_for(limits->workspace);
        limits->shm_inodes = inodes_for(limits->shm);
}

void limits_default(struct limits *limits)
{
        *limits = (struct limits){
                .memory = LIMITS_MEMORY,
                .pids = LIMITS_PIDS,
                .cpu_milli = LIMITS_CPU_MILLI,
                .tmp = LIMITS_TMP,
                .workspace = LIMITS_WORKSPACE,
                .shm = LIMITS_SHM,
                .open_files = 1024,
        };
        set_inodes(limits);
}

/* value * part / whole; part <= whole. */
static uint64_t share(uint64_t value, uint64_t part, unsigned __int128 whole)
{
        return (uint64_t)((unsigned __int128)value * part / whole);
}

void limits_fit(struct limits *limits)
{
        uint64_t most = limits->memory / 2;
        unsigned __int128 sum = (unsigned __int128)limits->tmp + limits->workspace + limits->shm;

        if (sum > most) {
                limits->tmp = share(limits->tmp, most, sum);
                limits->workspace = share(limits->workspace, most, sum);
                limits->shm = share(limits->shm, most, sum);
        }
        set_inodes(limits);
}

void limits_share_uid(struct limits *limits)
{
        if (limits->open_files > OPEN_FILES_SHARED_MAX)
                limits->open_files = OPEN_FILES_SHARED_MAX;
}

uint32_t limits_sessions_max(uint64_t ram_bytes)
{
        uint64_t sessions = ram_bytes / 4 / (4 * MIB);

        if (sessions < SESSIONS_MIN)
                return SESSIONS_MIN;
        return sessions > SESSIONS_MAX ? SESSIONS_MAX : (uint32_t)sessions;
}
