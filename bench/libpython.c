#include "bench/libpython.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { MINOR_FIRST = 9, MINOR_LAST = 14 }; /* of Python 3 */

void libpython_open(const char *path, const struct libpython_symbol *symbols, size_t n)
{
        void *library = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
        char name[32];

        for (int minor = MINOR_LAST; !path && !library && minor >= MINOR_FIRST; minor--) {
                snprintf(name, sizeof(name), "libpython3.%d.so.1.0", minor);
                library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
        }
        if (!library) {
                fprintf(stderr, "no libpython here: %s\n", dlerror());
                exit(1);
        }
        for (size_t i = 0; i < n; i++) {
                void *symbol = dlsym(library, symbols[i].name);
                if (!symbol) {
                        fprintf(stderr, "libpython: %s\n", dlerror());
                        exit(1);
                }
                *(void **)symbols[i].to = symbol;
        }
}
