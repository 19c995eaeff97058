/* Cleanup attributes: a variable with one of these attributes releases its resource when it goes
 * out of scope. */
#pragma once

#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(func) __attribute__((cleanup(func)))

/* Returns the value and empties the variable: ownership moves to the caller. */
#define take_ptr(p)                                                                                \
        ({                                                                                         \
                __auto_type _taken = (p);                                                          \
                (p) = NULL;                                                                        \
                _taken;                                                                            \
        })
#define take_fd(fd)                                                                                \
        ({                                                                                         \
                int _taken = (fd);                                                                 \
                (fd) = -1;                                                                         \
                _taken;                                                                            \
        })

static inline void cleanup_free(void *p)
{
        free(*(void **)p);
}

static inline void cleanup_close(const int *fd)
{
        if (*fd >= 0)
                close(*fd);
}

#define _cleanup_free_  _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)

/* Defines cleanup_<func>() for a destructor that takes NULL and returns NULL. */
#define DEFINE_CLEANUP(type, func)                                                                 \
        static inline void cleanup_##func(type *p)                                                 \
        {                                                                                          \
                if (*p)                                                                            \
                        func(*p);                                                                  \
        }

/* For a large variable that is written before it is read, on a path where initializing it with zeros
 * (the build's -ftrivial-auto-var-init) would cost more than its use. */
#define _uninitialized_ __attribute__((uninitialized))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
