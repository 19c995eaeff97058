/* Token files, and logins as JSON. */
#include "supervisor/oauth/store.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/host-file.h"
#include "base/json-out.h"
#include "base/json.h"
#include "base/path.h"
#include "base/places.h"

enum { FILE_MAX = 128 * 1024, VERSION = 1 };

/* ---- a login as JSON ---- */

/* The members that are texts, and where they are. */
static const struct {
        const char *key;
        size_t offset, size;
        bool printable; /* ASCII without blanks */
} texts[] = {
#define TEXT(key, field, printable)                                                                \
        {                                                                                          \
                key, offsetof(struct oauth_record, field),                                         \
                        sizeof(((struct oauth_record *)0)->field), printable                       \
        }
        TEXT("name", name, false),
        TEXT("url", url, true),
        TEXT("resource", resource, true),
        TEXT("issuer", issuer, true),
        TEXT("token_endpoint", token_endpoint, true),
        TEXT("revocation_endpoint", revocation_endpoint, true),
        TEXT("scope", scope, false),
        TEXT("client_id", client.id, true),
        TEXT("client_secret", client.secret, true),
        TEXT("private_key", client.key, true),
        TEXT("key_id", client.key_id, true),
        TEXT("access_token", tokens.access, true),
        TEXT("refresh_token", tokens.refresh, true),
#undef TEXT
};

int oauth_record_append(const struct oauth_record *record, struct buffer *to)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        json_out_int(&out, "version", VERSION);
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                const char *text = (const char *)record + texts[i].offset;
                if (*text)
                        json_out_text(&out, texts[i].key, text);
        }
        json_out_text(&out, "method", oauth_method_name(record->client.method));
        json_out_int(&out, "port", record->client.port);
        json_out_bool(&out, "registered", record->registered);
        json_out_bool(&out, "client_credentials", record->credentials);
        json_out_bool(&out, "private", record->private);
        json_out_int(&out, "obtained", record->obtained);
        json_out_int(&out, "expires", record->expires);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append_text(to, "\n");
}

static bool is_printable(const char *text, size_t n, bool strict)
{
        for (size_t i = 0; i < n; i++) {
                unsigned char c = (unsigned char)text[i];
                if (c < ' ' || c == 0x7f || (strict && (c == ' ' || c > '~')))
                        return false;
        }
        return true;
}

static int take_texts(yyjson_val *root, struct oauth_record *ret, struct error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                size_t n = 0;
                const char *text = json_string(root, texts[i].key, &n);
                if (!text)
                        continue;
                if (n >= texts[i].size || !is_printable(text, n, texts[i].printable))
                        return error_set(err, EBADMSG, "\"%s\" is not valid", texts[i].key);
                memcpy((char *)ret + texts[i].offset, text, n + 1);
        }
        return 0;
}

static int64_t number(yyjson_val *root, const char *key, int64_t most)
{
        int64_t value = 0;

        if (json_int64(yyjson_obj_get(root, key), &value) < 0 || value < 0 || value > most)
                return 0;
        return value;
}

int oauth_record_parse(const char *data, size_t n, struct oauth_record *ret, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        const int64_t latest = 1LL << 40;

        int r = json_parse_bounded(data, n, OAUTH_VALUES_MAX, &doc, err);
        if (r < 0)
                return r;
        yyjson_val *root = yyjson_doc_get_root(doc);
        if (number(root, "version", VERSION) != VERSION)
                return error_set(err, EBADMSG, "it is of another version of Cloister");
        *ret = (struct oauth_record){
                .registered = yyjson_is_true(yyjson_obj_get(root, "registered")),
                .credentials = yyjson_is_true(yyjson_obj_get(root, "client_credentials")),
                .private = yyjson_is_true(yyjson_obj_get(root, "private")),
                .obtained = number(root, "obtained", latest),
                .expires = number(root, "expires", latest),
        };
        r = take_texts(root, ret, err);
        if (r < 0)
                return r;
        const char *method = json_string(root, "method", NULL);
        int found = method ? oauth_method_from_name(method) : -EINVAL;
        if (found < 0 || !*ret->url || !*ret->issuer || !*ret->token_endpoint || !*ret->client.id ||
            !*ret->resource)
                return error_set(err, EBADMSG, "it is not complete");
        ret->client.method = (enum oauth_method)found;
        ret->client.port = (uint16_t)number(root, "port", UINT16_MAX);
        return 0;
}

