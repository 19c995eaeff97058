#include "supervisor/oauth/target.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/oauth/assertion.h"

enum { KEY_FILE_MAX = 16 * 1024 };

static int check_secret(const struct oauth_target *target, const char *from, struct error *err)
{
        const char *text = target->secret;

        if (*text == '\0')
                return error_set(err, EINVAL, "%s has no secret", from);
        for (; *text; text++)
                if (*text <= ' ' || *text > '~')
                        return error_set(err, EINVAL,
                                         "%s holds characters that a secret cannot have", from);
        return 0;
}

static int read_file(struct oauth_target *target, const char *path, struct error *err)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
                return error_errno(err, errno, "client_secret_file: open %s", path);
        ssize_t n = fd_read_full(fd, target->secret, sizeof(target->secret));
        if (n < 0)
                return error_errno(err, (int)-n, "client_secret_file: read %s", path);
        if ((size_t)n == sizeof(target->secret))
                return error_set(err, EFBIG, "client_secret_file: %s is longer than %d bytes", path,
                                 OAUTH_SECRET_MAX);
        target->secret[n] = '\0';
        target->secret[strcspn(target->secret, "\r\n")] = '\0';
        return check_secret(target, "client_secret_file", err);
}

static int read_key(struct oauth_target *target, const char *path, struct error *err)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        char pem[KEY_FILE_MAX];

        if (fd < 0)
                return error_errno(err, errno, "private_key_file: open %s", path);
        ssize_t n = fd_read_full(fd, pem, sizeof(pem));
        int r = n < 0 ? error_errno(err, (int)-n, "private_key_file: read %s", path)
                : (size_t)n == sizeof(pem)
                        ? error_set(err, EFBIG, "private_key_file: %s is longer than %d bytes",
                                    path, KEY_FILE_MAX - 1)
                        : 0;
        if (r == 0 && oauth_key_read(pem, (size_t)n, target->key, err) < 0)
                r = error_context(err, "private_key_file: %s", path);
        explicit_bzero(pem, sizeof(pem));
        return r;
}

int oauth_target_read_secret(struct oauth_target *target, struct error *err)
{
        const struct config_oauth *config = target->config;

        *target->secret = '\0';
        *target->key = '\0';
        if (config->private_key_file)
                return read_key(target, config->private_key_file, err);
        if (config->client_secret_file)
                return read_file(target, config->client_secret_file, err);
        if (!config->client_secret)
                return 0;
        if (strlen(config->client_secret) > OAUTH_SECRET_MAX)
                return error_set(err, EINVAL, "client_secret is longer than %d bytes",
                                 OAUTH_SECRET_MAX);
        memcpy(target->secret, config->client_secret, strlen(config->client_secret) + 1);
        return check_secret(target, "client_secret", err);
}

const char *oauth_shell_word(const char *name, char *ret, size_t size)
{
        static const char plain[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@:/+-";
        size_t n = 0;

        if (*name && *name != '-' && strspn(name, plain) == strlen(name))
                return name;
        ret[n++] = '\'';
        for (; *name && n + 6 < size; name++) {
                if (*name == '\'') {
                        memcpy(ret + n, "'\\''", 4);
                        n += 4;
                } else {
                        ret[n++] = *name;
                }
        }
        ret[n++] = '\'';
        ret[n] = '\0';
        return ret;
}
