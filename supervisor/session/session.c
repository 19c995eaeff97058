/*
 * One session's state machine.
 *
 * Theory of operation
 *
 * Everything is driven by events: a cell is pushed (kick), the monitor answers, frames arrive, the
 * timer fires, the worker dies. A cell's done() is called from the event loop only, never from
 * inside a function that its owner called.
 *
 *     push ──kick──► advance(): none: ask for a sandbox; idle: start the first cell
 *     RESULT ──► finish(): idle again; what is in the pipes by then is the cell's
 *     deadline or cancel ──► interrupt, SESSION_GRACE_MS later kill
 *     the channel ends ──► the worker died, which the monitor tells soon, or the code closed it:
 * kill the monitor says that the sandbox is gone ──► session_ended(): last words, then the cell's
 * end, then none
 *
 * How a cell ended is decided in one place for each of two cases: the worker lives (outcome_alive)
 * or not (outcome_dead).
 */
#include "supervisor/session/session.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/session/frame-table.h"
#include "supervisor/session/freeze.h"
#include "supervisor/session/outcome.h"
#include "supervisor/session/profile.h"
#include "supervisor/session/sessions.h"
#include "supervisor/session/streams.h"
#include "supervisor/session/usage.h"

static const char *const state_names[] = {
        [SESSION_NONE] = "not there",
        [SESSION_CREATING] = "being made",
        [SESSION_IDLE] = "idle",
        [SESSION_RUNNING] = "running",
        [SESSION_INTERRUPTING] = "being interrupted",
        [SESSION_ENDING] = "ending",
};
static_assert(ARRAY_SIZE(state_names) == SESSION_STATE_MAX, "a name a state");

const char *session_state_name(enum session_state state)
{
        return state_names[state];
}

#define ENDED_BY_OWNER "its owner ended it with 'cloister sessions'"

static void start_timer(struct session *s, uint64_t ms)
{
        struct timeval t = clock_timeval_ms(ms);

        if (ms > 0)
                evtimer_add(s->timer, &t);
        else
                evtimer_del(s->timer);
}

static void set_state(struct session *s, enum session_state state)
{
        bool was_live = s->state != SESSION_NONE, is_live = state != SESSION_NONE;

        s->set->n_live += is_live;
        s->set->n_live -= was_live;
        s->set->n_creating += state == SESSION_CREATING;
        s->set->n_creating -= s->state == SESSION_CREATING;
        s->state = state;
        start_timer(s, 0);
        if (state == SESSION_IDLE)
                freeze_arm(s);
        if (state == SESSION_NONE || s->fresh)
                pool_look(s->set->pool);
}

static void kick(struct session *s)
{
        event_active(s->kick, EV_TIMEOUT, 0);
}

/* Takes a cell out of the queue and ends it. */
static void end_cell(struct session *s, struct cell *cell)
{
        for (struct cell **at = &s->cells; *at; at = &(*at)->next) {
                if (*at == cell) {
                        *at = cell->next;
                        break;
                }
        }
        s->n_cells--;
        const struct log_ids ids = session_log_ids(s, cell);
        log_event(LOG_LEVEL_INFO, &ids, "cell ended: %s in %llu ms%s%s",
                  cell_status_name(cell->outcome.status),
                  (unsigned long long)(cell->outcome.duration_us / 1000),
                  *cell->outcome.why ? ", " : "", cell->outcome.why);
        for (int i = 0; i < CELL_STREAMS; i++)
                capture_finish(&cell->outcome.streams[i]);
        cell->done(cell->data, cell);
        cell_free(cell);
}

/* What the owner is told of the cell that has just ended. */
static void remember(struct session *s, const struct cell *cell)
{
        s->used_us = s->set->active_us = clock_us();
        s->last.status = cell->outcome.status;
        s->last.duration_us = cell->outcome.duration_us;
}

