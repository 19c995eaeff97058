/* Memory that grows, by the kernel's calls only. */
#pragma once

#include <stddef.h>

/* Zero is empty. Its content moves when it grows: keep offsets, not pointers. */
struct arena {
        char *base;
        size_t used, mapped;
};

/* Appends n bytes that are 0, aligned to 8. Returns their offset, or -ENOMEM. */
long arena_append(struct arena *arena, size_t n);
void arena_free(struct arena *arena);
