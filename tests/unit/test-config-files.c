/* Config files: which are read, in which order, with which owner; and that copies do not change. */
#include "supervisor/config/config-files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "tests/unit/test.h"

static char directory[64];

static const char *in_directory(const char *name)
{
        static char paths[4][512];
        static unsigned next;
        char *path = paths[next++ % 4];

        snprintf(path, 512, "%s/%s", directory, name);
        return path;
}

static void write_file(const char *name, const char *text, mode_t mode)
{
        int fd = open(in_directory(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        check(fd >= 0);
        check_eq_int(fd_write_all(fd, text, strlen(text)), 0);
        check_eq_int(fchmod(fd, mode), 0);
        close(fd);
}

static int open_path(const char *path, bool trusted_only, struct config **config,
                     struct config_files **files, struct error *err)
{
        *config = config_new();
        *files = NULL;
        check(*config);
        return config_files_open(&path, path ? 1 : 0, trusted_only, NULL, *config, files, err);
}

static void done(struct config *config, struct config_files *files)
{
        config_files_free(files);
        config_free(config);
}

#define SERVER(name) "{\"mcpServers\": {\"" name "\": {\"command\": \"true\"}}}"

static void test_directory_in_order(void)
{
        struct config *config;
        struct config_files *files;
        struct error err = {0};

        write_file("b.json", SERVER("second"), 0644);
        write_file("a.json", SERVER("first"), 0644);
        write_file("broken.json", "{\"mcpServers\": ", 0644);
        write_file(".hidden.json", SERVER("hidden"), 0644);
        write_file("notes.txt", "no config", 0644);
        log_set_level(LOG_LEVEL_ERROR);
        check_ok(open_path(directory, false, &config, &files, &err));
        check_eq_int(config_files_count(files), 2);
        check_eq_str(config_files_path(files, 0), in_directory("a.json"));
        check_eq_int(config->n_servers, 2);
        check_eq_str(config->servers[0].name, "first");
        check_eq_str(config->servers[1].name, "second");
        done(config, files);
}

static void test_sealed(void)
{
        struct config *config;
        struct config_files *files;
        struct error err = {0};
        char text[256] = "";

        check_ok(open_path(in_directory("a.json"), false, &config, &files, &err));
        write_file("a.json", SERVER("changed"), 0644);
        int fd = config_files_fd(files, 0);
        check_eq_int(read(fd, text, sizeof(text) - 1), strlen(SERVER("first")));
        check_eq_str(text, SERVER("first"));
        check(write(fd, "x", 1) < 0);
        check(ftruncate(fd, 0) < 0);
        done(config, files);
        write_file("a.json", SERVER("first"), 0644);
}

static void check_refused(const char *path, bool trusted_only, const char *why)
{
        struct config *config;
        struct config_files *files;
        struct error err = {0};

        check(open_path(path, trusted_only, &config, &files, &err) < 0);
        check_has(err.text, "config: ");
        check_has(err.text, why);
        done(config, files);
}

static void test_named_file_invalid(void)
{
        check_refused(in_directory("broken.json"), false, "broken.json");
        check_refused(in_directory("absent.json"), false, "No such file");
        check_refused("/dev/null", false, "neither a file nor a pipe");
}

static void test_too_large(void)
{
        int fd = open(in_directory("large.json"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        check(fd >= 0);
        check_eq_int(ftruncate(fd, CONFIG_FILE_SIZE_MAX + 1), 0);
        close(fd);
        check_refused(in_directory("large.json"), false, "limit");
        check_eq_int(unlink(in_directory("large.json")), 0);
}

static void test_pipe(void)
{
        struct config *config;
        struct config_files *files;
        struct error err = {0};
        char path[32];
        int ends[2];

        check_eq_int(pipe2(ends, O_CLOEXEC), 0);
        check_eq_int(fd_write_all(ends[1], SERVER("piped"), strlen(SERVER("piped"))), 0);
        close(ends[1]);
        snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
        check_ok(open_path(path, false, &config, &files, &err));
        check_eq_str(config->servers[0].name, "piped");
        done(config, files);
        close(ends[0]);
}

static void test_default_path(void)
{
        struct config *config;
        struct config_files *files;
        struct error err = {0};

        check_eq_int(mkdir(in_directory("cloister"), 0755), 0);
        write_file("cloister/config.json", SERVER("mine"), 0644);
        setenv("XDG_CONFIG_HOME", directory, 1);
        check_ok(open_path(NULL, false, &config, &files, &err));
        check_eq_int(config->n_servers, 1);
        done(config, files);
        setenv("XDG_CONFIG_HOME", "/nowhere", 1);
        check_ok(open_path(NULL, false, &config, &files, &err));
        check_eq_int(config_files_count(files), access("/etc/cloister/config.json", F_OK) == 0);
        done(config, files);
}

static void test_trusted_only(void)
{
        struct config *config;
        struct config_files *files;
        struct error err = {0};

        if (geteuid() != 0) {
                check_refused(in_directory("a.json"), true, "chown root");
                return;
        }
        write_file("b.json", SERVER("second"), 0664);
        check_refused(in_directory("b.json"), true, "chmod go-w");
        check_eq_int(chown(in_directory("b.json"), 1, 1), 0);
        check_refused(in_directory("b.json"), true, "chown root");
        /* The control; in a directory, the other files are read. */
        check_ok(open_path(in_directory("a.json"), true, &config, &files, &err));
        done(config, files);
        check_ok(open_path(directory, true, &config, &files, &err));
        check_eq_int(config_files_count(files), 1);
        done(config, files);
        check_ok(open_path(directory, false, &config, &files, &err));
        check_eq_int(config_files_count(files), 2);
        done(config, files);
}

static int open_again(const char *path, const struct config_files *before, struct config **config,
                      struct config_files **files, struct error *err)
{
        *config = config_new();
        *files = NULL;
        return config_files_open(&path, 1, false, before, *config, files, err);
}

static void test_read_again(void)
{
        struct config *config, *again;
        struct config_files *files, *now;
        struct error err = {0};

        log_set_level(LOG_LEVEL_ERROR);
        check_eq_int(mkdir(in_directory("again"), 0700), 0);
        write_file("again/a.json", SERVER("a"), 0644);
        write_file("again/b.json", "{", 0644);
        check_ok(open_path(in_directory("again"), false, &config, &files, &err));
        check_ok(open_again(in_directory("again"), files, &again, &now, &err));
        check(config_files_same(files, now));
        done(again, now);

        write_file("again/b.json", SERVER("b"), 0644);
        check_ok(open_again(in_directory("again"), files, &again, &now, &err));
        check(!config_files_same(files, now));
        check_eq_int(again->n_servers, 2);
        done(config, files);

        /* A file that was valid before is not skipped: its servers would disappear. */
        write_file("again/b.json", "{\n\"timeout\": \"x\"}", 0644);
        check_eq_int(open_again(in_directory("again"), now, &config, &files, &err), -EINVAL);
        check_has(err.text, "again/b.json: line 2: ");
        done(config, NULL);
        check_eq_int(unlink(in_directory("again/b.json")), 0);
        check_ok(open_again(in_directory("again"), now, &config, &files, &err));
        check_eq_int(config->n_servers, 1);
        done(config, files);
        done(again, now);
        check_eq_int(unlink(in_directory("again/a.json")), 0);
        check_eq_int(rmdir(in_directory("again")), 0);
}

static void test_pipe_is_read_once(void)
{
        struct config *config, *again;
        struct config_files *files, *now;
        struct error err = {0};
        char path[64];
        int fds[2];

        check_eq_int(pipe2(fds, O_CLOEXEC), 0);
        check_eq_int(fd_write_all(fds[1], SERVER("p"), strlen(SERVER("p"))), 0);
        close(fds[1]);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
        check_ok(open_path(path, false, &config, &files, &err));
        close(fds[0]);
        check_ok(open_again(path, files, &again, &now, &err));
        check_eq_str(again->servers[0].name, "p");
        check(config_files_same(files, now));
        done(config, files);
        done(again, now);
}

int main(void)
{
        char command[128];

        snprintf(directory, sizeof(directory), "/tmp/test-config-files-XXXXXX");
        check(mkdtemp(directory));
        run(test_read_again);
        run(test_pipe_is_read_once);
        run(test_directory_in_order);
        run(test_sealed);
        run(test_named_file_invalid);
        run(test_too_large);
        run(test_pipe);
        run(test_default_path);
        run(test_trusted_only);
        snprintf(command, sizeof(command), "rm -r %s", directory);
        check_eq_int(system(command), 0);
        return 0;
}
