/* The process that writes the files of `run --out`, in a directory with a link that leads out of it. The
 * first byte: whether names with a leading dot are allowed; then the stream. Whatever comes, nothing
 * outside changes, and no temporary file is left. Accepted when all files were written. */
#include "supervisor/cli/sessions/receiver.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rpc/file-stream.h"
#include "tests/fuzz/fuzz.h"

enum { STREAM_MAX = 100000 }; /* fits the socket */

static char folder[64], out[80], canary[80];
static const char content[] = "as it was";

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
        return strcmp(path, folder) == 0 || strcmp(path, canary) == 0 ? 0 : remove(path);
}

static void remove_all(void)
{
        nftw(folder, remove_one, 64, FTW_DEPTH | FTW_PHYS);
        unlink(canary);
        rmdir(folder);
}

static void make_folder(void)
{
        snprintf(folder, sizeof(folder), "/dev/shm/fuzz-receiver-XXXXXX");
        assert(mkdtemp(folder));
        snprintf(out, sizeof(out), "%s/out", folder);
        snprintf(canary, sizeof(canary), "%s/canary", folder);
        int fd = open(canary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert(fd >= 0 && fd_write_all(fd, content, sizeof(content)) == 0);
        close(fd);
        atexit(remove_all);
}

static int open_out(void)
{
        char link[96];

        nftw(folder, remove_one, 64, FTW_DEPTH | FTW_PHYS);
        assert(mkdir(out, 0755) == 0);
        snprintf(link, sizeof(link), "%s/file", out);
        assert(symlink("../canary", link) == 0);
        snprintf(link, sizeof(link), "%s/up", out);
        assert(symlink("..", link) == 0);
        int fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert(fd >= 0);
        return fd;
}

static void check_outside(void)
{
        char now[sizeof(content) + 1];
        _cleanup_close_ int fd = open(canary, O_RDONLY | O_CLOEXEC);
        int entries = 0;

        assert(fd >= 0 && fd_read_full(fd, now, sizeof(now)) == sizeof(content));
        assert(memcmp(now, content, sizeof(content)) == 0);
        DIR *d = opendir(folder);
        assert(d);
        for (const struct dirent *e; (e = readdir(d));)
                entries += e->d_name[0] != '.';
        closedir(d);
        assert(entries == 2);
}

static uint32_t n_files;
static bool hidden;

/* Temporary files have a leading dot. */
static int check_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
        assert(hidden || path[at->base] != '.');
        n_files += S_ISREG(st->st_mode);
        return 0;
}

static void check_inside(const struct file_stream_reply *reply)
{
        n_files = 0;
        nftw(out, check_one, 64, FTW_PHYS);
        assert(n_files <= reply->files);
        assert(memchr(reply->text, '\0', sizeof(reply->text)));
        assert((reply->code == 0) == (reply->text[0] == '\0'));
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        struct file_stream_reply reply = {};
        int pair[2];

        if (n < 1 || n > STREAM_MAX)
                return false;
        if (!*folder)
                make_folder();
        hidden = data[0] & 1;
        _cleanup_close_ int directory = open_out();
        assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
        _cleanup_close_ int ours = pair[0];
        _cleanup_close_ int theirs = pair[1];
        assert(fd_write_all(ours, data + 1, n - 1) == 0 && shutdown(ours, SHUT_WR) == 0);
        receiver_serve(theirs, directory, hidden);
        bool answered = recv(ours, &reply, sizeof(reply), MSG_DONTWAIT) == sizeof(reply);
        check_outside();
        if (answered)
                check_inside(&reply);
        return answered && reply.code == 0;
}

FUZZ_TARGET