/* A cell that never began. */
static void refuse_cell(struct session *s, struct cell *cell, enum cell_status status,
                        const char *type, const char *why)
{
        cell->outcome.status = status;
        cell->outcome.state = s->state == SESSION_NONE || s->state == SESSION_CREATING
                                      ? CELL_STATE_NONE
                                      : CELL_STATE_KEPT;
        cell->outcome.error_type = type;
        snprintf(cell->outcome.why, sizeof(cell->outcome.why), "%s", why);
        end_cell(s, cell);
}

/* Asks the monitor to kill the sandbox; session_ended() follows. */
static void kill_sandbox(struct session *s, enum session_end end, const char *why)
{
        if (s->end == END_NONE || s->end == END_CLOSED) {
                s->end = end;
                snprintf(s->why, sizeof(s->why), "%s", why);
        }
        set_state(s, SESSION_ENDING);
        s->set->host.kill(s->set->host.data, s->target);
}

static void interrupt(struct session *s, enum cell_status as)
{
        s->stopping_as = as;
        set_state(s, SESSION_INTERRUPTING);
        start_timer(s, SESSION_GRACE_MS);
        s->set->host.interrupt(s->set->host.data, s->target);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct session *s = data;
        char why[CELL_WHY_MAX], text[32];

        switch (s->state) {
        case SESSION_RUNNING:
                interrupt(s, CELL_TIMEOUT);
                break;
        case SESSION_INTERRUPTING:
                outcome_describe_stop(s, s->cells, why);
                kill_sandbox(s, s->stopping_as == CELL_TIMEOUT ? END_TIMEOUT : END_CANCELLED, why);
                break;
        case SESSION_IDLE:
                if (s->settling) {
                        s->settling = false;
                        set_state(s, SESSION_IDLE);
                        kick(s);
                        break;
                }
                if (freeze_begin(s))
                        break;
                snprintf(why, sizeof(why), "it had been idle for %s",
                         outcome_seconds(s->set->config->session_idle_ms, text));
                kill_sandbox(s, END_IDLE, why);
                break;
        case SESSION_ENDING:
                s->set->host.kill(s->set->host.data, s->target);
                break;
        default:
                break;
        }
}

static void on_closed(void *data, const struct error *error)
{
        struct session *s = data;
        char why[CELL_WHY_MAX];

        if (s->dead || s->state == SESSION_ENDING)
                return;
        if (error_is_set(error)) {
                snprintf(why, sizeof(why), "the code broke Cloister's channel: %s", error->text);
                kill_sandbox(s, END_CHANNEL, why);
                return;
        }
        set_state(s, SESSION_ENDING);
        s->end = END_CLOSED;
        snprintf(s->why, sizeof(s->why), "%s", OUTCOME_CLOSED);
        start_timer(s, SESSION_CLOSED_MS);
}

static int on_frame(void *data, const struct frame_header *header, const char *payload,
                    struct error *err)
{
        return frame_dispatch(data, header, payload, err);
}

static bool may_take(void *data)
{
        const struct session *s = data;

        return s->dead || !calls_full(&s->calls);
}

void session_send_catalogue(struct session *s)
{
        const struct tool_provider *tools = &s->set->tools;
        uint64_t version = 0;
        const struct buffer *catalogue = tools->catalogue(tools->data, s->profile, &version);

        if (!catalogue || version <= s->catalogue)
                return;
        int r = channel_send(&s->channel, FRAME_CATALOG, version, buffer_bytes(catalogue),
                             catalogue->length);
        if (r < 0)
                log_warning("session %s: catalogue of %zu bytes not sent: %s", s->name,
                            catalogue->length, strerror(-r));
        else
                s->catalogue = version;
}

static int complete_payload(struct cell *cell)
{
        if (buffer_bytes(&cell->payload)[cell->payload.length - 1] != '\0')
                return 0;
        int r = buffer_append_text(&cell->payload, "<cell ");
        if (r >= 0)
                r = buffer_append_number(&cell->payload, (int64_t)cell->number);
        return r < 0 ? r : buffer_append_text(&cell->payload, ">");
}

