/*
 * cloister-oauth gives up privileges, core dumps, being traced, and files other than its own. It keeps the files
 * that libcurl and the resolver need to make connections.
 */
#include "supervisor/oauth/confine.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/landlock.h"
#include "base/path.h"

/* The rights that a rule for a file may have. */
enum { READ_FILE = LANDLOCK_READ & ~(1 << 3) };

static int limit(struct error *err)
{
        static const struct {
                int resource;
                rlim_t most;
        } limits[] = {
                {RLIMIT_CORE, 0},
                {RLIMIT_FSIZE, 1024 * 1024},
                {RLIMIT_NOFILE, 64},
                {RLIMIT_DATA, 256 * 1024 * 1024},
        };

        for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
                struct rlimit now;
                if (getrlimit(limits[i].resource, &now) < 0)
                        return error_errno(err, errno, "getrlimit");
                rlim_t most = limits[i].most < now.rlim_max ? limits[i].most : now.rlim_max;
                const struct rlimit new = {most, most};
                if (setrlimit(limits[i].resource, &new) < 0)
                        return error_errno(err, errno, "setrlimit");
        }
        return 0;
}

static const char *or_none(const char *path)
{
        return path && *path ? path : "/nonexistent";
}

int oauth_confine(struct error *err)
{
        char tokens[512];

        if (path_in_user_directory("XDG_STATE_HOME", ".local/state", "cloister/oauth", tokens,
                                   sizeof(tokens)) < 0)
                return error_set(err, ENOENT, "tokens: neither XDG_STATE_HOME nor HOME is set");
        const struct landlock_rule rules[] = {
                {tokens, LANDLOCK_READ | LANDLOCK_CHANGE | LANDLOCK_TRUNCATE},
                {"/etc", LANDLOCK_READ},
                {"/usr", LANDLOCK_READ}, /* certificates, name service modules */
                {"/lib", LANDLOCK_READ},
                {"/lib64", LANDLOCK_READ},
                {"/nix", LANDLOCK_READ},
                {"/run", LANDLOCK_READ}, /* where /etc/resolv.conf leads */
                {"/var/lib/ca-certificates", LANDLOCK_READ},
                {"/dev/null", READ_FILE | LANDLOCK_WRITE_FILE},
                {"/dev/urandom", READ_FILE},
                {or_none(getenv("SSL_CERT_FILE")), READ_FILE},
                {or_none(getenv("SSL_CERT_DIR")), READ_FILE},
        };

        int r = limit(err);
        if (r < 0)
                return r;
        r = capabilities_keep(0);
        if (r < 0)
                return error_errno(err, -r, "give up capabilities");
        if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return error_errno(err, errno, "prctl");
        r = landlock_confine(rules, ARRAY_SIZE(rules), true, err);
        return r < 0 ? r : 0;
}
