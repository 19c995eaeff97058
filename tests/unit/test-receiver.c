/* The process that writes --out: what it writes, and what a hostile stream cannot make it write. */
#include "supervisor/cli/sessions/receiver.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "rpc/file-stream.h"
#include "tests/unit/test.h"

static char folder[64], out[128];
static bool hidden;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
        return remove(path);
}

static void make_folder(void)
{
        snprintf(folder, sizeof(folder), "/tmp/cloister-test-XXXXXX");
        check(mkdtemp(folder));
        snprintf(out, sizeof(out), "%s/out", folder);
}

static void remove_folder(void)
{
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void put(struct buffer *b, enum file_stream_type type, const char *text)
{
        check_eq_int(file_stream_append(b, type, text, strlen(text)), 0);
}

static void put_file(struct buffer *b, const char *path, const char *content)
{
        put(b, FILE_STREAM_FILE, path);
        put(b, FILE_STREAM_DATA, content);
        put(b, FILE_STREAM_CLOSE, "");
}

/* Sends a stream to a new receiver. Returns whether there was an answer. */
static bool receive(const struct buffer *stream, struct file_stream_reply *reply)
{
        struct error err = {};
        int fd = receiver_start(out, hidden, &err);

        check(fd >= 0);
        if (stream->length > 0)
                send(fd, buffer_bytes(stream), stream->length, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        bool answered = fd_read_full(fd, reply, sizeof(*reply)) == sizeof(*reply);
        close(fd);
        return answered;
}

static void check_content(const char *name, const char *expected)
{
        char path[256], text[256];
        ssize_t n = -1;

        snprintf(path, sizeof(path), "%s/%s", out, name);
        int fd = open(path, O_RDONLY);
        if (fd >= 0) {
                n = read(fd, text, sizeof(text));
                close(fd);
        }
        check(n >= 0);
        check_eq_bytes(text, (size_t)n, expected);
}

static int count_entries(const char *path)
{
        DIR *d = opendir(path);
        int n = 0;

        while (d && readdir(d))
                n++;
        if (d)
                closedir(d);
        return n - 2;
}

static void test_files(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(1024 * 1024);
        struct file_stream_reply reply;
        struct stat st;
        char path[256];

        make_folder();
        umask(027);
        put_file(&b, "a.csv", "1,2");
        put_file(&b, "d/e/f", "deep");
        put(&b, FILE_STREAM_FILE, "half");
        put(&b, FILE_STREAM_DATA, "lost");
        put(&b, FILE_STREAM_ABORT, "");
        put(&b, FILE_STREAM_FILE, "empty");
        put(&b, FILE_STREAM_CLOSE, "");
        put(&b, FILE_STREAM_END, "");
        check(receive(&b, &reply));
        check_eq_str(reply.text, "");
        check(reply.code == 0 && reply.files == 3);
        check_content("a.csv", "1,2");
        check_content("d/e/f", "deep");
        check_content("empty", "");
        check_eq_int(count_entries(out), 3);
        snprintf(path, sizeof(path), "%s/a.csv", out);
        check_eq_int(stat(path, &st), 0);
        check_eq_int(st.st_mode & 0777, 0640);

        /* Again: existing files are replaced. */
        buffer_consume(&b, b.length);
        put_file(&b, "a.csv", "new");
        put(&b, FILE_STREAM_END, "");
        check(receive(&b, &reply) && reply.code == 0);
        check_content("a.csv", "new");
        remove_folder();
}

/* Streams that end the receiver with a reason; nothing is written. */
static void test_hostile(void)
{
        static const char *const paths[] = {
                "/etc/cloister-test", "../escaped", "a/../../escaped", ".",   "", "a//b",
                "line\nbreak",        "a/",         "\x1b[31m",        "\xff"};
        struct file_stream_reply reply;

        make_folder();
        for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);
                put_file(&b, paths[i], "x");
                put(&b, FILE_STREAM_END, "");
                check(receive(&b, &reply));
                check_eq_int(reply.code, EBADMSG);
                check_eq_int(count_entries(out), 0);
                check_eq_int(count_entries(folder), 1);
        }
        for (int type = 0; type < 8; type++) {
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);
                if (type == FILE_STREAM_FILE || type == FILE_STREAM_END)
                        continue;
                put(&b, (enum file_stream_type)type, "");
                check(receive(&b, &reply));
                check_eq_int(reply.code, EBADMSG);
        }
        remove_folder();
}