static void start_cell(struct session *s)
{
        struct cell *cell = s->cells;

        freeze_end(s);
        streams_begin(s, cell);
        session_send_catalogue(s);
        cell->outcome.state = s->fresh ? CELL_STATE_NEW : CELL_STATE_KEPT;
        if (s->fresh)
                snprintf(cell->outcome.before, sizeof(cell->outcome.before), "%s", s->lost);
        s->lost[0] = '\0';
        s->fresh = false;
        cell->number = ++s->last_number;
        cell->started_us = s->set->active_us = clock_us();
        s->n_run++;
        s->last.started_us = cell->started_us;
        memcpy(s->last.code, cell->excerpt, sizeof(s->last.code));
        set_state(s, SESSION_RUNNING);
        start_timer(s, cell->timeout_ms);
        const struct log_ids ids = session_log_ids(s, cell);
        log_event(LOG_LEVEL_DEBUG, &ids, "cell begins");

        int r = complete_payload(cell);
        if (r >= 0)
                r = channel_send(&s->channel, FRAME_EXEC, cell->number,
                                 buffer_bytes(&cell->payload), cell->payload.length);
        /* While the worker wakes up: it has not used any of it by then that is worth telling. */
        cell->cpu_before_us = usage_cpu_us((enum monitor_usage)s->set->hello.facts, s->cpu_fd);
        buffer_done(&cell->payload);
        if (r < 0 && r != -ENOTCONN)
                kill_sandbox(s, END_CHANNEL,
                             "the code could not be sent: too many answers wait in the channel");
        if (!s->set->servers_started) {
                s->set->servers_started = true;
                s->set->tools.start(s->set->tools.data, s->profile, TOOL_SERVERS_ALL);
        }
}

/* No sandbox can be made: who waits longest is told. */
static void refuse_first(struct session *s, const char *why)
{
        s->wanted = false;
        if (s->cells)
                refuse_cell(s, s->cells, CELL_ERROR, "SandboxError", why);
        kick(s);
}

/* Asks the monitor. */
static void ask_for_sandbox(struct session *s, size_t profile)
{
        struct sessions *set = s->set;
        struct error err = {};
        int r = sessions_find_room(set, &err);

        s->serial = 0;
        if (r == 0)
                set->n_awaiting++;
        else if (r > 0)
                r = set->host.create(set->host.data, (uint32_t)profile, &s->serial);
        if (r < 0) {
                session_profile_leave(s);
                refuse_first(s, error_is_set(&err) ? err.text : strerror(-r));
                return;
        }
        set_state(s, SESSION_CREATING);
}

static void create(struct session *s)
{
        struct pool_taken taken = {};
        struct error err = {};

        int profile = session_profile_enter(s, &err);
        if (profile < 0) {
                refuse_first(s, err.text);
                return;
        }
        switch (pool_take(s->set->pool, (size_t)profile, &taken)) {
        case POOL_READY:
                session_started(s, taken.target, taken.fds);
                break;
        case POOL_COMING:
                s->serial = taken.serial;
                set_state(s, SESSION_CREATING);
                break;
        case POOL_NOTHING:
                ask_for_sandbox(s, (size_t)profile);
                break;
        }
}

void session_retry(struct session *s)
{
        s->set->n_awaiting--;
        s->unwanted = false;
        session_profile_leave(s);
        set_state(s, SESSION_NONE);
        kick(s);
}

static void drop_cancelled(struct session *s)
{
        struct cell *next;

        for (struct cell *cell = s->cells; cell; cell = next) {
                next = cell->next;
                if (cell->cancelled && cell->number == 0)
                        refuse_cell(s, cell, CELL_CANCELLED, NULL,
                                    "the call was cancelled before it began");
        }
}

static void refuse_other_profile(struct session *s)
{
        char why[CELL_WHY_MAX];

        session_profile_refusal(s, why);
        refuse_cell(s, s->cells, CELL_ERROR, "ProfileError", why);
        kick(s);
}

