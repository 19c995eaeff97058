/*
 * The loop of cloister-journal.
 *
 * Theory of operation. A segment is made and locked before the broker receives it. After a rotation the broker writes `start` into
 * the new segment, and then sends JOURNAL_CLOSED of the old one: from there on the chain continues in the new one. Each step may
 * be the last one of this process: what it has not done yet, the next one does (recover.h), or this one again, after JOURNAL_OPEN
 * with the broker's descriptor.
 */
#include "supervisor/journal/serve.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "rpc/journal-messages.h"
#include "supervisor/journal/after.h"
#include "supervisor/journal/chain.h"
#include "supervisor/journal/heads.h"
#include "supervisor/journal/recover.h"
#include "supervisor/journal/segments.h"

enum {
        SIGN_MS = 1000,
        SEGMENT_BYTES_MAX = 16 << 20,
        SEGMENT_PARTS = 8, /* of `max` */
        DAY_MS = 24 * 3600 * 1000,
};

struct open_segment {
        uint32_t number; /* 0: none */
        int fd, heads;   /* owned */
        uint64_t made_ms, signed_to;
        bool is_adopted;          /* its first record tells what is before it */
        struct journal_head last; /* of the process before */
        struct chain chain;
        struct journal_lines lines;
};

struct server {
        int socket, directory;
        struct journal_key *key;
        const struct journal_limits *limits;
        struct open_segment *current, *previous; /* previous: until it is closed */
        struct open_segment places[2];
        bool is_noted;
        uint64_t sign_at_ms;
        unsigned n_doubts;
};

static int tell(const struct server *s, const struct journal_event *event, int fd)
{
        return fd_send(s->socket, event, sizeof(*event), &fd, fd >= 0, 0);
}

/* ---- segments ---- */

static void drop(struct open_segment *segment)
{
        fd_close_many((int[]){segment->fd, segment->heads}, 2);
        segment->number = 0;
        segment->fd = segment->heads = -1;
}

/* The key of the newest heads of all segments, or "". */
static void newest_key(int directory, const struct segments *segments, uint32_t except,
                       char ret[JOURNAL_HASH_SIZE])
{
        *ret = '\0';
        for (size_t i = segments->n; i-- > 0 && !*ret;) {
                const struct segment_entry *entry = &segments->list[i];
                struct journal_head last = {};
                struct error ignored = {};
                if (entry->number == except || entry->all_bytes == entry->bytes)
                        continue;
                int fd = heads_open(directory, entry->number, &last, &ignored);
                if (fd >= 0)
                        close(fd);
                memcpy(ret, last.key, sizeof(last.key));
        }
}

/* Each file of heads begins with the key, also when nothing is signed yet. */
static int begin_heads(struct server *s, struct open_segment *segment,
                       const struct segments *segments, struct error *err)
{
        struct journal_head last, head = {.segment = segment->number, .head = JOURNAL_HASH_NONE};
        const char *name = journal_key_name(s->key);
        char old[JOURNAL_HASH_SIZE];

        segment->heads = heads_open(s->directory, segment->number, &last, err);
        if (segment->heads < 0)
                return segment->heads;
        segment->signed_to = last.n;
        segment->last = last;
        if (strcmp(last.key, name) == 0)
                return 0;
        memcpy(old, last.key, sizeof(old));
        if (!*old)
                newest_key(s->directory, segments, segment->number, old);
        if (*old && strcmp(old, name) != 0) {
                memcpy(head.old, old, sizeof(old));
                log_warning(
                        "journal: another key signs from segment %u on: %.16s… instead of %.16s…",
                        segment->number, name, old);
        }
        if (*last.key) {
                head.n = last.n;
                memcpy(head.head, last.head, sizeof(head.head));
        }
        return heads_append(segment->heads, s->key, &head, err);
}

static off_t segment_bytes(const struct server *s)
{
        uint64_t part = s->limits->max / SEGMENT_PARTS;

        return (off_t)(part < SEGMENT_BYTES_MAX ? part : SEGMENT_BYTES_MAX);
}

static bool is_owned(int directory, uint32_t number)
{
        _cleanup_close_ int fd = segment_open(directory, number, false, NULL);

        return fd >= 0 && segment_is_owned(fd);
}

