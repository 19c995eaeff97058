/*
 * The heap of a template as a sealed file.
 *
 * fork() copies the page tables of anonymous memory, but not those of a private mapping of a file to which the process has
 * not written. So a warm template writes the parts of its heap that a cell does not use into a memfd, seals that, and maps it at the same
 * addresses. A fork then costs the same with a large `preload` as without. Each process gets its own copy of a page when it writes to
 * it, as before.
 *
 * A private mapping of a file differs from anonymous memory: MADV_DONTNEED brings back the file's bytes instead of zeros. So only
 * memory is mapped whose owner does not rely on zeros there: the heap that brk() makes, which malloc() clears
 * for calloc(), and the arenas of CPython. Memory with a property that such a mapping would not have stays as it is.
 */
#pragma once

#include <stdint.h>

struct image_range {
        uint64_t start, end;
};

/*
 * The template calls image_begin(), then runs a dummy cell, then calls image_end(), without a fork between them. image_begin() maps the heap and
 * these ranges from a draft, so that the kernel notes what the cell uses. image_end() makes that anonymous again, and
 * the rest an image. Both return 0 or negative errno; after an error all of it is or becomes anonymous memory, and image_end() must be
 * called nevertheless.
 *
 * draft, file: empty memfds without seals. image_end() closes both.
 */
long image_begin(long draft, long file, const struct image_range *ranges, long n);
long image_end(void);
