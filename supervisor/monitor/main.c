/* cloister-monitor: started by `cloister`, not by people. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/journald.h"
#include "base/log.h"
#include "base/places.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/monitor.h"
#include "supervisor/monitor/process/child.h"

static int usage(void)
{
        fputs("cloister-monitor is started by cloister; see 'cloister --help'.\n", stderr);
        return 2;
}

static int parse(char *const *argv, struct options *o, struct error *err)
{
        options_init(o);
        o->mode = options_mode(argv[0]);
        int r = options_parse(argv + 1, PROGRAM_MONITOR, o, err);
        if (r >= 0 && !o->image)
                o->image = o->name;
        if (r >= 0 && o->store && setenv("CLOISTER_IMAGE_STORE", o->store, 1) < 0)
                return error_set(err, EINVAL, "--store %s: bad value", o->store);
        return r;
}

/* Nothing that our caller left open reaches a server or a sandbox. */
static void close_others(const struct options *o)
{
        int keep[3 + OPTION_FDS_MAX] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
        size_t n = options_fds(o, PROGRAM_MONITOR, keep + 3);

        for (size_t i = 0; i < n; i++)
                fd_set_cloexec(keep[3 + i], 1);
        child_close_all_but(keep, 3 + n);
}

/* A server's log is for programs, unless standard error is a terminal: for journald, if that is where it goes. */
static enum log_format choose_format(const struct options *o)
{
        if (o->log_format >= 0)
                return (enum log_format)o->log_format;
        bool server = monitor_is_server(o);
        if (!o->log_file && server && journald_has_stderr())
                return LOG_FORMAT_JOURNAL;
        return o->log_file || (server && isatty(STDERR_FILENO) != 1) ? LOG_FORMAT_JSON
                                                                     : LOG_FORMAT_TEXT;
}

/* Without journald's socket its stream gets lines of text, unless --log-format requires entries. */
static int open_log(const struct options *o, struct error *err)
{
        enum log_format format = choose_format(o);

        if (format != LOG_FORMAT_JOURNAL || o->log_file)
                return log_file_open(o->log_file, format, err);
        int fd = journald_open(err);
        if (fd < 0 && o->log_format >= 0)
                return error_context(err, "--log-format journal");
        if (fd < 0)
                log_warning("%s; lines are written to standard error", err->text);
        log_to(fd < 0 ? STDERR_FILENO : fd, fd < 0 ? LOG_FORMAT_TEXT : LOG_FORMAT_JOURNAL);
        return 0;
}

/* A service has a directory for its logs: a name without a slash is a file there. */
static int find_log_file(struct options *o, char path[PATH_MAX], struct error *err)
{
        char logs[PATH_MAX];

        if (!o->log_file || strchr(o->log_file, '/') || !place_logs(logs, sizeof(logs)))
                return 0;
        if (snprintf(path, PATH_MAX, "%s/%s", logs, o->log_file) >= PATH_MAX)
                return error_set(err, ENAMETOOLONG, "--log-file: the path is too long");
        o->log_file = path;
        return 0;
}

int main(int argc, char **argv)
{
        struct options options;
        struct error error = {};

        if (argc < 2 || options_mode(argv[1]) == MODE_MAX)
                return usage();
        if (parse(argv + 1, &options, &error) < 0) {
                log_error("%s", error.text);
                return 2;
        }
        close_others(&options);
        if (options.log_level >= 0)
                log_set_level((enum log_level)options.log_level);
        char log_path[PATH_MAX];
        if (find_log_file(&options, log_path, &error) < 0 || open_log(&options, &error) < 0) {
                log_error("%s", error.text);
                return monitor_failure(&options);
        }
        return options.mode == MODE_IMAGE_BUILD ? monitor_build_image(&options)
                                                : monitor_serve(&options);
}
