/*
 * A systemd scope unit with our process in it.
 *
 * Theory of operation. systemd is the only writer of the control groups that it made (its
 * CGROUP_DELEGATION document): a program that wants its own group asks for a unit with
 * Delegate=yes. StartTransientUnit with our pid moves us from our present group (a terminal's
 * session, a service) into a new scope. The user manager asks the system manager to move us where
 * the old group is not its own. A scope ends with its last process and leaves no group behind.
 *
 * A child sends the request, so that a bus that hangs does not block the monitor. It has few descriptors, only the capability
 * that the system manager checks, and an alarm that kills it. The reply says that a job was queued;
 * /proc/PID/cgroup shows when it is done. Only the child opens libsystemd.
 *
 * If we are alone in a unit of the user manager, the child first asks whether that unit has Delegate=yes.
 */
#include "supervisor/monitor/cgroup/cgroup-scope.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cloister-config.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/child.h"

size_t cgroup_scope_addresses(uid_t uid, const char *session_address, const char *runtime_directory,
                              char (*ret)[CGROUP_SCOPE_ADDRESS_SIZE], size_t most)
{
        char well_known[64];
        const char *directories[] = {runtime_directory, well_known};
        size_t n = 0;

        if (uid == 0) {
                snprintf(ret[0], sizeof(ret[0]), "unix:path=/run/dbus/system_bus_socket");
                return most > 0;
        }
        snprintf(well_known, sizeof(well_known), "/run/user/%u", (unsigned)uid);
        if (session_address && *session_address && n < most &&
            strlen(session_address) < sizeof(ret[0]))
                snprintf(ret[n++], sizeof(ret[0]), "%s", session_address);
        for (size_t i = 0; i < ARRAY_SIZE(directories) && n < most; i++) {
                const char *directory = directories[i];
                if (!directory || *directory != '/' || strlen(directory) > 200)
                        continue;
                snprintf(ret[n], sizeof(ret[0]), "unix:path=%s/bus", directory);
                bool known = false;
                for (size_t k = 0; k < n; k++)
                        known = known || strcmp(ret[k], ret[n]) == 0;
                n += !known;
        }
        return n;
}

#if HAVE_LIBSYSTEMD

#include <dlfcn.h>
#include <systemd/sd-bus.h>

enum { POLL_MS = 1, NAME_SIZE = 64 };

/* The functions of libsystemd that we use. */
struct library {
        __typeof__(&sd_bus_new) bus_new;
        __typeof__(&sd_bus_set_address) bus_set_address;
        __typeof__(&sd_bus_set_bus_client) bus_set_bus_client;
        __typeof__(&sd_bus_start) bus_start;
        __typeof__(&sd_bus_unref) bus_unref;
        __typeof__(&sd_bus_message_new_method_call) message_new_method_call;
        __typeof__(&sd_bus_message_append) message_append;
        __typeof__(&sd_bus_message_unref) message_unref;
        __typeof__(&sd_bus_call) bus_call;
        __typeof__(&sd_bus_call_method) bus_call_method;
        __typeof__(&sd_bus_message_read) message_read;
        __typeof__(&sd_bus_get_property_trivial) bus_get_property_trivial;
};

static int open_library(struct library *ret, struct error *err)
{
        void *handle = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
        const struct {
                const char *name;
                void *to;
        } symbols[] = {
                {"sd_bus_new", &ret->bus_new},
                {"sd_bus_set_address", &ret->bus_set_address},
                {"sd_bus_set_bus_client", &ret->bus_set_bus_client},
                {"sd_bus_start", &ret->bus_start},
                {"sd_bus_unref", &ret->bus_unref},
                {"sd_bus_message_new_method_call", &ret->message_new_method_call},
                {"sd_bus_message_append", &ret->message_append},
                {"sd_bus_message_unref", &ret->message_unref},
                {"sd_bus_call", &ret->bus_call},
                {"sd_bus_call_method", &ret->bus_call_method},
                {"sd_bus_message_read", &ret->message_read},
                {"sd_bus_get_property_trivial", &ret->bus_get_property_trivial},
        };

        if (!handle)
                return error_set(err, ENOENT, "libsystemd: %s", dlerror());
        for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
                void *symbol = dlsym(handle, symbols[i].name);
                if (!symbol)
                        return error_set(err, ENOSYS, "libsystemd has no %s", symbols[i].name);
                memcpy(symbols[i].to, &symbol, sizeof(symbol));
        }
        return 0;
}

