/*
 * Checks of the whole journal.
 *
 * Theory of operation. A segment is checked after the one that it continues, so that the hash of the record before its first one is
 * known; of a segment whose predecessor was removed as one of the oldest, that hash is unknown. Records and heads are both in the order of n:
 * they are read side by side.
 */
#include "supervisor/journal/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/journal/after.h"
#include "supervisor/journal/chain.h"
#include "supervisor/journal/heads.h"
#include "supervisor/journal/lines.h"
#include "supervisor/journal/segments.h"

struct seen {
        uint32_t number, after;
        bool is_read, is_empty, is_owned, is_followed;
        struct chain end;
};

struct verifier {
        int directory;
        const char *key;
        struct verify_result *result;
        struct seen *list;
        size_t n;
        char last_key[JOURNAL_HASH_SIZE]; /* of the segments in the order of their numbers */
};

struct reading {
        struct seen *seen;
        struct journal_lines lines, heads_lines;
        struct chain chain;
        struct journal_head head; /* the next one that is not reached yet */
        bool has_head, is_ended;
        uint64_t first, signed_to; /* numbers of records */
        size_t line, n_heads;
};

/* ---- heads ---- */

static int next_head(struct verifier *v, struct reading *r, struct error *err)
{
        int e = heads_next(&r->heads_lines, &r->head, err);

        r->has_head = e > 0;
        if (e <= 0)
                return e < 0 ? error_context(err, "%u.heads: line %zu", r->seen->number,
                                             r->n_heads + 1)
                             : 0;
        r->n_heads++;
        if (r->head.segment != r->seen->number)
                return error_set(err, EBADMSG, "%u.heads: line %zu is of segment %u",
                                 r->seen->number, r->n_heads, r->head.segment);
        if (v->key && strcmp(v->key, r->head.key) != 0)
                return error_set(err, EBADMSG, "%u.heads: line %zu is signed by another key: %s",
                                 r->seen->number, r->n_heads, r->head.key);
        return 0;
}

/* The keys of a journal: one that differs from the previous key must name it. */
static int take_key(struct verifier *v, const struct reading *r, struct error *err)
{
        const struct journal_head *head = &r->head;

        if (strcmp(v->last_key, head->key) == 0)
                return 0;
        if (*v->last_key && strcmp(head->old, v->last_key) != 0)
                return error_set(
                        err, EBADMSG,
                        "%u.heads: line %zu is signed by another key, which does not name the previous key",
                        r->seen->number, r->n_heads);
        if (*head->old) {
                printf("note: another key signs from segment %u on: %s instead of %s\n",
                       r->seen->number, head->key, head->old);
                v->result->notes++;
        }
        memcpy(v->last_key, head->key, sizeof(v->last_key));
        return 0;
}

/* The heads of the record that was read last. */
static int match_heads(struct verifier *v, struct reading *r, struct error *err)
{
        while (r->has_head && r->head.n <= r->chain.n) {
                bool is_key_only = r->head.n < r->first;
                if (!is_key_only &&
                    (r->head.n < r->chain.n || strcmp(r->head.head, r->chain.head) != 0))
                        return error_set(
                                err, EBADMSG,
                                "%u.jsonl: line %zu: record %llu is not the one that was signed",
                                r->seen->number, r->line, (unsigned long long)r->head.n);
                if (!is_key_only)
                        r->signed_to = r->head.n;
                int e = next_head(v, r, err);
                if (e < 0)
                        return e;
        }
        return 0;
}

/* ---- a segment ---- */

static struct seen *find(const struct verifier *v, uint32_t number)
{
        for (size_t i = 0; i < v->n; i++)
                if (v->list[i].number == number)
                        return &v->list[i];
        return NULL;
}

static int check_line(struct verifier *v, struct reading *r, const char *line, size_t n,
                      struct error *err)
{
        const struct seen *before = r->seen->after ? find(v, r->seen->after) : NULL;
        struct chain_record record;

        if (++r->line == 1) {
                chain_begin(&r->chain);
                if (before)
                        r->chain = before->end;
                else if (r->seen->after > 0)
                        chain_begin_at(&r->chain, line, n);
                r->first = r->chain.n + 1;
        }
        int e = chain_next(&r->chain, line, n, &record, err);
        if (e < 0)
                return error_context(err, "%u.jsonl: line %zu", r->seen->number, r->line);
        bool is_start = strcmp(record.kind, "start") == 0;
        if (r->line == 1 && (!is_start || record.segment != r->seen->number))
                e = error_set(err, EBADMSG, "%u.jsonl: line 1 is of another segment: a copy",
                              r->seen->number);
        r->is_ended = strcmp(record.kind, "end") == 0;
        chain_record_done(&record);
        v->result->records++;
        return e < 0 ? e : match_heads(v, r, err);
}

