/* Writes the compiled filters: a line for each, with its name, the architecture and the program's bytes
 * in hexadecimal. The native ones are those that the product loads. */
#include <seccomp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/seccomp/filter-compile.h"
#include "policy/seccomp/filter.h"

static void print(enum filter_kind kind, const char *arch, const char *program, size_t n)
{
        printf("%s\t%s\t", filter_kind_name(kind), arch);
        for (size_t i = 0; i < n; i++)
                printf("%02x", (unsigned char)program[i]);
        printf("\n");
}

static const struct {
        const char *name;
        uint32_t arch;
} arches[] = {{"x86_64", SCMP_ARCH_X86_64}, {"aarch64", SCMP_ARCH_AARCH64}};

static int export_native(enum filter_kind kind, char **program, size_t *size, struct error *err)
{
        _cleanup_close_ int fd = filter_compile(kind, err);

        return fd < 0 ? fd : fd_read_whole(fd, 1 << 20, program, size, err);
}

static int export_other(enum filter_kind kind, uint32_t arch, char **program, size_t *size,
                        struct error *err)
{
        struct filter_entries entries = {};

        int r = filter_entries_init(&entries, kind, filter_native_number, err);
        if (r >= 0)
                r = filter_program_for(arch, &entries, program, size, err);
        filter_entries_done(&entries);
        return r;
}

int main(void)
{
        struct error err = {};

        for (int kind = 0; kind < FILTER_KIND_MAX; kind++) {
                for (size_t i = 0; i < ARRAY_SIZE(arches); i++) {
                        _cleanup_free_ char *program = NULL;
                        size_t size = 0;
                        int r = arches[i].arch == filter_native_arch()
                                        ? export_native((enum filter_kind)kind, &program, &size,
                                                        &err)
                                        : export_other((enum filter_kind)kind, arches[i].arch,
                                                       &program, &size, &err);
                        if (r < 0) {
                                fprintf(stderr, "filter-export: %s\n", err.text);
                                return 1;
                        }
                        print((enum filter_kind)kind, arches[i].name, program, size);
                }
        }
        return 0;
}
