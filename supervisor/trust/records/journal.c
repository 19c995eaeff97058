/* The journal of the server. */
#include "supervisor/trust/records/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/unguessable.h"
#include "cloister-config.h"
#include "rpc/journal-record.h"
#include "supervisor/service/sha256.h"

static_assert((int)SHA256_TEXT_SIZE == (int)JOURNAL_HASH_SIZE, "one form of hashes");

enum {
        START_MS = 500, /* between two starts of the process */
        TICK_MS = 50,
        GATHER_MS = 1, /* calls that come so close together wait for one fdatasync(2) */
};
enum { LIST_NONE, LIST_READY, LIST_GROUP, LIST_EACH };

static struct journal {
        struct event_base *base;
        struct journal_owner owner;
        int socket; /* -1: the process does not run */
        struct event *readable, *tick, *gather;
        bool is_needed, is_starting, is_live; /* is_live: it has opened the segment */
        uint64_t started_ms;                  /* the last start; 0: none */
        struct error why;                     /* why it is not live */
        int fd;                               /* of the segment, or -1 */
        uint32_t segment, last_serial, in_flight;
        off_t bytes; /* of the segment */
        uint64_t n;
        char head[JOURNAL_HASH_SIZE], chain[UNGUESSABLE_LENGTH + 1];
        bool is_noted;
        struct buffer record;
        struct json_out out;
        struct journal_waits ready, syncs;
} * the;

/* ---- waits ---- */

static void finish(struct journal_wait *wait, const struct error *err)
{
        struct journal_waits *list = wait->list == LIST_READY ? &the->ready : &the->syncs;

        TAILQ_REMOVE(list, wait, link);
        wait->list = LIST_NONE;
        wait->done(wait, err);
}

static void wake_tick(void)
{
        const struct timeval in = clock_timeval_ms(TICK_MS);

        if (!evtimer_pending(the->tick, NULL))
                evtimer_add(the->tick, &in);
}

static void add_wait(struct journal_wait *wait, uint8_t list)
{
        wait->list = list;
        wait->serial = 0;
        wait->until_ms = clock_ms() + JOURNAL_WAIT_MS;
        if (list == LIST_READY)
                TAILQ_INSERT_TAIL(&the->ready, wait, link);
        else
                TAILQ_INSERT_TAIL(&the->syncs, wait, link);
        wake_tick();
}

/* done() may add and cancel waits. */
static void finish_ready(const struct error *err)
{
        struct journal_wait *wait;

        while (the && (the->is_live || err) && (wait = TAILQ_FIRST(&the->ready)))
                finish(wait, err);
}

static bool finish_one_late(struct journal_waits *list, const struct error *err)
{
        struct journal_wait *wait;

        TAILQ_FOREACH (wait, list, link) {
                if (wait->until_ms > clock_ms())
                        continue;
                finish(wait, err);
                return true;
        }
        return false;
}

void journal_cancel(struct journal_wait *wait)
{
        if (wait->list == LIST_NONE || !the)
                return;
        TAILQ_REMOVE(wait->list == LIST_READY ? &the->ready : &the->syncs, wait, link);
        wait->list = LIST_NONE;
}

/* ---- the process ---- */

static int send_request(enum journal_verb verb, uint32_t serial, uint32_t segment, int fd)
{
        const struct journal_request request = {verb, serial, segment};

        return the->socket < 0 ? -ENOTCONN
                               : fd_send(the->socket, &request, sizeof(request), &fd, fd >= 0,
                                         MSG_DONTWAIT);
}

static void request_process(void)
{
        uint64_t now = clock_ms();

        if (the->is_starting || the->socket >= 0)
                return;
        if (the->started_ms > 0 && now - the->started_ms < START_MS) {
                wake_tick();
                return;
        }
        the->started_ms = now;
        the->is_starting = true;
        if (the->owner.start(the->owner.data) < 0)
                journal_started(-1, NULL);
}

