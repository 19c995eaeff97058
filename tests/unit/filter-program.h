/* Compiles a filter and reads the program from the memfd. */
#pragma once

#include <fcntl.h>
#include <seccomp.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/seccomp/filter.h"
#include "tests/unit/test.h"

static inline int number(const char *name)
{
        return seccomp_syscall_resolve_name(name);
}

struct program {
        struct sock_filter *code;
        size_t n;
};

static inline struct program read_program(int sealed)
{
        struct error err = {};
        size_t size = 0;
        char *data = NULL;

        _cleanup_close_ int fd = sealed;
        check((fcntl(fd, F_GET_SEALS) & (F_SEAL_SEAL | F_SEAL_WRITE)) ==
              (F_SEAL_SEAL | F_SEAL_WRITE));
        check_eq_int(lseek(fd, 0, SEEK_SET), 0);
        check_ok(fd_read_whole(fd, BPF_MAXINSNS * sizeof(struct sock_filter), &data, &size, &err));
        return (struct program){(struct sock_filter *)data, size / sizeof(struct sock_filter)};
}

static inline struct program compile(enum filter_kind kind)
{
        struct error err = {};
        int fd = filter_compile(kind, &err);

        check_ok(fd);
        return read_program(fd);
}
