/*
 * A program that says it is a Python. FILE.says beside it, where FILE is the path that it was started by, has what it prints;
 * or "hang", "flood", or "leave" and what it prints before it leaves a child that keeps its standard output.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
        char path[4096], text[4096] = "";

        snprintf(path, sizeof(path), "%s.says", argv[0]);
        FILE *file = fopen(path, "r");
        size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
        if (strncmp(text, "hang", 4) == 0)
                for (;;)
                        pause();
        while (strncmp(text, "flood", 5) == 0)
                puts("Python 3.20.0");
        if (strncmp(text, "leave ", 6) == 0) {
                printf("%s", text + 6);
                fflush(stdout);
                if (fork() == 0)
                        for (;;)
                                pause();
                return 0;
        }
        return fwrite(text, 1, n, stdout) != n;
}
