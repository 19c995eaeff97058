/* The tools of each server, kept from the last run. */
#include "supervisor/hub/cache/cache.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/host-file.h"
#include "base/json-out.h"
#include "base/log.h"

int cache_request_store(int socket, uint64_t key, const void *content, size_t n)
{
        const struct cache_request request = {key};

        _cleanup_close_ int fd = fd_sealed("cache", content, n, NULL);
        return fd < 0 ? fd : fd_send(socket, &request, sizeof(request), &fd, 1, MSG_DONTWAIT);
}

static const char *const era_names[] = {
        [HUB_ERA_UNKNOWN] = "unknown",
        [HUB_ERA_LEGACY] = "legacy",
        [HUB_ERA_MODERN] = "modern",
};
static_assert(ARRAY_SIZE(era_names) == HUB_ERA_MAX, "a name for each era");

const char *hub_era_name(enum hub_era era)
{
        return era < HUB_ERA_MAX ? era_names[era] : "?";
}

/* HUB_ERA_UNKNOWN for any other text and for NULL. */
static enum hub_era find_era(const char *name)
{
        for (int i = 0; name && i < HUB_ERA_MAX; i++) {
                if (strcmp(name, era_names[i]) == 0)
                        return (enum hub_era)i;
        }
        return HUB_ERA_UNKNOWN;
}

enum {
        FORMAT = 1,     /* of the file; files of another format are ignored */
        ABANDONED = 60, /* seconds after which a temporary file is removed */
        NAME_SIZE = 32,
};

static int writer = -1; /* of hub_cache_use_writer(), or none */

static void file_name(char to[NAME_SIZE], uint64_t key, const char *suffix)
{
        snprintf(to, NAME_SIZE, "%016" PRIx64 ".%s", key, suffix);
}

/* Returns whether it was removed. */
static bool remove_old(int dir, const char *name, time_t before)
{
        struct stat about;

        return fstatat(dir, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode) &&
               about.st_mtime < before && unlinkat(dir, name, 0) == 0;
}

/* Removes the files that were not used for `days` days. Returns how many files are left, or negative errno. */
static int sweep(int dir, int days)
{
        DIR *listing = fd_open_directory(dir, ".");
        if (!listing)
                return -errno;

        time_t now = time(NULL);
        int n = 0;
        for (struct dirent *entry; (entry = readdir(listing));) {
                const char *dot = strrchr(entry->d_name, '.');
                bool is_gone = false;
                if (dot && strcmp(dot, ".json") == 0)
                        is_gone = remove_old(dir, entry->d_name, now - days * 24L * 3600);
                else if (dot && strcmp(dot, ".new") == 0)
                        is_gone = remove_old(dir, entry->d_name, now - ABANDONED);
                n += !is_gone && entry->d_name[0] != '.';
        }
        closedir(listing);
        return n;
}

int hub_cache_open(int state_dir)
{
        static const char folder[] = "catalogue";

        if (state_dir < 0)
                return -EBADF;
        if (mkdirat(state_dir, folder, 0700) < 0 && errno != EEXIST)
                return -errno;
        _cleanup_close_ int dir = openat(state_dir, folder,
                                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (dir < 0)
                return -errno;
        int days = HUB_CACHE_DAYS, n = sweep(dir, days);
        /* A full cache makes room: files that were unused for fewer and fewer days go, at -1 all. */
        while (n >= HUB_CACHE_FILES_MAX && days >= 0) {
                days = days > 0 ? days / 2 : -1;
                n = sweep(dir, days);
        }
        return n < 0 ? n : n > HUB_CACHE_FILES_MAX ? -ENOSPC : take_fd(dir);
}

static int open_to_read(int dir, uint64_t key)
{
        char name[NAME_SIZE];
        struct stat about;

        file_name(name, key, "json");
        /* O_NONBLOCK: opening a FIFO must not block. */
        _cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &about) < 0)
                return -errno;
        if (!S_ISREG(about.st_mode) || about.st_size > HUB_CACHE_FILE_MAX)
                return -EFBIG;
        return take_fd(fd);
}

/* The file is in use: its age counts from now. If that fails, it is only removed too early. */
static void touch(int dir, uint64_t key)
{
        char name[NAME_SIZE];

        file_name(name, key, "json");
        utimensat(dir, name, NULL, AT_SYMLINK_NOFOLLOW);
}

/* Reads the entry from the document. Returns false if anything is invalid. */
static int parse(const char *data, size_t n, uint64_t key, struct hub_cache_entry *ret)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        int64_t format = 0;
        char expected[NAME_SIZE];

        if (json_parse(data, n, &doc, NULL) < 0)
                return -EBADMSG;
        yyjson_val *root = yyjson_doc_get_root(doc);
        snprintf(expected, sizeof(expected), "%016" PRIx64, key);
        if (json_int64(yyjson_obj_get(root, "format"), &format) < 0 || format != FORMAT ||
            !yyjson_equals_str(yyjson_obj_get(root, "key"), expected))
                return -EBADMSG;

        _cleanup_hub_tools_ struct hub_tools *tools = hub_tools_new();
        if (!tools)
                return -ENOMEM;
        int r = hub_tools_add(tools, yyjson_obj_get(root, "tools"));
        if (r < 0)
                return r;

        size_t length = 0;
        const char *instructions = json_string(root, "instructions", &length);
        if (length > HUB_INSTRUCTIONS_MAX)
                return -EBADMSG;
        char *copy = instructions ? strdup(instructions) : NULL;
        if (instructions && !copy)
                return -ENOMEM;
        ret->era = find_era(json_string(root, "era", NULL));
        ret->instructions = copy;
        ret->tools = take_ptr(tools);
        return 0;
}