static void drop_process(const struct error *why)
{
        the->is_live = false;
        the->is_starting = false;
        the->why = *why;
        the->in_flight = 0;
        loop_event_free(&the->readable);
        if (the->socket >= 0)
                close(take_fd(the->socket));
        /* Requests to it are repeated to the next one. */
        struct journal_wait *wait;
        TAILQ_FOREACH (wait, &the->syncs, link)
                wait->serial = 0;
}

/* It says why: the calls that wait get that as their error. The next call has it started again. */
static void fail(const struct error *why)
{
        const struct error copy = *why;

        log_warning("%s", copy.text);
        drop_process(&copy);
        finish_ready(&copy);
        while (the && !TAILQ_EMPTY(&the->syncs))
                finish(TAILQ_FIRST(&the->syncs), &copy);
}

/* ---- records ---- */

bool journal_is_open(void)
{
        return the && the->fd >= 0;
}

struct json_out *journal_begin(const char *kind)
{
        if (!journal_is_open())
                return NULL;
        buffer_consume(&the->record, the->record.length);
        the->record.error = 0;
        the->out = (struct json_out){.to = &the->record};
        journal_record_begin(&the->out, the->n + 1, kind, the->head);
        return &the->out;
}

/* A record that was written in part would spoil the next one. */
static int write_line(const char *line, size_t n)
{
        ssize_t done = write(the->fd, line, n);

        if (done == (ssize_t)n) {
                the->bytes += done;
                return 0;
        }
        int code = done < 0 ? errno : ENOSPC;
        if (done > 0 && ftruncate(the->fd, the->bytes) < 0) {
                log_error("journal: %u.jsonl: cut a record: %s", the->segment, strerror(errno));
                close(take_fd(the->fd));
                the->is_live = false;
        }
        return -code;
}

int journal_end(uint64_t *n, struct error *err)
{
        json_out_end(&the->out, '}');
        int r = the->out.error;
        if (r >= 0)
                r = buffer_append(&the->record, "\n", 1);
        if (r >= 0)
                r = write_line(buffer_bytes(&the->record), the->record.length);
        if (r < 0)
                return error_errno(err, -r, "journal: write %u.jsonl", the->segment);
        sha256_text(buffer_bytes(&the->record), the->record.length, the->head);
        the->n++;
        if (n)
                *n = the->n;
        if (!the->is_noted)
                the->is_noted = send_request(JOURNAL_NOTE, 0, 0, -1) >= 0;
        return 0;
}

static int write_start(uint32_t after, struct error *err)
{
        struct json_out *out = journal_begin("start");

        json_out_text(out, "chain", the->chain);
        json_out_int(out, "segment", the->segment);
        json_out_int(out, "after", after);
        json_out_text(out, "version", CLOISTER_VERSION);
        return journal_end(NULL, err);
}

/* The chain continues in a new segment. The old one must not get another record then. */
static int take_segment(uint32_t number, int fd, struct error *err)
{
        int before_fd = the->fd;
        uint32_t before = the->segment;
        off_t before_bytes = the->bytes;

        the->fd = fd;
        the->segment = number;
        the->bytes = 0;
        int r = write_start(before_fd < 0 ? 0 : before, err);
        if (r < 0) {
                if (the->fd >= 0)
                        close(the->fd);
                the->fd = before_fd;
                the->segment = before;
                the->bytes = before_bytes;
                return r;
        }
        if (before_fd >= 0) {
                close(before_fd);
                (void)send_request(JOURNAL_CLOSED, 0, before, -1);
        }
        return 0;
}

/* ---- fdatasync(2) ---- */

static void pump_syncs(void)
{
        struct journal_wait *wait, *other;

        if (!the->is_live)
                return;
        TAILQ_FOREACH (wait, &the->syncs, link) {
                if (wait->serial != 0 || (wait->list == LIST_GROUP && the->in_flight > 0))
                        continue;
                the->last_serial += the->last_serial == UINT32_MAX ? 2 : 1;
                if (send_request(JOURNAL_SYNC, the->last_serial, 0, -1) < 0)
                        return;
                wait->serial = the->last_serial;
                if (wait->list == LIST_EACH)
                        continue;
                the->in_flight = the->last_serial;
                TAILQ_FOREACH (other, &the->syncs, link)
                        if (other->list == LIST_GROUP && other->serial == 0)
                                other->serial = the->last_serial;
        }
}

