/*
 * cloister-journal: the only process with the journal's key. The monitor starts it, as the owner's user, with the broker's
 * socket and a filter as descriptors; the others are commands of `cloister journal`:
 *
 *     cloister-journal serve DIRECTORY MAX KEEP
 *     cloister-journal {show | verify | key} [OPTION]...
 *
 * The steps of serve: the directory is opened; capabilities and no_new_privs; Landlock: this directory, no network; limits; the
 * key is read or made, which has libcrypto read its settings; the filter (FILTER_JOURNAL); then the first request is read.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
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
#include "rpc/journal-messages.h"
#include "supervisor/journal/commands.h"
#include "supervisor/journal/key.h"
#include "supervisor/journal/segments.h"
#include "supervisor/journal/serve.h"

enum { SOCKET_FD = 3, FILTER_FD };

static void limit(void)
{
        static const struct {
                __rlimit_resource_t resource;
                rlim_t most;
        } limits[] = {{RLIMIT_CORE, 0}, {RLIMIT_NOFILE, 64}, {RLIMIT_DATA, 64 << 20}};

        for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
                setrlimit(limits[i].resource, &(struct rlimit){limits[i].most, limits[i].most});
}

static int confine(const char *path, uint32_t rights, struct error *err)
{
        const struct landlock_rule rules[] = {{path, rights}};
        struct error hint = {};

        int r = capabilities_drop(err);
        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_errno(err, errno, "no_new_privs");
        /* An error means that the kernel has no Landlock, or another version of it. */
        (void)landlock_confine(rules, ARRAY_SIZE(rules), false, &hint);
        limit();
        return 0;
}

/* The broker receives the reason why there is no journal. */
static void tell_failure(const struct error *error)
{
        struct journal_event event = {.kind = JOURNAL_FAILED, .error = *error};

        (void)fd_send(SOCKET_FD, &event, sizeof(event), NULL, 0, MSG_DONTWAIT);
}

static int serve(char **argv, struct error *err)
{
        const struct journal_limits limits = {argv[0], strtoull(argv[1], NULL, 10),
                                              strtoull(argv[2], NULL, 10)};
        struct journal_key *key = NULL;

        /* They end the server, and this process ends after the broker. */
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        signal(SIGPIPE, SIG_IGN);
        _cleanup_close_ int directory = segments_open(argv[0], true, err);
        int r = directory < 0 ? directory : 0;
        if (r >= 0)
                r = confine(argv[0], LANDLOCK_READ | LANDLOCK_CHANGE | LANDLOCK_TRUNCATE, err);
        if (r >= 0) {
                /* Two servers that start together must not both make a key. */
                _cleanup_close_ int lock = segments_lock(directory, err);
                r = lock < 0 ? lock : journal_key_open(directory, &key, err);
                if (r < 0)
                        error_context(err, "%s", argv[0]);
        }
        if (r >= 0)
                r = filter_load(FILTER_FD, err);
        if (r < 0) {
                r = error_context(err, "journal");
                tell_failure(err);
                return r;
        }
        r = journal_serve(SOCKET_FD, directory, key, &limits, err);
        journal_key_free(key);
        return r;
}

int main(int argc, char **argv)
{
        struct error err = {};

        OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
        if (argc == 5 && strcmp(argv[1], "serve") == 0) {
                if (serve(argv + 2, &err) < 0)
                        log_error("%s", err.text);
                return error_is_set(&err);
        }
        return journal_command(argv + (argc > 0));
}
