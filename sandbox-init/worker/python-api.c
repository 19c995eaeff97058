/* CPython's stable ABI by dlopen. */
#include "sandbox-init/worker/python-api.h"

#include <dlfcn.h>
#include <errno.h>

struct python_api py;

int python_api_load(const char *libpython, struct error *err)
{
        /* Global: extension modules name no libpython and expect its symbols to be there. */
        void *library = dlopen(libpython, RTLD_NOW | RTLD_GLOBAL);
        if (!library)
                return error_set(err, ELIBACC, "load CPython: %s", dlerror());

        /* POSIX has data and function pointers alike; ISO C wants the detour through an object. */
        const struct {
                const char *name;
                void *to;
        } wanted[] = {
#define X(name) {#name, &py.name},
                PYTHON_API(X)
#undef X
        };
        for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
                void *symbol = dlsym(library, wanted[i].name);
                if (!symbol)
                        return error_set(err, ELIBBAD,
                                         "%s has no %s: Cloister needs CPython 3.9 or newer",
                                         libpython, wanted[i].name);
                *(void **)wanted[i].to = symbol;
        }
        return 0;
}
