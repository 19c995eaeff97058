/* The code of `cloister run`. */
#include "supervisor/cli/command/script.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/utf8.h"

int script_check(const char *name, const char *text, size_t length, struct error *err)
{
        const unsigned char *p = (const unsigned char *)text;
        size_t line = 1;

        for (size_t i = 0; i < length;) {
                int n = utf8_next(p + i, length - i);
                if (n <= 0)
                        return error_set(err, EILSEQ, "%s: line %zu: byte 0x%02x is not UTF-8",
                                         name, line, p[i]);
                line += p[i] == '\n';
                i += (size_t)n;
        }
        return 0;
}

static int open_script(const char *path, struct error *err)
{
        struct stat st;

        if (strcmp(path, "-") == 0)
                return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return error_errno(err, errno, "%s", path);
        if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
                close(fd);
                return error_set(err, EISDIR, "%s: is a directory, not a Python file", path);
        }
        return fd;
}

int script_read(const char *path, char **ret, size_t *length, struct error *err)
{
        static const char mark[] = {'\xef', '\xbb', '\xbf'};
        const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
        _cleanup_free_ char *text = NULL;
        size_t n = 0;

        _cleanup_close_ int fd = open_script(path, err);
        if (fd < 0)
                return error_is_set(err) ? fd : error_errno(err, errno, "%s", name);
        int r = fd_read_whole(fd, SCRIPT_SIZE_MAX, &text, &n, err);
        if (r == -EFBIG)
                return error_set(err, EFBIG, "%s: larger than the %d MiB that code may have", name,
                                 SCRIPT_SIZE_MAX / 1024 / 1024);
        if (r < 0)
                return error_context(err, "%s", name);
        if (n >= sizeof(mark) && memcmp(text, mark, sizeof(mark)) == 0) {
                n -= sizeof(mark);
                memmove(text, text + sizeof(mark), n + 1);
        }
        r = script_check(name, text, n, err);
        if (r < 0)
                return r;
        *ret = take_ptr(text);
        *length = n;
        return 0;
}

int script_take(const char *code, const char *path, char **ret, size_t *length, struct error *err)
{
        if (!code)
                return script_read(path, ret, length, err);
        *length = strlen(code);
        int r = script_check("-c", code, *length, err);
        if (r < 0)
                return r;
        *ret = strdup(code);
        return *ret ? 0 : error_errno(err, ENOMEM, "-c");
}
