#include "supervisor/monitor/upstream/upstream-user.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int take_entry(const struct passwd *entry, struct upstream_user *ret, struct error *err)
{
        struct upstream_user user = {
                .uid = entry->pw_uid,
                .gid = entry->pw_gid,
                .home = strdup(entry->pw_dir),
                .name = strdup(entry->pw_name),
        };

        if (!user.home || !user.name) {
                upstream_user_done(&user);
                return error_errno(err, ENOMEM, "user");
        }
        *ret = user;
        return 0;
}

static int parse_uid(const char *text, uid_t *ret)
{
        char *end;

        errno = 0;
        unsigned long value = strtoul(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end || errno || value >= UINT32_MAX)
                return -EINVAL;
        *ret = (uid_t)value;
        return 0;
}

static int by_name(const char *name, struct upstream_user *ret, struct error *err)
{
        uid_t uid;
        const struct passwd *entry = getpwnam(name);

        if (!entry && parse_uid(name, &uid) == 0)
                entry = getpwuid(uid);
        if (!entry)
                return error_set(
                        err, ENOENT,
                        "config user \"%s\": there is no such user; create it (useradd --system) or name another",
                        name);
        return take_entry(entry, ret, err);
}

static int by_sudo_uid(const char *text, struct upstream_user *ret, struct error *err)
{
        uid_t uid;

        if (parse_uid(text, &uid) < 0)
                return error_set(err, EINVAL, "SUDO_UID is \"%s\", not a user id", text);
        const struct passwd *entry = getpwuid(uid);
        if (!entry)
                return error_set(
                        err, ENOENT,
                        "SUDO_UID is %u, which has no passwd entry; set `user` in the config", uid);
        return take_entry(entry, ret, err);
}

static int as_ourselves(struct upstream_user *ret)
{
        *ret = (struct upstream_user){.uid = geteuid(), .gid = getegid(), .drop_capabilities = 1};
        return ret->uid == 0;
}

int upstream_user_choose(enum sandbox_mode mode, const char *configured, const char *sudo_uid,
                         struct upstream_user *ret, struct error *err)
{
        struct upstream_user user = {0};
        int r = 0;

        if (mode == SANDBOX_ROOTLESS) {
                r = configured ? by_name(configured, &user, err) : 0;
                uid_t asked = user.uid;
                upstream_user_done(&user);
                if (r < 0)
                        return r;
                if (configured && asked != geteuid())
                        return error_set(
                                err, EPERM,
                                "config user \"%s\": only root can run servers as another user; remove it or start Cloister as root",
                                configured);
                *ret = (struct upstream_user){.uid = geteuid(), .gid = getegid()};
                return 0;
        }
        if (configured)
                r = by_name(configured, &user, err);
        else if (sudo_uid && mode == SANDBOX_ROOT)
                r = by_sudo_uid(sudo_uid, &user, err);
        else
                return as_ourselves(ret);
        if (r < 0)
                return r;
        if (user.uid == geteuid()) {
                /* `user: root`, or sudo from a root shell: allowed, but without capabilities. */
                upstream_user_done(&user);
                return as_ourselves(ret);
        }
        *ret = user;
        return 0;
}

void upstream_user_done(struct upstream_user *user)
{
        free(user->home);
        free(user->name);
        user->home = user->name = NULL;
}
