/* Has cloister-oauth read URLs. */
#include "supervisor/cli/command/url-reader.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/program.h"
#include "supervisor/cli/command/process.h"

enum { URL_MAX = 8192, OUTPUT_MAX = 512 };

struct url {
        const char *text;
        size_t n; /* at most URL_MAX: a pipe holds it */
};

/* The URL is not an argument: other users can read these. */
static void run(const void *data, int out)
{
        const struct url *url = data;
        char path[PATH_MAX];
        int in[2];

        if (program_path("cloister-oauth", path, sizeof(path), NULL) >= 0 &&
            pipe2(in, O_CLOEXEC) == 0 && write(in[1], url->text, url->n) == (ssize_t)url->n &&
            dup2(in[0], STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
                execl(path, "cloister-oauth", "url", (char *)NULL);
        _exit(1);
}

bool url_reader(const char *text, size_t n, struct rules_url *ret)
{
        const struct url url = {text, n};
        _cleanup_free_ char *output = NULL;
        struct error ignored = {};
        size_t length = 0;

        /* Each line is a URL. */
        if (n == 0 || n > URL_MAX || memchr(text, '\n', n))
                return false;
        if (process_read(run, &url, "cloister-oauth", OUTPUT_MAX, &output, &length, &ignored) != 0)
                return false;
        return sscanf(output, "%255s %hu", ret->host, &ret->port) == 2;
}