int hub_cache_load(int dir, uint64_t key, const char *server, struct hub_cache_entry *ret)
{
        _cleanup_free_ char *data = NULL;
        size_t n = 0;

        if (dir < 0)
                return 0;
        _cleanup_close_ int fd = open_to_read(dir, key);
        if (fd == -ENOENT)
                return 0;
        int r = fd < 0 ? fd : fd_read_whole(fd, HUB_CACHE_FILE_MAX, &data, &n, NULL);
        if (r >= 0)
                r = parse(data, n, key, ret);
        if (r < 0) {
                log_info(
                        "server %s: its cached catalogue is not usable (%s); the server is asked again",
                        server, strerrordesc_np(-r));
                return 0;
        }
        const struct cache_request request = {key};
        if (writer >= 0)
                fd_send(writer, &request, sizeof(request), NULL, 0, MSG_DONTWAIT);
        else
                touch(dir, key);
        return 1;
}

static int compose(struct buffer *b, uint64_t key, const struct hub_cache_entry *entry)
{
        const struct buffer *text = hub_tools_text(entry->tools);
        struct json_out out = {.to = b};
        char name[NAME_SIZE];

        snprintf(name, sizeof(name), "%016" PRIx64, key);
        json_out_begin(&out, NULL, '{');
        json_out_int(&out, "format", FORMAT);
        json_out_text(&out, "key", name);
        json_out_text(&out, "era", hub_era_name(entry->era));
        if (entry->instructions)
                json_out_text(&out, "instructions", entry->instructions);
        json_out_begin(&out, "tools", '[');
        if (text->length > 0)
                json_out_raw(&out, NULL, buffer_bytes(text), text->length);
        json_out_end(&out, ']');
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append(b, "\n", 1);
}

static int write_file(int dir, const char *name, const char *content, size_t n)
{
        _cleanup_close_ int fd = host_file_open(HOST_FILE_CATALOGUE, dir, name, NULL);

        return fd < 0 ? fd : fd_write_all(fd, content, n);
}

/* Bytes and number of the files other than this one. */
static int measure(int dir, const char *except, uint64_t *bytes, size_t *files)
{
        DIR *listing = fd_open_directory(dir, ".");
        struct stat about;

        if (!listing)
                return -EIO;
        *bytes = *files = 0;
        for (struct dirent *entry; (entry = readdir(listing));) {
                if (strcmp(entry->d_name, except) == 0 ||
                    fstatat(dir, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) < 0 ||
                    !S_ISREG(about.st_mode))
                        continue;
                *bytes += (uint64_t)about.st_size;
                (*files)++;
        }
        closedir(listing);
        return 0;
}

int hub_cache_store(int dir, uint64_t key, const char *content, size_t n)
{
        char name[NAME_SIZE], temporary[NAME_SIZE];
        uint64_t bytes;
        size_t files;

        file_name(name, key, "json");
        file_name(temporary, key, "new");
        int r = measure(dir, name, &bytes, &files);
        if (r < 0)
                return r;
        if (files >= HUB_CACHE_FILES_MAX || n > HUB_CACHE_FILE_MAX ||
            bytes + n > HUB_CACHE_BYTES_MAX)
                return -ENOSPC;
        r = write_file(dir, temporary, content, n);
        /* Another process is writing the same file, or was killed while doing so: then a later
         * hub_cache_open() removes the temporary file. */
        if (r == -EEXIST)
                return 0;
        if (r >= 0 && renameat(dir, temporary, dir, name) < 0)
                r = -errno;
        if (r < 0)
                unlinkat(dir, temporary, 0);
        return r;
}

void hub_cache_use_writer(int socket)
{
        writer = socket;
}

void hub_cache_finish(void)
{
        struct pollfd p = {.fd = writer, .events = POLLIN};

        if (writer < 0 || shutdown(writer, SHUT_WR) < 0)
                return;
        poll(&p, 1, HUB_CACHE_FINISH_MS); /* its end closes when it ends */
        writer = -1;
}

int hub_cache_save(int dir, uint64_t key, const struct hub_cache_entry *entry)
{
        _cleanup_buffer_ struct buffer content = BUFFER_INIT(HUB_CACHE_FILE_MAX);

        if (dir < 0)
                return 0;
        int r = compose(&content, key, entry);
        if (r < 0)
                return r;
        return writer >= 0
                       ? cache_request_store(writer, key, buffer_bytes(&content), content.length)
                       : hub_cache_store(dir, key, buffer_bytes(&content), content.length);
}

/* The broker is not trusted: a file that is too long, and a descriptor of another type, are not read. */
static void take(int dir, uint64_t key, int fd)
{
        _cleanup_free_ char *content = NULL;
        struct stat st;
        size_t n = 0;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > HUB_CACHE_FILE_MAX ||
            lseek(fd, 0, SEEK_SET) != 0)
                return;
        if (fd_read_whole(fd, HUB_CACHE_FILE_MAX, &content, &n, NULL) >= 0)
                hub_cache_store(dir, key, content, n);
}

void cache_writer_serve(int socket, int dir)
{
        for (;;) {
                struct cache_request request;
                int fd = -1;
                size_t count = 1;

                ssize_t n = fd_receive(socket, &request, sizeof(request), &fd, &count, NULL, 0);
                if (n == 0 || (n < 0 && n != -EPROTO))
                        return;
                if (n == sizeof(request) && count == 1)
                        take(dir, request.key, fd);
                else if (n == sizeof(request))
                        touch(dir, request.key);
                if (n > 0 && count == 1)
                        close(fd);
        }
}