static void on_gather(evutil_socket_t fd, short what, void *data)
{
        pump_syncs();
}

static void take_synced(uint32_t serial, const struct error *error)
{
        const struct error copy = *error;
        struct journal_wait *wait;

        if (the->in_flight == serial)
                the->in_flight = 0;
again:
        TAILQ_FOREACH (wait, &the->syncs, link) {
                if (wait->serial != serial)
                        continue;
                finish(wait, error_is_set(&copy) ? &copy : NULL);
                if (!the)
                        return;
                goto again;
        }
        pump_syncs();
}

/* ---- events ---- */

/* Returns negative errno if it is not an event that may come. */
static int take_event(struct journal_event *event, int *fd, struct error *err)
{
        error_sanitize(&event->error);
        switch (event->kind) {
        case JOURNAL_SEGMENT:
                if (event->segment == 0 || (*fd < 0 && event->segment != the->segment))
                        return -EPROTO;
                if (*fd >= 0) {
                        int r = take_segment(event->segment, take_fd(*fd), err);
                        if (r < 0)
                                return r;
                }
                the->is_live = true;
                the->is_noted = send_request(JOURNAL_NOTE, 0, 0, -1) >= 0;
                pump_syncs();
                finish_ready(NULL);
                return 0;
        case JOURNAL_SIGNED:
                the->is_noted = event->n < the->n && send_request(JOURNAL_NOTE, 0, 0, -1) >= 0;
                return 0;
        case JOURNAL_SYNCED:
                take_synced(event->serial, &event->error);
                return 0;
        case JOURNAL_DOUBT:
                the->owner.doubt(the->owner.data, event->call,
                                 strnlen(event->call, sizeof(event->call)));
                return 0;
        case JOURNAL_FAILED:
                *err = event->error;
                return -EIO;
        default:
                return -EPROTO;
        }
}

static void on_readable(evutil_socket_t socket, short what, void *data)
{
        struct journal_event event;
        struct error err = {};
        size_t n_fds = 1;
        int fds[1];

        ssize_t n = fd_receive(socket, &event, sizeof(event), fds, &n_fds, NULL, MSG_DONTWAIT);
        /* A process that ended before it read all requests: what it sent before comes after this error. */
        if (n == -ECONNRESET) {
                n_fds = 1;
                n = fd_receive(socket, &event, sizeof(event), fds, &n_fds, NULL, MSG_DONTWAIT);
        }
        if (n == -EAGAIN || n == -EINTR)
                return;
        _cleanup_close_ int fd = n > 0 && n_fds == 1 ? fds[0] : -1;
        if (n <= 0) {
                error_set(&err, EPIPE, "journal: cloister-journal has ended");
                if (!the->is_live) {
                        fail(&err);
                        return;
                }
                log_warning("%s: it is started again", err.text);
                drop_process(&err);
                request_process();
                return;
        }
        int r = n == sizeof(event) ? take_event(&event, &fd, &err) : -EPROTO;
        if (r < 0 && !error_is_set(&err))
                error_set(&err, EPROTO, "journal: cloister-journal broke the protocol");
        if (r < 0 && the)
                fail(&err);
}

static void on_tick(evutil_socket_t fd, short what, void *data)
{
        struct error late = the->why;

        if (!error_is_set(&late))
                error_set(&late, ETIMEDOUT, "journal: cloister-journal does not answer");
        while (the && (finish_one_late(&the->ready, &late) || finish_one_late(&the->syncs, &late)))
                ;
        if (!the)
                return;
        if (!TAILQ_EMPTY(&the->ready) || !TAILQ_EMPTY(&the->syncs) || the->fd >= 0)
                request_process();
        pump_syncs();
        if (!TAILQ_EMPTY(&the->ready) || !TAILQ_EMPTY(&the->syncs))
                wake_tick();
}

