/*
 * Takes a snapshot of a directory and rolls it back: stub-rollback ROOT BYTES [DIRECTORY]
 * DIRECTORY: to enter before. Prints the result of snapshot_take(). Then commands come on standard input:
 * "r" rolls back and prints the report, "f N" prints the offset of descriptor N and what it reads from there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-init/worker/rollback/rollback.h"

static struct snapshot snapshot;
static struct rollback_report report;

static void print_names(const char *what, struct rollback_names *names)
{
        printf("%s %u\n", what, names->total);
        for (uint32_t i = 0; i < names->n; i++) {
                for (char *c = names->names[i]; *c; c++)
                        *c = *c == '\n' ? '?' : *c;
                printf(" %s\n", names->names[i]);
        }
}

static void roll_back(void)
{
        rollback_run(&snapshot, &report);
        printf("changed %u\nreturned %u\nremoved %u\n", report.changed, report.returned,
               report.removed);
        print_names("named", &report.named);
        print_names("failed", &report.failed);
        printf("done\n");
}

static void show(int fd)
{
        char text[100];
        long at = lseek(fd, 0, SEEK_CUR);
        ssize_t n = read(fd, text, sizeof(text));

        printf("%ld %.*s\n", at, n < 0 ? 0 : (int)n, text);
}

int main(int argc, char **argv)
{
        char line[100], cwd[1000];

        if (argc < 3 || (argc > 3 && chdir(argv[3]) < 0))
                return 1;
        printf("%d\n", snapshot_take(&snapshot, argv[1], strtoull(argv[2], NULL, 10)));
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                if (line[0] == 'r')
                        roll_back();
                else if (line[0] == 'f')
                        show(atoi(line + 2));
                else
                        printf("%s\n", getcwd(cwd, sizeof(cwd)) ? cwd : "");
                fflush(stdout);
        }
        snapshot_free(&snapshot);
        return 0;
}
