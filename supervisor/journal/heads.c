/* Signed heads. */
#include "supervisor/journal/heads.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/host-file.h"
#include "base/json-out.h"
#include "base/json.h"
#include "rpc/journal-record.h"

enum { LINE_MAX_BYTES = 1024, VALUES_MAX = 32 };
#define SIGNATURE ",\"sig\":\""

static int take_text(yyjson_val *root, const char *name, bool required, char ret[JOURNAL_HASH_SIZE])
{
        size_t n = 0;
        const char *text = json_string(root, name, &n);

        *ret = '\0';
        if (!text)
                return required ? -EBADMSG : 0;
        if (n != JOURNAL_HASH_SIZE - 1 || strspn(text, "0123456789abcdef") != n)
                return -EBADMSG;
        memcpy(ret, text, n + 1);
        return 0;
}

static int parse(const char *line, size_t n, struct journal_head *ret, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        int64_t segment = 0, number = -1;

        *ret = (struct journal_head){};
        if (json_parse_bounded(line, n, VALUES_MAX, &doc, err) < 0)
                return -EBADMSG;
        yyjson_val *root = yyjson_doc_get_root(doc);
        if (json_int64(yyjson_obj_get(root, "segment"), &segment) < 0 || segment <= 0 ||
            segment > UINT32_MAX || json_int64(yyjson_obj_get(root, "n"), &number) < 0 ||
            number < 0 || take_text(root, "head", true, ret->head) < 0 ||
            take_text(root, "key", true, ret->key) < 0 ||
            take_text(root, "old", false, ret->old) < 0)
                return error_set(err, EBADMSG, "it lacks segment, n, head or key");
        ret->segment = (uint32_t)segment;
        ret->n = (uint64_t)number;
        return 0;
}

static int check(const char *line, size_t n, struct journal_head *ret, struct error *err)
{
        int r = parse(line, n, ret, err);

        if (r < 0)
                return r;
        const char *sig = memmem(line, n, SIGNATURE, strlen(SIGNATURE));
        const char *begin = sig ? sig + strlen(SIGNATURE) : NULL;
        const char *end = begin ? memchr(begin, '"', (size_t)(line + n - begin)) : NULL;
        /* Members behind it would not be signed. */
        if (!end || strncmp(end, "\"}\n", 3) != 0 || end + 3 != line + n)
                return error_set(err, EBADMSG, "it has no signature at its end");
        if (!journal_key_verify(ret->key, line, (size_t)(sig - line), begin, (size_t)(end - begin)))
                return error_set(err, EBADMSG, "its signature is wrong");
        return 1;
}

int heads_next(struct journal_lines *lines, struct journal_head *ret, struct error *err)
{
        const char *line;
        size_t n;

        int r = journal_lines_next(lines, &line, &n, err);
        return r <= 0 ? r : check(line, n, ret, err);
}

int heads_open(int directory, uint32_t segment, struct journal_head *last, struct error *err)
{
        const char *line;
        char name[32];
        struct stat st;
        off_t end = 0;
        size_t n;

        snprintf(name, sizeof(name), "%u.heads", segment);
        *last = (struct journal_head){};
        _cleanup_close_ int fd = host_file_open(HOST_FILE_JOURNAL_HEADS, directory, name, err);
        if (fd < 0)
                return error_context(err, "open %s", name);
        int r = journal_lines_last(fd, &line, &n, &end, err);
        if (r > 0)
                r = check(line, n, last, err);
        if (r < 0)
                return error_context(err, "%s: its last line", name);
        if (fstat(fd, &st) < 0 || (st.st_size > end && ftruncate(fd, end) < 0))
                return error_errno(err, errno, "cut %s", name);
        return take_fd(fd);
}

int heads_append(int fd, struct journal_key *key, struct journal_head *head, struct error *err)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(LINE_MAX_BYTES);
        struct json_out out = {.to = &b};
        char t[JOURNAL_TIME_SIZE];

        journal_time(t);
        snprintf(head->key, sizeof(head->key), "%s", journal_key_name(key));
        json_out_begin(&out, NULL, '{');
        json_out_int(&out, "segment", head->segment);
        json_out_int(&out, "n", (int64_t)head->n);
        json_out_text(&out, "head", head->head);
        json_out_text(&out, "t", t);
        json_out_text(&out, "key", head->key);
        if (*head->old)
                json_out_text(&out, "old", head->old);
        int r = out.error;
        size_t signed_bytes = b.length;
        if (r >= 0)
                r = buffer_append_text(&b, SIGNATURE);
        if (r >= 0)
                r = journal_key_sign(key, buffer_bytes(&b), signed_bytes, &b);
        if (r >= 0)
                r = buffer_append_text(&b, "\"}\n");
        if (r < 0)
                return error_errno(err, -r, "sign a head");
        off_t before = lseek(fd, 0, SEEK_END);
        r = fd_write_all(fd, buffer_bytes(&b), b.length);
        /* The rest of a line would spoil the next one. */
        if (r < 0 && before >= 0 && ftruncate(fd, before) < 0)
                r = -errno;
        return r < 0 ? error_errno(err, -r, "write a head of segment %u", head->segment) : 0;
}