static void on_kick(evutil_socket_t fd, short what, void *data)
{
        struct session *s = data;

        drop_cancelled(s);
        if (s->state == SESSION_IDLE && s->unwanted) {
                s->unwanted = false;
                kill_sandbox(s, END_OWNER, ENDED_BY_OWNER);
                return;
        }
        if (s->state == SESSION_NONE && (s->cells || s->wanted))
                create(s);
        if (!s->cells || s->settling)
                return;
        bool other = s->state == SESSION_IDLE && session_profile_is_other(s);
        if (s->state == SESSION_IDLE && s->cells->reset && (!s->fresh || other)) {
                kill_sandbox(s, END_RESET, "");
        } else if (other) {
                refuse_other_profile(s);
        } else if (s->state == SESSION_IDLE) {
                start_cell(s);
        }
}

void session_push(struct session *s, struct cell *cell)
{
        struct cell **at = &s->cells;

        while (*at)
                at = &(*at)->next;
        *at = cell;
        cell->session = s;
        s->n_cells++;
        s->set->active_us = cell->asked_us;
        kick(s);
}

void cell_cancel(struct cell *cell)
{
        struct session *s = cell->session;

        cell->cancelled = true;
        if (cell->number == 0)
                kick(s);
        else if (s->state == SESSION_RUNNING)
                interrupt(s, CELL_CANCELLED);
}

void cell_kill(struct cell *cell)
{
        struct session *s = cell->session;

        cell->cancelled = true;
        if (cell->number == 0)
                kick(s);
        else if (s->state == SESSION_RUNNING || s->state == SESSION_INTERRUPTING)
                kill_sandbox(s, END_CANCELLED, "the call was cancelled");
}

void session_end_by_owner(struct session *s, bool again)
{
        s->wanted = again;
        if (s->state == SESSION_CREATING)
                s->unwanted = true;
        else if (s->state != SESSION_NONE && s->state != SESSION_ENDING)
                kill_sandbox(s, END_OWNER, ENDED_BY_OWNER);
}

int session_on_result(struct session *s, const struct frame_header *header, const char *payload,
                      struct error *err)
{
        struct cell *cell = session_current(s);

        if (header->id != cell->number)
                return error_set(err, EPROTO, "RESULT for cell %llu while cell %llu runs",
                                 (unsigned long long)header->id, (unsigned long long)cell->number);
        int r = cell_take_result(cell, payload, header->length, err);
        if (r < 0)
                return r;
        streams_drain(s);
        outcome_alive(s, cell);
        outcome_take_usage(s, cell, NULL);
        remember(s, cell);
        /* An interrupt that crossed with the result must not hit the next cell. */
        s->settling = s->state == SESSION_INTERRUPTING && !cell->outcome.interrupted;
        set_state(s, SESSION_IDLE);
        if (s->settling)
                start_timer(s, SESSION_SETTLE_MS);
        end_cell(s, cell);
        kick(s);
        return 0;
}

int session_on_log(struct session *s, const struct frame_header *header, const char *payload,
                   struct error *err)
{
        log_debug("session %s: worker: %.*s", s->name,
                  header->length > 500 ? 500 : (int)header->length, payload);
        return 0;
}

static void forget_sandbox(struct session *s)
{
        channel_close(&s->channel);
        streams_close(s);
        calls_drop_all(&s->calls);
        int facts[] = {s->cpu_fd, s->peak_fd, s->memory_fd};
        fd_close_many(facts, ARRAY_SIZE(facts));
        s->cpu_fd = s->peak_fd = s->memory_fd = -1;
        s->peak = (struct usage_peak){};
        s->target = s->serial = 0;
        s->catalogue = 0;
        s->end = END_NONE;
        s->why[0] = '\0';
        s->dead = s->settling = false;
        s->freezing = (struct session_freezing){};
        session_profile_leave(s);
        set_state(s, SESSION_NONE);
}