static const char manager[] = "org.freedesktop.systemd1";
static const char manager_path[] = "/org/freedesktop/systemd1";
static const char manager_interface[] = "org.freedesktop.systemd1.Manager";

static bool is_scope(const char *unit)
{
        static const char end[] = "_2escope"; /* of an object path */
        size_t n = strlen(unit);

        return n >= strlen(end) && strcmp(unit + n - strlen(end), end) == 0;
}

/* Whether this manager has a unit with our process in it, and delegated its group. */
static bool has_delegated(const struct library *l, sd_bus *bus, pid_t pid)
{
        sd_bus_message *reply = NULL;
        const char *unit;
        int is_delegated = 0;

        int r = l->bus_call_method(bus, manager, manager_path, manager_interface, "GetUnitByPID",
                                   NULL, &reply, "u", (uint32_t)pid);
        if (r >= 0)
                r = l->message_read(reply, "o", &unit);
        if (r > 0)
                r = l->bus_get_property_trivial(bus, manager, unit,
                                                is_scope(unit) ? "org.freedesktop.systemd1.Scope"
                                                               : "org.freedesktop.systemd1.Service",
                                                "Delegate", NULL, 'b', &is_delegated);
        l->message_unref(reply);
        return r >= 0 && is_delegated;
}

/* The method's arguments: name, mode, properties, and other units to make (none). */
static int fill(const struct library *l, sd_bus_message *call, const char *name, pid_t pid)
{
        return l->message_append(call, "ssa(sv)a(sa(sv))", name, "fail", 4, "Description", "s",
                                 "Cloister's sandboxes", "PIDs", "au", 1, (uint32_t)pid, "Delegate",
                                 "b", 1, "CollectMode", "s", "inactive-or-failed", 0);
}

static int request(const struct library *l, sd_bus *bus, const char *name, pid_t pid,
                   struct error *err)
{
        sd_bus_message *call = NULL, *reply = NULL;
        sd_bus_error refused = SD_BUS_ERROR_NULL;

        int r = l->message_new_method_call(bus, &call, manager, manager_path, manager_interface,
                                           "StartTransientUnit");
        if (r >= 0)
                r = fill(l, call, name, pid);
        if (r >= 0)
                r = l->bus_call(bus, call, CGROUP_SCOPE_SECONDS * 1000000ULL, &refused, &reply);
        if (r < 0)
                error_set(err, -r, "%s", refused.message ? refused.message : strerrordesc_np(-r));
        l->message_unref(call);
        l->message_unref(reply);
        return r < 0 ? r : 0;
}

/* Returns 1 if our unit will do, 0 if a scope was requested. */
static int ask_at(const struct library *l, const char *address, const char *name, pid_t pid,
                  bool may_stay, struct error *err)
{
        sd_bus *bus = NULL;

        int r = l->bus_new(&bus);
        if (r >= 0)
                r = l->bus_set_address(bus, address);
        if (r >= 0)
                r = l->bus_set_bus_client(bus, 1);
        if (r >= 0)
                r = l->bus_start(bus);
        if (r < 0)
                error_errno(err, -r, "%s", address);
        else
                r = may_stay && has_delegated(l, bus, pid) ? 1 : request(l, bus, name, pid, err);
        l->bus_unref(bus);
        return r;
}

/* The job is done when our process is in the scope. The alarm ends a wait that takes too long. */
static int await_move(pid_t pid, const char *name, struct error *err)
{
        char path[32], text[4096];

        snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
        for (;;) {
                int n = cgroup_read(AT_FDCWD, path, text, sizeof(text));
                if (n < 0)
                        return error_errno(err, -n, "read %s", path);
                const char *line = strstr(text, "0::");
                const char *end = line ? strchrnul(line, '\n') : NULL;
                size_t length = strlen(name);
                if (end && (size_t)(end - line) > length &&
                    strncmp(end - length, name, length) == 0)
                        return 0;
                nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
        }
}