/* The segments of servers that live: those that are locked, and all before them in their chains. The caller frees it. */
static bool *find_living(int directory, const struct segments *segments)
{
        bool *living = calloc(segments->n + 1, sizeof(*living));

        /* A segment continues one that was made before it. */
        for (size_t i = segments->n; living && i-- > 0;) {
                uint32_t number = segments->list[i].number;
                living[i] = living[i] || is_owned(directory, number);
                uint32_t after = living[i] ? segment_after(directory, number) : 0;
                for (size_t k = i; after > 0 && k-- > 0;)
                        living[k] = living[k] || segments->list[k].number == after;
        }
        return living;
}

/*
 * Removes the oldest segments that are too old, or for which there is no room. For room none of a server that lives is removed on the
 * day of its last record: code that makes many calls would push out what it did before.
 */
static int prune(struct server *s, struct error *err)
{
        struct segments segments;
        struct timespec now;
        int r = segments_list(s->directory, &segments, err);

        if (r < 0)
                return r;
        _cleanup_free_ bool *living = find_living(s->directory, &segments);
        if (!living) {
                segments_done(&segments);
                return error_errno(err, ENOMEM, "journal");
        }
        clock_gettime(CLOCK_REALTIME, &now);
        off_t most = (off_t)s->limits->max - segment_bytes(s), bytes = segments.bytes;
        int64_t oldest_ms = (now.tv_sec - (int64_t)s->limits->keep_s) * 1000;
        int64_t yesterday_ms = now.tv_sec * 1000 - DAY_MS;
        for (size_t i = 0; i < segments.n && r >= 0; i++) {
                const struct segment_entry *entry = &segments.list[i];
                bool is_too_old = entry->modified_ms < oldest_ms;
                bool is_kept = living[i] && entry->modified_ms >= yesterday_ms;
                if (!is_too_old && (bytes <= most || is_kept))
                        break;
                _cleanup_close_ int fd = segment_open(s->directory, entry->number, true, err);
                if (fd < 0) {
                        r = fd;
                } else if (!segment_take(fd)) {
                        break;
                } else if ((r = segment_remove(s->directory, entry->number, err)) >= 0) {
                        bytes -= entry->all_bytes;
                }
        }
        segments_done(&segments);
        if (r >= 0 && bytes > most)
                r = error_set(
                        err, ENOSPC,
                        "its files have reached \"max\" (%llu bytes), and servers that live have written the oldest of them within a day: raise \"max\"",
                        (unsigned long long)s->limits->max);
        return r;
}

static void send_doubt(void *data, const char *call, size_t n)
{
        struct server *s = data;
        struct journal_event event = {.kind = JOURNAL_DOUBT};

        if (n >= sizeof(event.call) || s->n_doubts++ >= JOURNAL_DOUBTS_MAX)
                return;
        memcpy(event.call, call, n);
        tell(s, &event, -1);
}

/* Makes a segment, and tells the broker. */
static int open_next(struct server *s, bool is_first, struct error *err)
{
        const struct recover how = {s->directory, s->key, send_doubt, s};
        struct open_segment *segment = s->current == &s->places[0] ? &s->places[1] : &s->places[0];
        struct segments segments;
        int r;

        _cleanup_close_ int lock = segments_lock(s->directory, err);
        if (lock < 0)
                return lock;
        r = segments_list(s->directory, &segments, err);
        if (r < 0)
                return r;
        if (is_first)
                recover_all(&how, &segments);
        segments_done(&segments);
        r = prune(s, err);
        if (r >= 0)
                r = segments_list(s->directory, &segments, err);
        if (r < 0)
                return r;
        *segment = (struct open_segment){.fd = -1, .heads = -1, .made_ms = clock_ms()};
        r = segment->fd = segment_make(s->directory, &segments, &segment->number, err);
        if (r >= 0)
                r = begin_heads(s, segment, &segments, err);
        segments_done(&segments);
        const struct journal_event event = {.kind = JOURNAL_SEGMENT,
                                            .segment = segment->number,
                                            .after = s->current ? s->current->number : 0};
        if (r >= 0 && (r = tell(s, &event, segment->fd)) < 0)
                error_errno(err, -r, "send segment %u", segment->number);
        if (r < 0) {
                drop(segment);
                return r;
        }
        journal_lines_init(&segment->lines, segment->fd);
        chain_begin(&segment->chain);
        s->previous = s->current;
        s->current = segment;
        return 0;
}

/* ---- the chain ---- */

