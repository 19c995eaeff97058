/*
 * cloister-inject: reads the requests of one profile to hosts of secrets with "to", whose values it has, and to hosts with "inspect".
 * The monitor starts it before the first session of the profile, in its own namespaces, without a network, and with these descriptors:
 * the broker's socket, a filter, a pipe with the values, and a file with the certificates that are trusted for servers.
 *
 *     cloister-inject UID
 *
 * Its root becomes empty, it becomes UID (-1: it is that already) and gives up its capabilities; then it reads the values and the
 * certificates, makes its own, and loads the filter (FILTER_INJECT). After that it tells the broker that it is ready.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "base/landlock.h"
#include "base/log.h"
#include "base/mount.h"
#include "supervisor/inject/serve.h"

enum { SOCKET_FD = 3, FILTER_FD, VALUES_FD, CERTIFICATES_FD, VALUES_MAX = 8 * 1024 * 1024 };

static void limit(int what, rlim_t most)
{
        setrlimit((__rlimit_resource_t)what, &(struct rlimit){most, most});
}

static int give_up(uid_t uid, struct error *err)
{
        struct error ignored = {};

        int r = mount_empty_root(err);
        if (r >= 0 && uid != (uid_t)-1)
                r = capabilities_become(uid, err);
        if (r >= 0)
                r = capabilities_drop(err);
        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
            prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return error_errno(err, errno, "no_new_privs");
        /* An error means that the kernel has no Landlock, or another version of it. */
        (void)landlock_confine(NULL, 0, false, &ignored);
        limit(RLIMIT_CORE, 1);
        limit(RLIMIT_DATA, 256 << 20);
        return 0;
}

/* Returns 1, or 0: there are no values, because one could not be read, which the monitor has logged. */
static int read_settings(struct inject_settings *settings, struct error *err)
{
        char *values = NULL;
        size_t n = 0;

        int r = fd_read_whole(VALUES_FD, VALUES_MAX, &values, &n, err);
        close(VALUES_FD);
        if (r >= 0 && n > 0)
                r = inject_settings_read(settings, getenv(INJECT_VARIABLE), values, n, err);
        if (values)
                explicit_bzero(values, n);
        free(values);
        return r < 0 ? r : n > 0;
}

static int run(uid_t uid, struct error *err)
{
        static struct inject_settings settings;
        struct inject_server *server;

        int r = give_up(uid, err);
        if (r >= 0)
                r = read_settings(&settings, err);
        if (r <= 0)
                return r;
        r = inject_server_new(&server, SOCKET_FD, &settings, CERTIFICATES_FD, err);
        close(CERTIFICATES_FD);
        if (r >= 0)
                r = filter_load(FILTER_FD, err);
        close(FILTER_FD);
        return r < 0 ? r : inject_server_run(server, err);
}

int main(int argc, char **argv)
{
        struct error err = {};

        if (argc != 2) {
                fprintf(stderr, "cloister-inject is started by Cloister\n");
                return 2;
        }
        /* They end the server, and this process ends after the broker. */
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        signal(SIGPIPE, SIG_IGN);
        OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
        if (run((uid_t)strtol(argv[1], NULL, 10), &err) < 0)
                log_error("cloister-inject: %s", err.text);
        return error_is_set(&err);
}
