/* A network namespace that is empty passes; each thing in it that leads anywhere is found. */
#include "supervisor/monitor/template/network-check.h"

#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/test.h"

static void bring_up_loopback(void)
{
        struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
                _exit(1);
        close(fd);
}

/* A process in namespaces of its own, made ready by prepare. */
static int check_for(enum config_network network, int flags, void (*prepare)(void),
                     struct error *err)
{
        int ready[2];
        char byte = 0;

        check_eq_int(pipe(ready), 0);
        pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
        check(pid >= 0);
        if (pid == 0) {
                if (prepare)
                        prepare();
                fd_write_all(ready[1], &byte, 1);
                pause();
                _exit(0);
        }
        close(ready[1]);
        check_eq_int(fd_read_full(ready[0], &byte, 1), 1);
        close(ready[0]);
        int r = network_check(pid, network, err);
        kill(pid, SIGKILL);
        check_eq_int(waitpid(pid, NULL, 0), pid);
        return r;
}

static int check_with(int flags, void (*prepare)(void), struct error *err)
{
        return check_for(CONFIG_NETWORK_NONE, flags, prepare, err);
}

static void test_empty(void)
{
        struct error err = {0};

        check_ok(check_with(CLONE_NEWUSER | CLONE_NEWNET, NULL, &err));
}

static void test_loopback_up(void)
{
        struct error err = {0};

        check_eq_int(check_with(CLONE_NEWUSER | CLONE_NEWNET, bring_up_loopback, &err), -EISCONN);
        check_has(err.text, "lo is up");
}

static void test_loopback_wanted(void)
{
        struct error err = {0};

        check_ok(check_for(CONFIG_NETWORK_LOOPBACK, CLONE_NEWUSER | CLONE_NEWNET, bring_up_loopback,
                           &err));
        check_eq_int(check_for(CONFIG_NETWORK_LOOPBACK, CLONE_NEWUSER | CLONE_NEWNET, NULL, &err),
                     -ENETDOWN);
        check_has(err.text, "loopback interface is down");
        err = (struct error){0};
        check(check_for(CONFIG_NETWORK_LOOPBACK, CLONE_NEWUSER, NULL, &err) < 0);
        check(err.text[0]);
}

static void test_host_network(void)
{
        struct error err = {0};

        check(check_with(CLONE_NEWUSER, NULL, &err) < 0);
        check(err.text[0]);
}

static void test_no_such_process(void)
{
        struct error err = {0};
        pid_t pid = fork();

        if (pid == 0)
                _exit(0);
        check_eq_int(waitpid(pid, NULL, 0), pid);
        check(network_check(pid, CONFIG_NETWORK_NONE, &err) < 0);
}

int main(void)
{
        run(test_empty);
        run(test_loopback_up);
        run(test_loopback_wanted);
        run(test_host_network);
        run(test_no_such_process);
        return 0;
}