static int check_record(const struct open_segment *segment, const struct chain_record *record,
                        bool is_first, struct error *err)
{
        const struct journal_head *last = &segment->last;

        if (is_first && (strcmp(record->kind, "start") != 0 || record->segment != segment->number))
                return error_set(err, EBADMSG, "its first record is not a start of this segment");
        if (last->n == record->n && strcmp(last->head, segment->chain.head) != 0)
                return error_set(err, EBADMSG, "it is not the record that was signed");
        return 0;
}

/* Checks what the broker has written since the last time. */
static int read_new(struct open_segment *segment, struct error *err)
{
        struct chain_record record;
        const char *line;
        size_t n;
        int r;

        for (;;) {
                bool is_first = segment->lines.offset == 0;
                r = journal_lines_next(&segment->lines, &line, &n, err);
                if (r <= 0)
                        break;
                if (is_first && segment->is_adopted)
                        chain_begin_at(&segment->chain, line, n);
                r = chain_next(&segment->chain, line, n, &record, err);
                if (r < 0)
                        break;
                r = check_record(segment, &record, is_first, err);
                chain_record_done(&record);
                if (r < 0)
                        break;
        }
        struct stat st;
        if (r >= 0 && (fstat(segment->fd, &st) < 0 || st.st_size < segment->lines.offset))
                r = error_set(err, EBADMSG, "it has become shorter");
        if (r < 0)
                error_context(err, "%u.jsonl: after record %llu", segment->number,
                              (unsigned long long)segment->chain.n);
        return r;
}

static int sign(struct server *s, struct open_segment *segment, struct error *err)
{
        int r = read_new(segment, err);

        if (r < 0 || segment->chain.n == segment->signed_to || segment->lines.offset == 0)
                return r;
        struct journal_head head = {.segment = segment->number, .n = segment->chain.n};
        memcpy(head.head, segment->chain.head, sizeof(head.head));
        r = heads_append(segment->heads, s->key, &head, err);
        if (r >= 0)
                segment->signed_to = head.n;
        return r;
}

static bool is_full(const struct server *s)
{
        const struct open_segment *segment = s->current;
        struct stat heads = {};

        if (segment->lines.offset == 0)
                return false;
        return segment->lines.offset >= segment_bytes(s) ||
               (fstat(segment->heads, &heads) == 0 && heads.st_size >= segment_bytes(s)) ||
               clock_ms() - segment->made_ms >= DAY_MS;
}

/* Signs what is new. The segment after a rotation has to wait for the end of the previous segment. */
static int sign_new(struct server *s, struct error *err)
{
        struct open_segment *segment = s->previous ? s->previous : s->current;

        s->is_noted = false;
        int r = sign(s, segment, err);
        if (r < 0)
                return r;
        const struct journal_event event = {
                .kind = JOURNAL_SIGNED, .segment = segment->number, .n = segment->signed_to};
        (void)tell(s, &event, -1);
        return !s->previous && is_full(s) ? open_next(s, false, err) : 0;
}

/* ---- requests ---- */

/* The broker has a segment of an earlier process: it must be a file of this directory. */
static int adopt(struct server *s, uint32_t number, int theirs, struct error *err)
{
        const struct recover how = {s->directory, s->key, send_doubt, s};
        struct open_segment *segment = &s->places[0];
        struct stat sent, ours;
        struct segments segments = {};

        _cleanup_close_ int lock = segments_lock(s->directory, err);
        if (lock < 0)
                return lock;
        *segment = (struct open_segment){
                .number = number, .heads = -1, .is_adopted = true, .made_ms = clock_ms()};
        int r = segment->fd = segment_open(s->directory, number, true, err);
        if (r < 0)
                return r;
        s->current = segment;
        if (fstat(theirs, &sent) < 0 || fstat(segment->fd, &ours) < 0 ||
            sent.st_ino != ours.st_ino || sent.st_dev != ours.st_dev)
                return error_set(err, EBADMSG, "%u.jsonl was replaced", number);
        r = segments_list(s->directory, &segments, err);
        if (r < 0)
                return r;
        /* The process before may not have signed the end of the segment before this one. */
        recover_all(&how, &segments);
        r = begin_heads(s, segment, &segments, err);
        segments_done(&segments);
        chain_begin(&segment->chain);
        journal_lines_init(&segment->lines, segment->fd);
        return r < 0 ? r : sign(s, segment, err);
}

static int make_room(struct server *s, struct error *err)
{
        _cleanup_close_ int lock = segments_lock(s->directory, err);

        return lock < 0 ? lock : prune(s, err);
}