static int ask(pid_t pid, bool may_stay, struct error *err)
{
        static char addresses[CGROUP_SCOPE_ADDRESSES][CGROUP_SCOPE_ADDRESS_SIZE];
        struct library library;
        char name[NAME_SIZE];

        size_t n = cgroup_scope_addresses(geteuid(), getenv("DBUS_SESSION_BUS_ADDRESS"),
                                          getenv("XDG_RUNTIME_DIR"), addresses,
                                          CGROUP_SCOPE_ADDRESSES);
        int r = open_library(&library, err);
        snprintf(name, sizeof(name), "cloister-%d-%llx.scope", (int)pid,
                 (unsigned long long)clock_us());
        for (size_t i = 0; r >= 0 && i < n; i++) {
                r = ask_at(&library, addresses[i], name, pid, may_stay, err);
                if (r >= 0)
                        return r > 0 ? 0 : await_move(pid, name, err);
                r = i + 1 < n ? 0 : r;
        }
        return r;
}

_Noreturn static void run(pid_t pid, bool may_stay, int answer)
{
        struct error error = {0};

        int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        int placed = fcntl(answer, F_DUPFD_CLOEXEC, 3);
        if (nothing < 0 || placed < 0 || dup2(nothing, 0) < 0 || dup2(nothing, 1) < 0 ||
            dup2(nothing, 2) < 0)
                _exit(1);
        const int keep[] = {0, 1, 2, placed};
        child_close_all_but(keep, ARRAY_SIZE(keep));
        child_reset_signals();
        setsid();
        child_hide("cloister-scope");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(CGROUP_SCOPE_SECONDS);
        /* The system manager checks for CAP_SYS_ADMIN, a user manager for none. */
        if (ids_keep_capabilities(UINT64_C(1) << CAP_SYS_ADMIN, &error) >= 0)
                prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (ask(pid, may_stay, &error) >= 0)
                error = (struct error){0};
        fd_write_all(placed, &error, sizeof(error));
        _exit(0);
}

/* Checks without a child whether there is a socket to connect to. */
static bool has_bus(void)
{
        static char addresses[CGROUP_SCOPE_ADDRESSES][CGROUP_SCOPE_ADDRESS_SIZE];
        const char prefix[] = "unix:path=";

        if (access("/run/systemd/system", F_OK) < 0)
                return false;
        size_t n = cgroup_scope_addresses(geteuid(), getenv("DBUS_SESSION_BUS_ADDRESS"),
                                          getenv("XDG_RUNTIME_DIR"), addresses,
                                          CGROUP_SCOPE_ADDRESSES);
        for (size_t i = 0; i < n; i++) {
                if (strncmp(addresses[i], prefix, strlen(prefix)) != 0)
                        return true;
                addresses[i][strcspn(addresses[i], ",;")] = '\0';
                if (access(addresses[i] + strlen(prefix), F_OK) == 0)
                        return true;
        }
        return false;
}

int cgroup_scope_ask(bool may_stay, pid_t *pid, int *answer, struct error *why)
{
        int ends[2];

        if (!has_bus())
                return geteuid() == 0
                               ? error_set(why, EOPNOTSUPP, "no systemd to ask for a scope")
                               : error_set(
                                         why, EOPNOTSUPP,
                                         "no user manager to ask for a scope (no bus in /run/user/%u; `loginctl enable-linger` starts one)",
                                         geteuid());
        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(why, errno, "pipe");
        pid_t self = getpid(), child = fork();
        if (child == 0)
                run(self, may_stay, ends[1]);
        int code = errno;
        close(ends[1]);
        if (child < 0) {
                close(ends[0]);
                return error_errno(why, code, "fork");
        }
        *pid = child;
        *answer = ends[0];
        return 0;
}

#else

int cgroup_scope_ask(bool may_stay, pid_t *pid, int *answer, struct error *why)
{
        return error_set(why, EOPNOTSUPP,
                         "built without libsystemd, so that no scope can be requested");
}

#endif

enum { END_MS = 1000 }; /* of the child, after its answer */

int cgroup_scope_take(pid_t pid, int answer, struct error *why)
{
        struct error reply;

        ssize_t n = child_read_in_time(answer, &reply, sizeof(reply), CGROUP_SCOPE_SECONDS * 1000);
        close(answer);
        child_wait_in_time(pid, n < 0 ? 0 : END_MS, NULL);
        if (n != (ssize_t)sizeof(reply))
                return error_set(why, ETIMEDOUT, "systemd made no scope for us within %d s",
                                 CGROUP_SCOPE_SECONDS);
        error_sanitize(&reply);
        if (!error_is_set(&reply))
                return 0;
        return error_set(why, reply.code, "systemd made no scope for us: %s", reply.text);
}
