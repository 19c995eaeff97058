/* The end of chains that no server ended. */
#include "supervisor/journal/recover.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/json.h"
#include "base/log.h"
#include "rpc/journal-record.h"
#include "supervisor/journal/after.h"
#include "supervisor/journal/chain.h"
#include "supervisor/journal/heads.h"
#include "supervisor/journal/lines.h"

/* ---- calls without an answer ---- */

static const char *const members[] = {"session", "principal", "t", "cell", "server", "tool"};

/* The members that tell a person which call it was. */
static char *describe(const struct chain_record *record)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(JOURNAL_DOUBT_TEXT - 1);
        struct json_out out = {.to = &b};

        json_out_begin(&out, NULL, '{');
        json_out_int(&out, "call", (int64_t)record->n);
        for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
                yyjson_val *value = yyjson_obj_get(record->root, members[i]);
                if (value && !yyjson_is_ctn(value))
                        json_out_value(&out, members[i], value);
        }
        json_out_end(&out, '}');
        return out.error < 0 ? strdup("{}") : strndup(buffer_bytes(&b), b.length);
}

int recover_note(struct recover_pending *p, const struct chain_record *record)
{
        if (strcmp(record->kind, "answer") == 0) {
                for (size_t i = p->n; i-- > 0;) {
                        if (p->list[i].n != record->of)
                                continue;
                        free(p->list[i].call);
                        memmove(&p->list[i], &p->list[i + 1], (--p->n - i) * sizeof(*p->list));
                        break;
                }
                return 0;
        }
        if (strcmp(record->kind, "call") != 0 || p->n == RECOVER_PENDING_MAX)
                return 0;
        if (p->n == p->room) {
                size_t room = p->room ? 2 * p->room : 16;
                void *more = realloc(p->list, room * sizeof(*p->list));
                if (!more)
                        return -ENOMEM;
                p->list = more;
                p->room = room;
        }
        p->list[p->n] = (struct recover_call){record->n, describe(record)};
        return p->list[p->n].call ? (p->n++, 0) : -ENOMEM;
}

void recover_pending_done(struct recover_pending *p)
{
        while (p->n > 0)
                free(p->list[--p->n].call);
        free(p->list);
        *p = (struct recover_pending){};
}

/* ---- one segment ---- */

struct segment {
        uint32_t number, after;
        int fd, heads; /* owned, or -1 */
        off_t end;     /* behind the last whole line */
        size_t torn;
        bool is_ended; /* the last record is `end` */
        struct chain chain;
        struct journal_head signed_to;
};

static void segment_done(struct segment *s)
{
        fd_close_many((int[]){s->fd, s->heads}, 2);
}

/* Reads the segment from its beginning. Returns 0, or negative errno: it is not what was written. */
static int read_segment(struct segment *s, struct recover_pending *pending, struct error *err)
{
        static struct journal_lines lines;
        struct chain_record record;
        const char *line;
        bool is_first = true;
        size_t n;
        int r;

        journal_lines_init(&lines, s->fd);
        while ((r = journal_lines_next(&lines, &line, &n, err)) > 0) {
                if (is_first)
                        chain_begin_at(&s->chain, line, n);
                r = chain_next(&s->chain, line, n, &record, err);
                if (r < 0)
                        break;
                if (is_first && (strcmp(record.kind, "start") != 0 || record.segment != s->number))
                        r = error_set(err, EBADMSG, "its first record is not its own");
                if (is_first)
                        s->after = record.after;
                if (r >= 0 && s->signed_to.n == record.n && *s->signed_to.key &&
                    strcmp(s->signed_to.head, s->chain.head) != 0)
                        r = error_set(err, EBADMSG, "record %llu is not the one that was signed",
                                      (unsigned long long)record.n);
                s->is_ended = strcmp(record.kind, "end") == 0;
                if (r >= 0 && pending && (r = recover_note(pending, &record)) < 0)
                        error_errno(err, -r, "calls");
                chain_record_done(&record);
                if (r < 0)
                        break;
                is_first = false;
        }
        s->end = lines.offset;
        s->torn = journal_lines_torn(&lines);
        if (r >= 0 && s->signed_to.n > s->chain.n)
                r = error_set(err, EBADMSG, "records up to %llu were signed, and it ends at %llu",
                              (unsigned long long)s->signed_to.n, (unsigned long long)s->chain.n);
        return r;
}

/* ---- the chain of a segment ---- */

/* The calls of the earlier segments of the chain, from the first one. */
static void read_before(const struct recover *how, uint32_t number, struct recover_pending *pending)
{
        uint32_t list[64];
        size_t n = 0;

        while ((number = segment_after(how->directory, number)) > 0 && n < ARRAY_SIZE(list))
                list[n++] = number;
        while (n-- > 0) {
                struct segment s = {.number = list[n], .fd = -1, .heads = -1};
                struct error ignored = {};
                s.fd = segment_open(how->directory, list[n], false, &ignored);
                if (s.fd >= 0)
                        (void)read_segment(&s, pending, &ignored);
                segment_done(&s);
        }
}

static int append(struct segment *s, struct json_out *out, struct error *err)
{
        struct buffer *b = out->to;
        int r = out->error;

        if (r >= 0)
                r = buffer_append(b, "\n", 1);
        if (r >= 0)
                r = fd_write_all(s->fd, buffer_bytes(b), b->length);
        if (r < 0)
                return error_errno(err, -r, "write");
        struct chain_record record;
        r = chain_next(&s->chain, buffer_bytes(b), b->length, &record, err);
        if (r >= 0)
                chain_record_done(&record);
        return r;
}