static int open_journal(struct server *s, const struct journal_request *request, int fd,
                        struct error *err)
{
        if (s->current)
                return error_set(err, EPROTO, "a second JOURNAL_OPEN");
        if (fd < 0)
                return open_next(s, true, err);
        int r = adopt(s, request->segment, fd, err);
        /* The broker must not write to a full segment while there is no room for the next one. */
        if (r >= 0 && is_full(s))
                r = make_room(s, err);
        if (r < 0)
                return r;
        const struct journal_event event = {.kind = JOURNAL_SEGMENT, .segment = request->segment};
        (void)tell(s, &event, -1);
        return is_full(s) ? open_next(s, false, err) : 0;
}

static int close_previous(struct server *s, uint32_t number, struct error *err)
{
        struct open_segment *previous = s->previous;

        if (!previous || previous->number != number)
                return 0;
        int r = sign(s, previous, err);
        if (r < 0)
                return r;
        s->current->chain = previous->chain;
        drop(previous);
        s->previous = NULL;
        s->is_noted = true;
        s->sign_at_ms = clock_ms() + SIGN_MS;
        return 0;
}

static void sync_records(struct server *s, uint32_t serial)
{
        struct journal_event event = {.kind = JOURNAL_SYNCED, .serial = serial};

        if (s->previous && fdatasync(s->previous->fd) < 0)
                error_errno(&event.error, errno, "%u.jsonl", s->previous->number);
        else if (s->current && fdatasync(s->current->fd) < 0)
                error_errno(&event.error, errno, "%u.jsonl", s->current->number);
        (void)tell(s, &event, -1);
}

static int handle(struct server *s, const struct journal_request *request, int fd,
                  struct error *err)
{
        if (request->verb == JOURNAL_OPEN)
                return open_journal(s, request, fd, err);
        if (!s->current)
                return error_set(err, EPROTO, "JOURNAL_OPEN must come first");
        if (request->verb == JOURNAL_NOTE && !s->is_noted) {
                s->is_noted = true;
                s->sign_at_ms = clock_ms() + SIGN_MS;
        }
        if (request->verb == JOURNAL_SYNC)
                sync_records(s, request->serial);
        return request->verb == JOURNAL_CLOSED ? close_previous(s, request->segment, err) : 0;
}

/* Returns 1, 0 at the end of file, or negative errno. */
static int take_request(struct server *s, struct error *err)
{
        struct journal_request request;
        int fds[1];
        size_t n_fds = 1;

        ssize_t n = fd_receive(s->socket, &request, sizeof(request), fds, &n_fds, NULL, 0);
        if (n == -EINTR)
                return 1;
        if (n == 0 || n == -ECONNRESET)
                return 0;
        _cleanup_close_ int fd = n > 0 && n_fds == 1 ? fds[0] : -1;
        if (n != sizeof(request) || request.verb == 0 || request.verb >= JOURNAL_VERB_MAX)
                return error_set(err, EPROTO, "the broker sent an invalid request");
        int r = handle(s, &request, fd, err);
        return r < 0 ? r : 1;
}

static int turn(struct server *s, struct error *err)
{
        struct pollfd poll_fd = {.fd = s->socket, .events = POLLIN};
        uint64_t now = clock_ms();
        int timeout = !s->is_noted ? -1 : s->sign_at_ms <= now ? 0 : (int)(s->sign_at_ms - now);

        int r = poll(&poll_fd, 1, timeout);
        if (r < 0 && errno != EINTR)
                return error_errno(err, errno, "poll");
        if (s->is_noted && clock_ms() >= s->sign_at_ms) {
                int signed_now = sign_new(s, err);
                if (signed_now < 0)
                        return signed_now;
        }
        return r > 0 ? take_request(s, err) : 1;
}

int journal_serve(int socket, int directory, struct journal_key *key,
                  const struct journal_limits *limits, struct error *err)
{
        static struct server server;
        struct server *s = &server;
        int r;

        *s = (struct server){
                .socket = socket, .directory = directory, .key = key, .limits = limits};
        while ((r = turn(s, err)) > 0)
                ;
        if (r < 0) {
                struct journal_event event = {.kind = JOURNAL_FAILED};
                r = error_context(err, "journal: %s", limits->path);
                event.error = *err;
                (void)tell(s, &event, -1);
        } else if (s->current) {
                r = s->previous ? sign(s, s->previous, err) : 0;
                if (r >= 0 && s->previous)
                        s->current->chain = s->previous->chain;
                if (r >= 0)
                        r = sign(s, s->current, err);
        }
        return r;
}
