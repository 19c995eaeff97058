/*
 * The mappings of this process, read from /proc/self/maps.
 *
 * The functions of this file, of dump.c and of load.c run while memory is read or replaced: they use no
 * libc, no thread-local storage and no variable but those that they are passed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        MAPPINGS_MAX = 8192,
        MAPPING_PATH_MAX = 207,
        MAPPING_PAGE =
                4096, /* unit of dumps: the kernel's pages are this large, or multiples of it */
};

/* Of the kernel's pages: on aarch64 they have 4, 16 or 64 KiB. */
uint64_t mapping_page_size(void);

enum mapping_kind {
        MAPPING_ANONYMOUS,
        MAPPING_FILE,    /* of a file of the image, which all sandboxes of a template have */
        MAPPING_PROGRAM, /* of a file of Cloister's that has no name: the template has mapped it */
        MAPPING_STACK,
        MAPPING_KERNEL, /* vdso, vvar, vsyscall */
        MAPPING_KINDS,
};

struct mapping {
        uint64_t start, end, offset;
        uint64_t maps_device, inode; /* as /proc/self/maps has them */
        uint64_t device;             /* of a MAPPING_FILE in a dump: st_dev */
        uint32_t prot;
        uint16_t is_shared, kind;
        uint8_t is_opened; /* load.c has made it writable */
        uint8_t is_cut;    /* the path is longer */
        char path[MAPPING_PATH_MAX + 1];
        uint8_t is_special; /* madvise() or mlock() gave it a property that a mapping of a file would not have */
};

/* /proc/PID/pagemap, Documentation/admin-guide/mm/pagemap.rst */
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_SWAPPED (UINT64_C(1) << 62)
#define PAGE_OF_FILE (UINT64_C(1) << 61) /* or shared anonymous memory */

/* Opens that of this process. Returns a descriptor or negative errno. */
long pagemap_open(void);

/* Reads the entries of n pages from `at` on; page: bytes of one. Returns 0 or negative errno. */
long pagemap_read(long pagemap, uint64_t page, uint64_t at, uint64_t n, uint64_t *entries);

/* Whether this process has written the page of an entry: it is anonymous memory. */
static inline bool page_is_own(uint64_t entry)
{
        return entry & PAGE_SWAPPED || (entry & PAGE_PRESENT && !(entry & PAGE_OF_FILE));
}

/* Whether the kernel can read the page: one beyond the end of its file cannot be. All signals must be blocked. */
bool page_is_readable(uint64_t at);

/* Where dump.c and load.c keep what they need. It is far from all places where the kernel maps, so that
 * no other mapping merges with it. */
#define SCRATCH_START UINT64_C(0x2000000000)

/* Maps it. Returns 0 or negative errno. */
long scratch_map(uint64_t size);
void scratch_unmap(uint64_t size);

/*
 * Fills a list in the order of addresses; without the scratch memory of this size. kind is ANONYMOUS, STACK,
 * KERNEL, or FILE. Returns their number or negative errno: -E2BIG.
 */
long mappings_read(struct mapping *list, uint64_t scratch_size);
/* Reads is_special too, for which the kernel counts all pages. */
long mappings_read_flags(struct mapping *list, uint64_t scratch_size);

/* In such a list: the mapping that contains this address, or NULL. */
const struct mapping *mapping_at(const struct mapping *list, long n, uint64_t at);

/* Whether they are the same mapping of the same memory in two sandboxes. */
bool mapping_equals(const struct mapping *a, const struct mapping *b);

bool mapping_starts_with(const struct mapping *mapping, const char *text);
bool mapping_ends_with(const struct mapping *mapping, const char *text);

/* A number of a file in /proc; 0 where there is none. Returns what follows it. */
const char *take_hex(const char *text, uint64_t *ret);
const char *take_decimal(const char *text, uint64_t *ret);

/* Writes all of it. Returns 0 or negative errno. */
long whole_write(long fd, const void *from, uint64_t n);