void session_ended(struct session *s, const struct monitor_ended *ended)
{
        struct cell_outcome none = {};

        s->dead = true;
        if (s->state != SESSION_ENDING)
                channel_drain(&s->channel);
        streams_drain(s);

        struct cell *cell = session_current(s);
        const struct log_ids ids = session_log_ids(s, cell);
        bool reset = s->end == END_RESET;
        outcome_dead(s, ended, cell ? &cell->outcome : &none);
        log_event(LOG_LEVEL_INFO, &ids, "sandbox %u ended: %s", s->target,
                  reset ? "reset" : (cell ? cell->outcome.why : none.why));
        if (cell) {
                outcome_take_usage(s, cell, ended);
                remember(s, cell);
        }
        snprintf(s->lost, sizeof(s->lost), "%s",
                 reset ? "" : (cell ? cell->outcome.why : none.why));
        forget_sandbox(s);
        if (cell)
                end_cell(s, cell);
        files_fail_all(s, s->lost);
        kick(s);
}

void session_started(struct session *s, uint32_t target, const int fds[SESSION_FDS])
{
        const struct channel_owner owner = {
                .data = s, .frame = on_frame, .may_take = may_take, .closed = on_closed};
        struct error err = {};

        const struct log_ids ids = session_log_ids(s, NULL);

        log_event(LOG_LEVEL_INFO, &ids, "sandbox %u is up", target);
        s->target = target;
        s->cpu_fd = fds[SESSION_CPU];
        s->peak_fd = fds[SESSION_MEMORY_PEAK];
        s->memory_fd = fds[SESSION_MEMORY];
        s->fresh = true;
        s->wanted = false;
        s->n_run = 0;
        s->born_us = s->used_us = clock_us();
        if (s->config == s->set->config)
                pool_note_made(s->set->pool, session_profile_index(s));
        set_state(s, SESSION_IDLE);
        int r = streams_open(s, fds[SESSION_STDOUT], fds[SESSION_STDERR], &err);
        if (r < 0)
                close(fds[SESSION_RPC]);
        else
                r = channel_open(&s->channel, s->set->base, fds[SESSION_RPC], &owner, &err);
        if (r < 0)
                kill_sandbox(s, END_CHANNEL, err.text);
        else
                kick(s);
}

void session_failed(struct session *s, const struct error *error)
{
        s->serial = 0;
        s->unwanted = false;
        session_profile_leave(s);
        set_state(s, SESSION_NONE);
        drop_cancelled(s);
        if (error->code == ESTALE)
                kick(s);
        else
                refuse_first(s, error->text);
}

int session_new(struct session **ret, struct sessions *set, const char *name, struct error *err)
{
        struct session *s = calloc(1, sizeof(*s));

        if (!s)
                return error_errno(err, ENOMEM, "session");
        s->set = set;
        s->channel.fd = s->cpu_fd = s->peak_fd = s->memory_fd = -1;
        for (int i = 0; i < CELL_STREAMS; i++) {
                s->streams[i].fd = -1;
                capture_init(&s->streams[i].stray);
        }
        snprintf(s->name, sizeof(s->name), "%s", name);
        s->kick = evtimer_new(set->base, on_kick, s);
        s->timer = evtimer_new(set->base, on_timer, s);
        if (!s->kick || !s->timer) {
                session_free(s);
                return error_errno(err, ENOMEM, "session");
        }
        *ret = s;
        return 0;
}

struct session *session_free(struct session *s)
{
        if (!s)
                return NULL;
        if (s->timer)
                forget_sandbox(s);
        files_fail_all(s, "");
        while (s->cells) {
                struct cell *cell = s->cells;
                s->cells = cell->next;
                cell_free(cell);
        }
        if (s->kick)
                event_free(s->kick);
        if (s->timer)
                event_free(s->timer);
        free(s);
        return NULL;
}
