/* Cloister's own directories. */
#include "base/places.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"

static const char state[] = "STATE_DIRECTORY", runtime[] = "RUNTIME_DIRECTORY",
                  logs[] = "LOGS_DIRECTORY", configuration[] = "CONFIGURATION_DIRECTORY",
                  credentials[] = "CREDENTIALS_DIRECTORY", owner[] = "SYSTEMD_EXEC_PID";

void places_begin(void)
{
        static const char *const of_owner[] = {state, runtime, logs, configuration};
        const char *pid = getenv(owner);
        bool are_ours = !pid || atol(pid) == (long)getpid();

        for (size_t i = 0; i < ARRAY_SIZE(of_owner) && !are_ours; i++)
                unsetenv(of_owner[i]);
        /* The processes that this one starts must not decide again. */
        unsetenv(owner);
}

/* The first directory of the list that a variable holds. */
static bool first_of(const char *variable, char *ret, size_t size)
{
        const char *list = getenv(variable);
        size_t n = list ? strcspn(list, ":") : 0;

        if (n == 0 || n >= size)
                return false;
        memcpy(ret, list, n);
        ret[n] = '\0';
        return path_is_clean(ret);
}

bool place_service_state(char *ret, size_t size)
{
        return first_of(state, ret, size);
}

bool place_runtime(char *ret, size_t size)
{
        return first_of(runtime, ret, size);
}

bool place_logs(char *ret, size_t size)
{
        return first_of(logs, ret, size);
}

bool place_credentials(char *ret, size_t size)
{
        return first_of(credentials, ret, size);
}

static int place(const char *variable, const char *users, const char *fallback, const char *below,
                 char *ret, size_t size)
{
        const char *slash = *below ? "/" : "";
        char base[PATH_MAX], inner[PATH_MAX];

        if (!first_of(variable, base, sizeof(base))) {
                int n = snprintf(inner, sizeof(inner), "cloister%s%s", slash, below);
                return n >= (int)sizeof(inner)
                               ? -ENAMETOOLONG
                               : path_in_user_directory(users, fallback, inner, ret, size);
        }
        int n = snprintf(ret, size, "%s%s%s", base, slash, below);
        return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

int place_state(const char *below, char *ret, size_t size)
{
        return place(state, "XDG_STATE_HOME", ".local/state", below, ret, size);
}

int place_config(const char *below, char *ret, size_t size)
{
        return place(configuration, "XDG_CONFIG_HOME", ".config", below, ret, size);
}

/* ---- credentials ---- */

bool credential_name_valid(const char *name, size_t n)
{
        static const char letters[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.-";

        return n > 0 && n <= CREDENTIAL_NAME_MAX && strspn(name, letters) >= n &&
               strspn(name, ".") < n;
}

/* O_NONBLOCK: opening a named pipe must not block. */
static int open_credential(const char *directory, const char *name, struct error *err)
{
        struct stat st;
        _cleanup_close_ int place = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (place < 0)
                return error_errno(err, errno, "CREDENTIALS_DIRECTORY %s", directory);
        _cleanup_close_ int fd = openat(place, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 && errno == ENOENT)
                return error_set(
                        err, ENOENT,
                        "there is no credential \"%s\": add LoadCredential=%s:FILE to the unit",
                        name, name);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_errno(err, errno, "credential \"%s\"", name);
        if (!S_ISREG(st.st_mode))
                return error_set(err, EINVAL, "credential \"%s\" is not a file", name);
        return take_fd(fd);
}

int credential_read(const char *name, char **ret, struct error *err)
{
        char directory[PATH_MAX];
        size_t n = 0;
        _cleanup_free_ char *text = NULL;

        if (!credential_name_valid(name, strlen(name)))
                return error_set(err, EINVAL, "not the name of a credential");
        if (!place_credentials(directory, sizeof(directory)))
                return error_set(
                        err, ENOENT,
                        "credential \"%s\": CREDENTIALS_DIRECTORY is not set; a unit sets it with LoadCredential=%s:FILE",
                        name, name);
        _cleanup_close_ int fd = open_credential(directory, name, err);
        if (fd < 0)
                return fd;
        int r = fd_read_whole(fd, CREDENTIAL_SIZE_MAX, &text, &n, err);
        if (r < 0)
                return error_context(err, "credential \"%s\"", name);
        if (memchr(text, '\0', n)) {
                explicit_bzero(text, n);
                return error_set(err, EINVAL, "credential \"%s\" has a byte 0", name);
        }
        if (n > 0 && text[n - 1] == '\n')
                text[--n] = '\0';
        *ret = take_ptr(text);
        return 0;
}
