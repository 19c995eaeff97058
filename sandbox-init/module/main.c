/*
 * cloister-module: the worker as an extension module that the image's own interpreter loads.
 *
 * Theory of operation. An image without libpython, or with another libc, cannot run
 * cloister-worker; but its interpreter can load an extension module. This shared object needs no
 * library: it has the sources of cloister-worker, and sandbox-init/freestanding/ instead of libc.
 * Its undefined symbols are CPython's stable ABI, which the interpreter exports, and symbols of the
 * interpreter's libc: fork(), because only that libc can carry its threads, locks and caches over,
 * fflush and stdout, dlopen() for SQLite's locks, and where glibc has its struct rseq, which others lack.
 *
 * cloister-init execs the interpreter with a command that loads the module from its sealed memfd and
 * calls boot(). The rest is the same as in cloister-worker.
 */
#include <stdlib.h>
#include <unistd.h>

#include "sandbox-init/setup/layout.h"
#include "sandbox-init/worker/module.h"

/* clang-format off */
struct python_api py = {
#define X(name) .name = &name, /* NOLINT(bugprone-macro-parentheses) */
        PYTHON_API(X)
#undef X
};
/* clang-format on */

/* For the buffer of frames, which is only used with the interpreter's lock held. */
void *realloc(void *p, size_t n)
{
        return py.PyMem_Realloc(p, n);
}

void free(void *p)
{
        py.PyMem_Free(p);
}

PyMODINIT_FUNC PyInit__cloister(void);
PyMODINIT_FUNC PyInit__cloister(void)
{
        close(LAYOUT_MODULE_FD);
        return module_init();
}