/* A broker that sends names with a leading dot gets nothing written, unless they are allowed. */
static void test_hidden(void)
{
        static const char *const paths[] = {".bashrc", ".git/config", "a/.b", "a/.b/c", "..."};
        struct file_stream_reply reply;

        for (size_t i = 0; i < 2 * ARRAY_SIZE(paths); i++) {
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);
                make_folder();
                hidden = i >= ARRAY_SIZE(paths);
                put_file(&b, paths[i % ARRAY_SIZE(paths)], "x");
                put_file(&b, "a.b/c.", "seen");
                put(&b, FILE_STREAM_END, "");
                check(receive(&b, &reply));
                check_eq_int(reply.code, hidden ? 0 : EPERM);
                check_eq_int(reply.files, hidden ? 2 : 0);
                check_eq_int(count_entries(out) > 0, hidden);
                remove_folder();
        }
        hidden = false;
}

/* A truncated stream leaves no partial file. */
static void test_broken_off(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);
        struct file_stream_reply reply;

        make_folder();
        put_file(&b, "whole", "1");
        put(&b, FILE_STREAM_FILE, "half");
        put(&b, FILE_STREAM_DATA, "2");
        check(!receive(&b, &reply));
        check_content("whole", "1");
        check_eq_int(count_entries(out), 1);
        remove_folder();
}

/* Existing symbolic links in the directory are not followed; a link of the same name is itself
 * replaced. */
static void test_links(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096), c = BUFFER_INIT(4096);
        struct file_stream_reply reply;
        char path[256], target[256];

        make_folder();
        check_eq_int(mkdir(out, 0777), 0);
        snprintf(target, sizeof(target), "%s/target", folder);
        check_eq_int(mkdir(target, 0777), 0);
        snprintf(path, sizeof(path), "%s/link", out);
        check_eq_int(symlink(target, path), 0);
        put_file(&b, "link/x", "1");
        put(&b, FILE_STREAM_END, "");
        check(receive(&b, &reply));
        check(reply.code == ELOOP || reply.code == ENOTDIR);
        check_has(reply.text, "link/x");
        check_eq_int(count_entries(target), 0);

        put_file(&c, "link", "mine");
        put(&c, FILE_STREAM_END, "");
        check(receive(&c, &reply) && reply.code == 0);
        check_content("link", "mine");
        check_eq_int(count_entries(target), 0);
        remove_folder();
}

static void test_directory(void)
{
        struct error err = {};

        make_folder();
        snprintf(out, sizeof(out), "%s/none/out", folder);
        check_eq_int(receiver_start(out, hidden, &err), -ENOENT);
        check_has(err.text, "--out ");
        snprintf(out, sizeof(out), "%s/file", folder);
        close(open(out, O_CREAT | O_WRONLY, 0600));
        err = (struct error){};
        check_eq_int(receiver_start(out, hidden, &err), -ENOTDIR);
        remove_folder();
}

/* The receiver is not a child of its caller, so that the monitor, which the caller becomes, has no
 * unknown child. */
static void test_no_child(void)
{
        struct error err = {};

        make_folder();
        int fd = receiver_start(out, hidden, &err);
        check(fd >= 0);
        check(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
        close(fd);
        remove_folder();
}

int main(void)
{
        signal(SIGPIPE, SIG_IGN);
        run(test_files);
        run(test_hostile);
        run(test_hidden);
        run(test_broken_off);
        run(test_links);
        run(test_directory);
        run(test_no_child);
        return 0;
}