static int append_doubt(struct segment *s, const struct recover_call *call, struct error *err)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(JOURNAL_RECORD_MAX);
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct json_out out = {.to = &b};

        journal_record_begin(&out, s->chain.n + 1, "answer", s->chain.head);
        json_out_int(&out, "of", (int64_t)call->n);
        json_out_text(&out, "outcome", "in doubt");
        if (json_parse(call->call, strlen(call->call), &doc, NULL) >= 0) {
                for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
                        yyjson_val *value = yyjson_obj_get(yyjson_doc_get_root(doc), members[i]);
                        if (value && strcmp(members[i], "t") != 0)
                                json_out_value(&out, members[i], value);
                }
        }
        json_out_end(&out, '}');
        return append(s, &out, err);
}

static int append_end(struct segment *s, struct error *err)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(JOURNAL_RECORD_MAX);
        struct json_out out = {.to = &b};

        journal_record_begin(&out, s->chain.n + 1, "end", s->chain.head);
        json_out_text(&out, "why", "the server was killed");
        json_out_end(&out, '}');
        return append(s, &out, err);
}

/* No call is reported before it is on the disk. */
static int end_chain(const struct recover *how, struct segment *s, struct recover_pending *pending,
                     struct error *err)
{
        int r = 0;

        for (size_t i = 0; i < pending->n && r >= 0; i++)
                r = append_doubt(s, &pending->list[i], err);
        if (r >= 0)
                r = append_end(s, err);
        if (r >= 0 && fdatasync(s->fd) < 0)
                r = error_errno(err, errno, "write");
        for (size_t i = 0; i < pending->n && r >= 0; i++)
                how->doubt(how->data, pending->list[i].call, strlen(pending->list[i].call));
        return r;
}

static int sign_end(const struct recover *how, struct segment *s, struct error *err)
{
        struct journal_head head = {.segment = s->number, .n = s->chain.n};

        if (s->chain.n == 0 || (*s->signed_to.key && s->signed_to.n == s->chain.n))
                return 0;
        if (*s->signed_to.key && strcmp(s->signed_to.key, journal_key_name(how->key)) != 0)
                memcpy(head.old, s->signed_to.key, sizeof(head.old));
        memcpy(head.head, s->chain.head, sizeof(head.head));
        return heads_append(s->heads, how->key, &head, err);
}

/* Most segments ended in order and are signed: their last line is an `end` with a head. */
static bool is_done(const struct segment *s, bool has_next)
{
        struct chain chain;
        struct chain_record record;
        struct stat st;
        const char *line;
        off_t end = 0;
        size_t n;

        if (!*s->signed_to.key || journal_lines_last(s->fd, &line, &n, &end, NULL) <= 0 ||
            fstat(s->fd, &st) < 0 || st.st_size != end)
                return false;
        chain_begin_at(&chain, line, n);
        if (chain_next(&chain, line, n, &record, NULL) < 0)
                return false;
        bool is_ended = has_next || strcmp(record.kind, "end") == 0;
        chain_record_done(&record);
        return is_ended && chain.n == s->signed_to.n && strcmp(chain.head, s->signed_to.head) == 0;
}

static int recover_one(const struct recover *how, struct segment *s, bool has_next,
                       struct error *err)
{
        struct recover_pending pending = {};

        s->heads = heads_open(how->directory, s->number, &s->signed_to, err);
        if (s->heads < 0)
                return s->heads;
        if (is_done(s, has_next))
                return 0;
        /* Twice: the calls of the segments before come first, and are needed only if it has no end. */
        int r = read_segment(s, NULL, err);
        if (r >= 0 && s->torn > 0 && ftruncate(s->fd, s->end) < 0)
                r = error_errno(err, errno, "cut the last line");
        if (r >= 0 && s->chain.n > 0 && !s->is_ended && !has_next) {
                read_before(how, s->number, &pending);
                r = read_segment(s, &pending, err);
                if (r >= 0)
                        r = end_chain(how, s, &pending, err);
        }
        recover_pending_done(&pending);
        return r < 0 ? r : sign_end(how, s, err);
}

static bool is_followed(const uint32_t *after, size_t n, uint32_t number)
{
        for (size_t i = 0; i < n; i++)
                if (after[i] == number)
                        return true;
        return false;
}

void recover_all(const struct recover *how, const struct segments *segments)
{
        _cleanup_free_ uint32_t *after = calloc(segments->n + 1, sizeof(*after));

        for (size_t i = 0; i < segments->n && after; i++)
                after[i] = segment_after(how->directory, segments->list[i].number);
        for (size_t i = 0; i < segments->n && after; i++) {
                struct segment s = {.number = segments->list[i].number, .fd = -1, .heads = -1};
                struct error err = {};

                if (segments->list[i].bytes == 0)
                        continue;
                int r = s.fd = segment_open(how->directory, s.number, true, &err);
                if (r >= 0 && segment_take(s.fd))
                        r = recover_one(how, &s, is_followed(after, segments->n, s.number), &err);
                if (r < 0)
                        log_warning("journal: %u.jsonl: %s", s.number, err.text);
                segment_done(&s);
        }
}
