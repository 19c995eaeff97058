/*
 * cloister-launcher: the python3 of an image that has the Python of another one.
 *
 * The libc of the two images may differ, so that neither loader can start the other's programs. A variable (LD_LIBRARY_PATH) would
 * reach the programs that Python starts. So this executes the loader itself. It is static, because no loader starts it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "policy/launcher.h"

enum { ARGUMENTS_MAX = 65536, OWN = 6 };

/* Not const: the compiler must not know the bytes. */
static volatile struct launcher_slots slots = {.mark = LAUNCHER_MARK};

int main(int argc, char **argv)
{
        static char *arguments[ARGUMENTS_MAX + OWN + 1];
        struct launcher_slots *s = (struct launcher_slots *)&slots;

        if (!s->loader[0] || argc > ARGUMENTS_MAX) {
                fprintf(stderr, "cloister-launcher: %s\n",
                        s->loader[0] ? "too many arguments" : "Cloister writes it into an image");
                return 127;
        }
        char *const own[OWN] = {s->loader,    (char *)"--library-path",
                                s->libraries, (char *)"--argv0",
                                s->self,      s->program};
        memcpy(arguments, own, sizeof(own));
        for (int i = 1; i < argc; i++)
                arguments[OWN + i - 1] = argv[i];
        execve(s->loader, arguments, environ);
        fprintf(stderr, "%s: %s\n", s->loader, strerror(errno));
        return 127;
}
