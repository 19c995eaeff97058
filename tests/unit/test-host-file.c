/* Files that Cloister writes on the host: what is opened, checked, truncated. */
#include "base/host-file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/test.h"

static char folder[] = "/tmp/cloister-test-host-file-XXXXXX";
static int dir;

static void put(const char *name, mode_t mode)
{
        _cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        check_eq_int(write(fd, "text", 4), 4);
        check_eq_int(fchmod(fd, mode), 0);
}

static struct stat about(const char *name)
{
        struct stat st = {};

        check_eq_int(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW), 0);
        return st;
}

static void refuse(enum host_file file, const char *name, int code, const char *why)
{
        struct error err = {};

        check_eq_int(host_file_open(file, dir, name, &err), -code);
        check_has(err.text, why);
}

static void test_new(void)
{
        static const struct {
                enum host_file file;
                unsigned mode;
        } rows[] = {{HOST_FILE_LOG, 0600},          {HOST_FILE_HISTORY, 0600},
                    {HOST_FILE_CATALOGUE, 0600},    {HOST_FILE_TOKENS, 0600},
                    {HOST_FILE_STORE_LOCK, 0600},   {HOST_FILE_IMAGE_FILE, 0644},
                    {HOST_FILE_IMAGE_PROGRAM, 0755}};

        umask(0);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_close_ int fd = host_file_open(rows[i].file, dir, "new", NULL);
                check(fd >= 0);
                check_eq_int(fcntl(fd, F_GETFD), FD_CLOEXEC);
                check_eq_int(about("new").st_mode & 07777, rows[i].mode);
                check_eq_int(unlinkat(dir, "new", 0), 0);
        }
}

/* A file that existed is checked first; nothing is written to one that is refused. */
static void test_existing(void)
{
        put("old", 0666);
        refuse(HOST_FILE_CONFIG, "old", EEXIST, "File exists");
        check_eq_int(linkat(dir, "old", dir, "second", 0), 0);
        refuse(HOST_FILE_HISTORY, "old", EPERM, "the file has other names (hard links)");
        check_eq_int(about("old").st_size, 4);
        check_eq_int(unlinkat(dir, "second", 0), 0);
        if (geteuid() == 0) {
                check_eq_int(fchownat(dir, "old", 65534, 65534, 0), 0);
                refuse(HOST_FILE_HISTORY, "old", EPERM, "it belongs to another user");
                check_eq_int(about("old").st_size, 4);
                check_eq_int(fchownat(dir, "old", 0, 0, 0), 0);
        }
        _cleanup_close_ int fd = host_file_open(HOST_FILE_HISTORY, dir, "old", NULL);
        check(fd >= 0);
        check_eq_int(about("old").st_size, 0);
        check_eq_int(about("old").st_mode & 07777, 0600);
}

/* Links and what is not a regular file, for rows of each kind. No open waits for a FIFO. */
static void test_other_kinds(void)
{
        static const enum host_file kinds[] = {HOST_FILE_LOG, HOST_FILE_HISTORY,
                                               HOST_FILE_STORE_LOCK, HOST_FILE_PACKAGES_LOCK};

        put("target", 0600);
        check_eq_int(symlinkat("target", dir, "link"), 0);
        check_eq_int(symlinkat("nowhere", dir, "dangling"), 0);
        check_eq_int(mkfifoat(dir, "fifo", 0600), 0);
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                refuse(kinds[i], "link", ELOOP, "symbolic links");
                refuse(kinds[i], "dangling", ELOOP, "symbolic links");
                refuse(kinds[i], "fifo", EINVAL, "it is not a regular file");
        }
        refuse(HOST_FILE_CONFIG, "dangling", EEXIST, "File exists");
        check_eq_int(about("target").st_size, 4);
        check_eq_int(faccessat(dir, "nowhere", F_OK, 0), -1);
        refuse(HOST_FILE_LOG, "/dev/null", EINVAL, "it is not a regular file");
}

/* Nothing is written to a lock, so it may be a file with two names. Its contents stay. */
static void test_lock(void)
{
        put("lock", 0666);
        check_eq_int(linkat(dir, "lock", dir, "lock2", 0), 0);
        _cleanup_close_ int fd = host_file_open(HOST_FILE_STORE_LOCK, dir, "lock", NULL);
        check(fd >= 0);
        check_eq_int(about("lock").st_size, 4);
        check_eq_int(about("lock").st_mode & 07777, 0600);
}

int main(void)
{
        static const char *const names[] = {"old",  "target", "link", "dangling",
                                            "fifo", "lock",   "lock2"};

        check(mkdtemp(folder));
        dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        run(test_new);
        run(test_existing);
        run(test_other_kinds);
        run(test_lock);
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                check_eq_int(unlinkat(dir, names[i], 0), 0);
        return rmdir(folder);
}
