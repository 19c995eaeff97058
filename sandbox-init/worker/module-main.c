/*
 * cloister-module: the worker as an extension module that the image's own interpreter loads.
 *
 * Theory of operation. Where an image has no libpython, or a libc that is not ours, nothing that
 * was linked here can host its interpreter; but the interpreter can host us. This shared object
 * needs no library: the sources are those of cloister-worker, and what they want of libc is in
 * sandbox-init/freestanding/. Its undefined symbols are CPython's stable ABI, which the interpreter
 * exports, and three of whatever libc that has: fork(), because only it can bring its threads,
 * locks and caches over, and fflush(stdout).
 *
 * cloister-init execs the interpreter with a command that creates the module from its sealed memfd
 * and calls boot(); from there on all is as in cloister-worker.
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

/* Only where the interpreter's lock is held: frames that were read. */
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
