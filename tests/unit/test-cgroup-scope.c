/* The addresses of a bus, and the child's answer. The rest needs systemd: tests/vm. */
#include "supervisor/monitor/cgroup/cgroup-scope.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/test.h"

static char addresses[CGROUP_SCOPE_ADDRESSES][CGROUP_SCOPE_ADDRESS_SIZE];

static size_t look(uid_t uid, const char *session, const char *runtime)
{
        return cgroup_scope_addresses(uid, session, runtime, addresses, CGROUP_SCOPE_ADDRESSES);
}

static void test_root(void)
{
        check_eq_int(look(0, "unix:path=/evil", "/evil"), 1);
        check_eq_str(addresses[0], "unix:path=/run/dbus/system_bus_socket");
}

/* A client may pass HOME only. */
static void test_user(void)
{
        check_eq_int(look(1000, NULL, NULL), 1);
        check_eq_str(addresses[0], "unix:path=/run/user/1000/bus");
        check_eq_int(look(1000, "", ""), 1);
        check_eq_int(look(1000, "unix:abstract=x", "/tmp/r"), 3);
        check_eq_str(addresses[0], "unix:abstract=x");
        check_eq_str(addresses[1], "unix:path=/tmp/r/bus");
        check_eq_str(addresses[2], "unix:path=/run/user/1000/bus");
        /* The same address is tried once. */
        check_eq_int(look(1000, "unix:path=/run/user/1000/bus", "/run/user/1000"), 1);
        check_eq_int(look(1000, NULL, "relative"), 1);
}

static void test_too_long(void)
{
        char text[CGROUP_SCOPE_ADDRESS_SIZE + 1];

        memset(text, '/', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        check_eq_int(look(1000, text, text), 1);
        text[sizeof(text) - 2] = '\0';
        check_eq_int(look(1000, text, NULL), 2);
        check_eq_int(strlen(addresses[0]), CGROUP_SCOPE_ADDRESS_SIZE - 1);
}

/* A child that ends without an answer. */
static void test_take(void)
{
        struct error err = {0}, said = {0};
        int ends[2];

        for (int i = 0; i < 3; i++) {
                check_eq_int(pipe2(ends, O_CLOEXEC), 0);
                said.code = i == 2 ? EACCES : 0;
                snprintf(said.text, sizeof(said.text), "no");
                if (i > 0)
                        check_eq_int(fd_write_all(ends[1], &said, sizeof(said)), 0);
                close(ends[1]);
                pid_t pid = fork();
                if (pid == 0)
                        _exit(0);
                int r = cgroup_scope_take(pid, ends[0], &err);
                check_eq_int(r, i == 0 ? -ETIMEDOUT : i == 1 ? 0 : -EACCES);
        }
        check_has(err.text, "no scope for us: no");
}

int main(void)
{
        run(test_root);
        run(test_user);
        run(test_too_long);
        run(test_take);
        return 0;
}