/* ---- files ---- */

static int make_key(const char *name, const char *url, char key[OAUTH_KEY_LENGTH + 1],
                    struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(OAUTH_NAME_MAX + OAUTH_URL_MAX + 2);
        unsigned char digest[EVP_MAX_MD_SIZE];

        if (buffer_append(&text, name, strlen(name) + 1) < 0 || buffer_append_text(&text, url) < 0)
                return error_set(err, EINVAL, "the server's name or url is too long");
        if (EVP_Digest(buffer_bytes(&text), text.length, digest, NULL, EVP_sha256(), NULL) != 1)
                return error_errno(err, ENOMEM, "SHA-256");
        for (int i = 0; i < OAUTH_KEY_LENGTH / 2; i++)
                snprintf(key + 2 * i, 3, "%02x", digest[i]);
        return 0;
}

static int check_ours(const struct stat *st, const char *path, struct error *err)
{
        if (st->st_uid != geteuid())
                return error_set(err, EPERM, "%s belongs to user %u, not to you", path, st->st_uid);
        if (st->st_mode & 077)
                return error_set(
                        err, EPERM,
                        "%s is open to other users (mode %04o): 'chmod go= %s', and revoke what it had",
                        path, st->st_mode & 07777, path);
        return 0;
}

int oauth_store_cannot_make(const char *path, int code, struct error *err)
{
        return error_set(
                err, code,
                "tokens: cannot write to %s: %s; set XDG_STATE_HOME to a directory where you can",
                path, strerror(code));
}

static int open_directory(struct oauth_store *store, bool make, struct error *err)
{
        struct stat st;

        if (place_state("oauth", store->path, sizeof(store->path)) < 0)
                return error_set(err, ENOENT, "tokens: " PLACE_STATE_MISSING);
        if (make) {
                int r = path_make_directories(store->path, 0700);
                if (r < 0)
                        return oauth_store_cannot_make(store->path, -r, err);
        }
        store->directory = open(store->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (store->directory < 0 && (errno == ENOTDIR || errno == ELOOP))
                return error_set(
                        err, errno,
                        "tokens: open %s: it is not a directory; a symbolic link is not followed",
                        store->path);
        if (store->directory < 0)
                return error_errno(err, errno, "tokens: open %s", store->path);
        if (make && faccessat(store->directory, ".", W_OK | X_OK, AT_EACCESS) < 0)
                return oauth_store_cannot_make(store->path, errno, err);
        if (fstat(store->directory, &st) < 0)
                return error_errno(err, errno, "tokens: %s", store->path);
        return check_ours(&st, store->path, err);
}

int oauth_store_open(struct oauth_store *store, const char *name, const char *url, bool make,
                     struct error *err)
{
        *store = (struct oauth_store){.name = name, .url = url, .directory = -1, .lock = -1};
        int r = make_key(name, url, store->key, err);
        if (r >= 0)
                r = open_directory(store, make, err);
        if (r < 0)
                oauth_store_close(store);
        return r;
}

void oauth_store_close(struct oauth_store *store)
{
        if (store->directory >= 0)
                close(take_fd(store->directory));
        if (store->lock >= 0)
                close(take_fd(store->lock));
}

static void file_name(const struct oauth_store *store, const char *kind, char ret[64])
{
        snprintf(ret, 64, "%s.%s", store->key, kind);
}

int oauth_store_lock(struct oauth_store *store, struct error *err)
{
        const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
        uint64_t until = clock_ms() + OAUTH_LOCK_MS;
        char name[64];

        file_name(store, "lock", name);
        _cleanup_close_ int fd = host_file_open(HOST_FILE_TOKENS_LOCK, store->directory, name, err);
        if (fd < 0)
                return error_context(err, "tokens: open %s/%s", store->path, name);
        while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK && errno != EINTR)
                        return error_errno(err, errno, "tokens: lock");
                if (clock_ms() > until)
                        return error_set(err, ETIMEDOUT,
                                         "tokens: another Cloister holds %s/%s for too long",
                                         store->path, name);
                nanosleep(&pause, NULL);
        }
        store->lock = take_fd(fd);
        return 0;
}