static int check_end(struct verifier *v, struct reading *r, struct error *err)
{
        uint32_t number = r->seen->number;
        uint64_t unsigned_records = r->signed_to < r->chain.n ? r->chain.n - r->signed_to : 0;

        if (r->has_head)
                return error_set(err, EBADMSG,
                                 "%u.jsonl: records up to %llu were signed, and it ends at %llu",
                                 number, (unsigned long long)r->head.n,
                                 (unsigned long long)r->chain.n);
        if (r->signed_to >= r->first)
                v->result->signed_records += r->signed_to - r->first + 1;
        if (r->seen->is_owned)
                return 0;
        if (r->n_heads == 0)
                return error_set(err, EBADMSG, "%u.heads: nothing in it signs %u.jsonl", number,
                                 number);
        if (unsigned_records > 0 && r->is_ended)
                return error_set(err, EBADMSG, "%u.jsonl: its last %llu records are not signed",
                                 number, (unsigned long long)unsigned_records);
        if (!r->is_ended && !r->seen->is_followed) {
                printf("note: %u.jsonl: its server was killed", number);
                if (unsigned_records > 0)
                        printf("; its last %llu records are not signed yet",
                               (unsigned long long)unsigned_records);
                putchar('\n');
                v->result->notes++;
        }
        return 0;
}

static int read_segment(struct verifier *v, struct seen *seen, struct error *err)
{
        static struct reading r; /* large */
        char name[32];
        const char *line;
        size_t n;
        int e;

        memset(&r, 0, sizeof(r));
        r.seen = seen;
        chain_begin(&r.chain);
        r.first = 1;
        snprintf(name, sizeof(name), "%u.heads", seen->number);
        _cleanup_close_ int fd = segment_open(v->directory, seen->number, false, err);
        if (fd < 0)
                return fd;
        _cleanup_close_ int heads = openat(v->directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        journal_lines_init(&r.lines, fd);
        journal_lines_init(&r.heads_lines, heads);
        e = heads < 0 ? 0 : next_head(v, &r, err);
        if (e >= 0 && r.has_head)
                e = take_key(v, &r, err);
        while (e >= 0 && (e = journal_lines_next(&r.lines, &line, &n, err)) > 0)
                e = check_line(v, &r, line, n, err);
        if (e < 0)
                return e;
        /* A living server may be writing a line, and one that was killed may have left a part of it. */
        seen->end = r.chain;
        seen->is_empty = r.line == 0;
        return seen->is_empty ? 0 : check_end(v, &r, err);
}

/* ---- all ---- */

static int list_segments(struct verifier *v, struct error *err)
{
        struct segments segments;

        int r = segments_list(v->directory, &segments, err);
        if (r < 0)
                return r;
        v->n = segments.n;
        v->list = calloc(v->n + 1, sizeof(*v->list));
        for (size_t i = 0; v->list && i < v->n; i++) {
                struct seen *seen = &v->list[i];
                seen->number = segments.list[i].number;
                seen->after = segment_after(v->directory, seen->number);
                int fd = segment_open(v->directory, seen->number, false, NULL);
                seen->is_owned = fd >= 0 && segment_is_owned(fd);
                if (fd >= 0)
                        close(fd);
        }
        segments_done(&segments);
        return v->list ? 0 : error_errno(err, ENOMEM, "journal");
}

static int check_numbers(struct verifier *v, struct error *err)
{
        for (size_t i = 0; i < v->n; i++) {
                const struct seen *seen = &v->list[i];
                if (i > 0 && seen->number != v->list[i - 1].number + 1)
                        return error_set(err, ENOENT, "%u.jsonl is missing",
                                         v->list[i - 1].number + 1);
                struct seen *before = seen->after ? find(v, seen->after) : NULL;
                if (before && before->is_followed)
                        return error_set(err, EBADMSG,
                                         "%u.jsonl: a second segment after %u: a copy",
                                         seen->number, seen->after);
                if (before)
                        before->is_followed = true;
                if (seen->after > v->list[v->n - 1].number)
                        return error_set(err, ENOENT, "%u.jsonl is missing", seen->after);
        }
        return 0;
}

/* In the order of the numbers, but each after the one that it continues. */
static int read_all(struct verifier *v, struct error *err)
{
        bool has_more = true;

        while (has_more) {
                has_more = false;
                bool is_stuck = true;
                for (size_t i = 0; i < v->n; i++) {
                        struct seen *seen = &v->list[i];
                        const struct seen *before = seen->after ? find(v, seen->after) : NULL;
                        if (seen->is_read)
                                continue;
                        if (before && !before->is_read) {
                                has_more = true;
                                continue;
                        }
                        int r = read_segment(v, seen, err);
                        if (r < 0)
                                return r;
                        seen->is_read = true;
                        is_stuck = false;
                }
                if (has_more && is_stuck)
                        return error_set(err, EBADMSG, "segments continue each other in a circle");
        }
        return 0;
}

int journal_verify(int directory, const char *key, struct verify_result *ret, struct error *err)
{
        struct verifier v = {.directory = directory, .key = key, .result = ret};

        *ret = (struct verify_result){};
        int r = list_segments(&v, err);
        if (r >= 0)
                r = check_numbers(&v, err);
        if (r >= 0)
                r = read_all(&v, err);
        free(v.list);
        return r;
}
