/* Which changes of files and directories are reported. */
#include "supervisor/config/config-watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

static char directory[64];
static int changes;

static const char *in(const char *name)
{
        static char paths[4][512];
        static unsigned next;
        char *path = paths[next++ % 4];

        snprintf(path, 512, "%s/%s", directory, name);
        return path;
}

static void write_file(const char *name, const char *text)
{
        int fd = open(in(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        check(fd >= 0);
        check_eq_int(fd_write_all(fd, text, strlen(text)), 0);
        close(fd);
}

static void on_changed(void *data)
{
        (void)data;
        changes++;
}

/* Runs the loop until a change would be reported; returns the number of reports. The kernel has
 * queued the events of inotify when a call returns, so the clock can skip the waits. */
static int wait_changes(struct event_base *base)
{
        struct timeval most = {.tv_usec = 400 * 1000};

        changes = 0;
        event_base_loopexit(base, &most);
        event_base_dispatch(base);
        return changes;
}

struct world {
        struct event_base *base;
        struct config_watch *watch;
};

static void watch(struct world *w, const char *path)
{
        struct error err = {};

        w->base = event_base_new();
        check_ok(config_watch_new(&w->watch, w->base, &path, 1, on_changed, NULL, &err));
        check_eq_int(wait_changes(w->base), 1); /* for what happened before */
        check_eq_int(wait_changes(w->base), 0);
}

static void end(struct world *w)
{
        config_watch_free(w->watch);
        event_base_free(w->base);
}

static void test_file(void)
{
        struct world w;

        write_file("a.json", "{}");
        watch(&w, in("a.json"));
        write_file("a.json", "{ }");
        check_eq_int(wait_changes(w.base), 1);
        write_file("other.json", "{}");
        check_eq_int(wait_changes(w.base), 0);
        /* as editors save */
        write_file("a.json~", "{}");
        check_eq_int(rename(in("a.json~"), in("a.json")), 0);
        check_eq_int(wait_changes(w.base), 1);
        check_eq_int(unlink(in("a.json")), 0);
        check_eq_int(wait_changes(w.base), 1);
        write_file("a.json", "{}");
        check_eq_int(wait_changes(w.base), 1);
        check_eq_int(chmod(in("a.json"), 0640), 0);
        check_eq_int(wait_changes(w.base), 1);
        end(&w);
}

static void test_partly_written(void)
{
        struct world w;

        watch(&w, in("half.json"));
        int fd = open(in("half.json"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        check_eq_int(fd_write_all(fd, "{", 1), 0);
        check_eq_int(wait_changes(w.base), 0);
        check_eq_int(fd_write_all(fd, "}", 1), 0);
        close(fd);
        check_eq_int(wait_changes(w.base), 1);
        check_eq_int(unlink(in("half.json")), 0);
        end(&w);
}

static void test_directory_created_later(void)
{
        struct world w;

        watch(&w, in("new/deep/a.json"));
        check_eq_int(mkdir(in("new"), 0700), 0);
        check_eq_int(wait_changes(w.base), 1);
        config_watch_files(w.watch, NULL);
        check_eq_int(mkdir(in("new/deep"), 0700), 0);
        check_eq_int(wait_changes(w.base), 1);
        config_watch_files(w.watch, NULL);
        write_file("new/deep/a.json", "{}");
        check_eq_int(wait_changes(w.base), 1);
        /* another directory replaces the old one */
        check_eq_int(rename(in("new/deep"), in("new/old")), 0);
        check_eq_int(wait_changes(w.base), 1);
        config_watch_files(w.watch, NULL);
        check_eq_int(mkdir(in("new/deep"), 0700), 0);
        check_eq_int(wait_changes(w.base), 1);
        config_watch_files(w.watch, NULL);
        write_file("new/old/a.json", "{}");
        check_eq_int(wait_changes(w.base), 0);
        write_file("new/deep/a.json", "{}");
        check_eq_int(wait_changes(w.base), 1);
        end(&w);
        check_eq_int(unlink(in("new/deep/a.json")) | unlink(in("new/old/a.json")), 0);
        check_eq_int(rmdir(in("new/deep")) | rmdir(in("new/old")), 0);
        check_eq_int(rmdir(in("new")), 0);
}

static void test_directory_and_links(void)
{
        struct world w;

        check_eq_int(mkdir(in("d"), 0700), 0);
        check_eq_int(mkdir(in("dotfiles"), 0700), 0);
        write_file("dotfiles/x.json", "{}");
        watch(&w, in("d"));
        check_eq_int(symlink("../dotfiles/x.json", in("d/x.json")), 0);
        check_eq_int(wait_changes(w.base), 1);

        struct config *config = config_new();
        struct config_files *files = NULL;
        struct error err = {};
        const char *path = in("d");
        check_ok(config_files_open(&path, 1, false, NULL, config, &files, &err));
        write_file("dotfiles/x.json", "{ }");
        check_eq_int(wait_changes(w.base), 0);
        config_watch_files(w.watch, files);
        write_file("dotfiles/x.json", "{ }");
        check_eq_int(wait_changes(w.base), 1);
        config_files_free(files);
        config_free(config);
        end(&w);
        check_eq_int(unlink(in("d/x.json")) | unlink(in("dotfiles/x.json")), 0);
        check_eq_int(rmdir(in("d")) | rmdir(in("dotfiles")), 0);
}

static void test_published_code(void)
{
        struct config *config = config_new();
        struct config_files *files = NULL;
        struct error err = {};
        struct world w;

        write_file("a.json", "{\"publish\": {\"tools\": {\"t\": {\"description\": \"T\", "
                             "\"file\": \"code/t.py\"}}}}");
        check_eq_int(mkdir(in("code"), 0700), 0);
        write_file("code/t.py", "1");
        const char *path = in("a.json");
        watch(&w, path);
        check_ok(config_files_open(&path, 1, false, NULL, config, &files, &err));
        check_eq_int((int)config_files_count(files), 2);
        config_watch_files(w.watch, files);
        write_file("code/t.py", "2");
        check_eq_int(wait_changes(w.base), 1);
        write_file("code/other.py", "1");
        check_eq_int(wait_changes(w.base), 0);
        config_files_free(files);
        config_free(config);
        end(&w);
        check_eq_int(unlink(in("code/t.py")) | unlink(in("code/other.py")), 0);
        check_eq_int(rmdir(in("code")), 0);
}

int main(void)
{
        fake_clock_skip_idle(true);
        strcpy(directory, "/tmp/test-config-watch-XXXXXX");
        check(mkdtemp(directory) != NULL);
        run(test_file);
        run(test_partly_written);
        run(test_directory_created_later);
        run(test_directory_and_links);
        run(test_published_code);
        unlink(in("a.json"));
        unlink(in("other.json"));
        check_eq_int(rmdir(directory), 0);
        return 0;
}