void journal_started(int socket, const struct error *why)
{
        struct error err = {};

        if (!the) {
                if (socket >= 0)
                        close(socket);
                return;
        }
        if (why)
                err = *why;
        the->is_starting = false;
        the->socket = socket;
        the->readable = socket < 0 ? NULL
                                   : event_new(the->base, socket, EV_READ | EV_PERSIST, on_readable,
                                               NULL);
        bool is_watched = the->readable && event_add(the->readable, NULL) >= 0;
        /* A process that has ended already has sent why. */
        if (is_watched)
                (void)send_request(JOURNAL_OPEN, 0, the->segment, the->fd);
        if (!is_watched) {
                if (!error_is_set(&err))
                        error_set(&err, EIO, "journal: cloister-journal cannot be started");
                fail(&err);
        }
}

/* ---- life ---- */

int journal_new(struct event_base *base, const struct journal_owner *owner, struct error *err)
{
        if (the)
                return 0;
        the = calloc(1, sizeof(*the));
        if (!the)
                return error_errno(err, ENOMEM, "journal");
        *the = (struct journal){.base = base, .owner = *owner, .socket = -1, .fd = -1};
        TAILQ_INIT(&the->ready);
        TAILQ_INIT(&the->syncs);
        buffer_init(&the->record, JOURNAL_RECORD_MAX);
        memcpy(the->head, JOURNAL_HASH_NONE, sizeof(the->head));
        unguessable(the->chain);
        the->tick = evtimer_new(base, on_tick, NULL);
        the->gather = evtimer_new(base, on_gather, NULL);
        if (the->tick && the->gather)
                return 0;
        journal_free();
        return error_errno(err, ENOMEM, "journal");
}

void journal_free(void)
{
        static const struct error ended = {.code = ECANCELED, .text = "the server ends"};
        struct json_out *out;

        if (!the)
                return;
        while (!TAILQ_EMPTY(&the->ready))
                finish(TAILQ_FIRST(&the->ready), &ended);
        while (!TAILQ_EMPTY(&the->syncs))
                finish(TAILQ_FIRST(&the->syncs), &ended);
        if ((out = journal_begin("end"))) {
                json_out_text(out, "why", "the server has ended");
                (void)journal_end(NULL, NULL);
        }
        loop_event_free(&the->readable);
        loop_free_events((struct event *[]){the->tick, the->gather}, 2);
        fd_close_many((int[]){the->fd, the->socket}, 2);
        buffer_done(&the->record);
        free(the);
        the = NULL;
}

void journal_abandon(void)
{
        static const struct error ended = {.code = ECANCELED, .text = "the server ends"};

        if (!the)
                return;
        drop_process(&ended);
        if (the->fd >= 0)
                close(take_fd(the->fd));
}

void journal_need(void)
{
        if (the->is_needed)
                return;
        the->is_needed = true;
        request_process();
}

int journal_ready(struct journal_wait *wait, struct error *err)
{
        if (!the)
                return error_set(err, ENOTCONN, "journal: the server has none");
        if (the->is_live && the->fd >= 0)
                return 1;
        add_wait(wait, LIST_READY);
        request_process();
        return 0;
}

int journal_sync(struct journal_wait *wait, enum config_journal_sync sync, struct error *err)
{
        const struct timeval soon = clock_timeval_ms(GATHER_MS);

        if (sync == CONFIG_SYNC_NONE)
                return 1;
        if (!the)
                return error_set(err, ENOTCONN, "journal: the server has none");
        add_wait(wait, sync == CONFIG_SYNC_GROUP ? LIST_GROUP : LIST_EACH);
        if (sync == CONFIG_SYNC_EACH)
                pump_syncs();
        else if (the->in_flight == 0 && !evtimer_pending(the->gather, NULL))
                evtimer_add(the->gather, &soon);
        return 0;
}
