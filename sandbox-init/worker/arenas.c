/*
 * The arenas of CPython.
 *
 * PyObject_GetArenaAllocator() and PyObject_SetArenaAllocator() have existed since CPython 3.4, but are not in the stable ABI: they are
 * looked up by name.
 */
#include "sandbox-init/worker/arenas.h"

#include <dlfcn.h>
#include <stddef.h>

#pragma weak dlsym

enum { ARENAS_MAX = 2048 }; /* of 256 KiB or 1 MiB */

/* PyObjectArenaAllocator */
struct allocator {
        void *data;
        void *(*alloc)(void *data, size_t size);
        void (*free)(void *data, void *arena, size_t size);
};

static struct {
        struct allocator original;
        void (*set)(struct allocator *allocator);
        struct image_range list[ARENAS_MAX];
        long n;
} arenas;

static void *allocate(void *data, size_t size)
{
        void *arena = arenas.original.alloc(data, size);
        const uint64_t start = (uintptr_t)arena;

        if (arena && arenas.n < ARENAS_MAX)
                arenas.list[arenas.n++] = (struct image_range){start, start + size};
        return arena;
}

static void release(void *data, void *arena, size_t size)
{
        for (long i = 0; i < arenas.n; i++) {
                if (arenas.list[i].start != (uintptr_t)arena)
                        continue;
                arenas.list[i] = arenas.list[--arenas.n];
                break;
        }
        arenas.original.free(data, arena, size);
}

void arenas_watch(void)
{
        void (*get)(struct allocator *) = NULL;

        if (!dlsym || arenas.set)
                return;
        *(void **)&get = dlsym(RTLD_DEFAULT, "PyObject_GetArenaAllocator");
        *(void **)&arenas.set = dlsym(RTLD_DEFAULT, "PyObject_SetArenaAllocator");
        if (!get || !arenas.set)
                return;
        get(&arenas.original);
        struct allocator watched = {arenas.original.data, allocate, release};
        arenas.set(&watched);
}

long arenas_found(const struct image_range **ret)
{
        if (arenas.original.alloc)
                arenas.set(&arenas.original);
        *ret = arenas.list;
        return arenas.n;
}