static int check_file(int fd, const char *path, struct error *err)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return error_errno(err, errno, "tokens: %s", path);
        if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
                return error_set(err, EPERM, "tokens: %s is not a regular file with one link",
                                 path);
        return check_ours(&st, path, err);
}

int oauth_store_read(const struct oauth_store *store, struct oauth_record *ret, struct error *err)
{
        char file[64], path[600];
        char *text = NULL;
        size_t n = 0;

        file_name(store, "json", file);
        snprintf(path, sizeof(path), "%s/%s", store->path, file);
        _cleanup_close_ int fd = openat(store->directory, file,
                                        O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0 && errno == ENOENT)
                return -ENOENT;
        if (fd < 0)
                return error_errno(err, errno, "tokens: open %s", path);
        int r = check_file(fd, path, err);
        if (r >= 0 && fd_read_whole(fd, FILE_MAX, &text, &n, err) < 0)
                r = error_context(err, "tokens: %s", path);
        if (r < 0)
                return r;
        r = oauth_record_parse(text, n, ret, err);
        explicit_bzero(text, n);
        free(text);
        if (r < 0)
                return error_context(err, "tokens: %s", path);
        if (strcmp(ret->name, store->name) != 0 || strcmp(ret->url, store->url) != 0) {
                explicit_bzero(ret, sizeof(*ret));
                return error_set(err, EBADMSG, "tokens: %s is of another server", path);
        }
        return 0;
}

static int write_file(const struct oauth_store *store, const char *name, const struct buffer *text,
                      struct error *err)
{
        _cleanup_close_ int fd = host_file_open(HOST_FILE_TOKENS, store->directory, name, err);
        if (fd < 0)
                return error_context(err, "tokens: create a file in %s", store->path);
        int r = fchmod(fd, 0600) < 0 ? -errno : fd_write_all(fd, buffer_bytes(text), text->length);
        if (r >= 0 && fsync(fd) < 0)
                r = -errno;
        return r < 0 ? error_errno(err, -r, "tokens: write a file in %s", store->path) : 0;
}

int oauth_store_write(const struct oauth_store *store, const struct oauth_record *record,
                      struct error *err)
{
        struct buffer text = BUFFER_INIT(FILE_MAX);
        char name[64], temporary[64];

        file_name(store, "json", name);
        file_name(store, "new", temporary);
        int r = oauth_record_append(record, &text);
        if (r < 0)
                r = error_errno(err, -r, "tokens");
        else if (unlinkat(store->directory, temporary, 0) < 0 && errno != ENOENT)
                r = error_errno(err, errno, "tokens: remove %s/%s", store->path, temporary);
        else
                r = write_file(store, temporary, &text, err);
        if (r >= 0 && renameat(store->directory, temporary, store->directory, name) < 0)
                r = error_errno(err, errno, "tokens: rename in %s", store->path);
        if (r < 0)
                unlinkat(store->directory, temporary, 0);
        else
                fsync(store->directory);
        if (text.data)
                explicit_bzero(text.data, text.allocated);
        buffer_done(&text);
        return r;
}

int oauth_store_remove(const struct oauth_store *store, struct error *err)
{
        static const char *const kinds[] = {"json", "new"};
        char name[64];

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                file_name(store, kinds[i], name);
                if (unlinkat(store->directory, name, 0) < 0 && errno != ENOENT)
                        return error_errno(err, errno, "tokens: remove %s/%s", store->path, name);
        }
        return 0;
}
