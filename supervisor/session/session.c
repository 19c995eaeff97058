/* The life of a session, where its events come from (actions.c handles them), and its description. */
#include "supervisor/session/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "policy/config/network-keys.h"
#include "policy/rules/rules.h"
#include "supervisor/session/actions.h"
#include "supervisor/session/calls/calls.h"
#include "supervisor/session/calls/files.h"
#include "supervisor/session/calls/install.h"
#include "supervisor/session/calls/pictures.h"
#include "supervisor/session/hold.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/machine/network.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/state/block.h"
#include "supervisor/session/state/copies.h"
#include "supervisor/session/state/transaction.h"
#include "supervisor/trust/ask.h"
#include "supervisor/trust/asking.h"

enum { LINES_SEEN = 1024 }; /* bytes */

/* A session with what the modules above the machine keep of it. */
struct whole {
        struct session session; /* first */
        struct calls calls;
        struct session_installs installs;
        struct files files;
        struct session_pictures pictures;
        struct copies copies;
        struct transaction transaction;
        struct block block;
};

int session_new(struct session **ret, const struct session_context *context, const char *name,
                struct session_principal *principal, struct error *err)
{
        struct whole *whole = calloc(1, sizeof(*whole));

        if (!whole)
                return error_errno(err, ENOMEM, "session");
        struct session *s = &whole->session;
        s->context = context;
        s->table = &session_table;
        s->calls = &whole->calls;
        s->installs = &whole->installs;
        s->files = &whole->files;
        s->pictures = &whole->pictures;
        s->copies = &whole->copies;
        s->transaction = &whole->transaction;
        s->block = &whole->block;
        snprintf(s->name, sizeof(s->name), "%s", name);
        s->channel.fd = s->tasks.changes_fd = -1;
        streams_init(&s->streams, s->name);
        meter_init(&s->meter);
        session_network_init(&s->network);
        s->principal = principal;
        s->account = memory_account_new(ACCOUNT_OF_SESSION);
        if (machine_init(s) < 0 || queue_init(s) < 0 || !s->account) {
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
        session_tell_stop(s);
        if (s->timer && s->remind)
                session_forget_sandbox(s);
        hold_free(s);
        asking_free(s->asking);
        files_fail_all(s, "");
        pictures_forget(s);
        queue_done(s);
        machine_done(s);
        receipts_done(&s->receipts);
        call_counts_done(&s->sent);
        session_labels_done(&s->labels);
        session_labels_done(&s->inherited);
        free(s->inherited_placeholders);
        memory_account_unref(s->account);
        free(s);
        return NULL;
}

static void end_for(struct session *s, bool restart, const struct error *why)
{
        s->restart = restart;
        session_dispatch(s, EVENT_OWNER_END, &(struct session_details){.error = why});
}

void session_end_by_owner(struct session *s, bool restart, const char *why)
{
        struct error err = {};

        error_set(&err, EPERM, "%s", why);
        end_for(s, restart, &err);
}

void session_lose(struct session *s, const char *why)
{
        if (s->state == SESSION_NONE)
                return;
        if (s->queue.first)
                snprintf(s->outdated, sizeof(s->outdated), "%s", why);
        else
                session_end_by_owner(s, false, why);
}

void session_end_lost(struct session *s)
{
        if (s->outdated[0] && s->state != SESSION_NONE)
                session_end_by_owner(s, false, s->outdated);
        s->outdated[0] = '\0';
}

static void end_for_profile(struct session *s, const char *fault)
{
        struct error why = {};

        error_set(&why, EPERM, "the profile \"%s\" %s", s->last_profile, fault);
        end_for(s, false, &why);
}

void session_leave_forbidden_profile(struct session *s)
{
        end_for_profile(s, "is not allowed any more");
        s->last_profile[0] = '\0';
}

static bool has_mount(const struct config_profile *profile, const struct config_mount *mount)
{
        for (size_t i = 0; i < profile->n_mounts; i++) {
                const struct config_mount *m = &profile->mounts[i];
                if (strcmp(m->source, mount->source) == 0 &&
                    strcmp(m->target, mount->target) == 0 && m->writable >= mount->writable &&
                    m->locks >= mount->locks)
                        return true;
        }
        return false;
}

/* Whether the newest profile lacks what a sandbox cannot be without once it has it, as text, or NULL. */
static const char *lost_part(const struct config_profile *was, const struct config_profile *now)
{
        if (now->network < was->network)
                return "has another network now";
        for (size_t i = 0; i < was->n_mounts; i++)
                if (!has_mount(now, &was->mounts[i]))
                        return "has a mount less now";
        /* Its process was started for the hosts of then. */
        for (char *const *host = now->egress.inspect; host && *host; host++)
                if (!config_inspects(&was->egress, *host))
                        return "has another host with \"inspect\" now";
        return NULL;
}

/* A missing list allows everything, an empty one nothing. */
static bool is_other(char *const *a, char *const *b)
{
        return !a != !b || !config_same_list(a, b);
}

static bool has_network_rules(const struct config_profile *profile)
{
        for (size_t i = 0; i < rules_count(profile->compiled_rules); i++)
                if (rule_is_of_network(rules_at(profile->compiled_rules, i)))
                        return true;
        return false;
}

void session_take_rights(struct session *s)
{
        static char *nothing[] = {NULL};
        static const struct config_profile gone = {.servers = nothing};
        const struct config *config = s->context->config;
        const struct config_profile *was = s->profile;

        if (!was)
                return;
        char **hosts = s->rights->egress.allow;
        int i = config_find_profile(config, was->name, NULL);
        const struct config_profile *now = i < 0 ? &gone : &config->profiles[i];
        s->reduced = *was;
        s->reduced.egress.allow = now->egress.allow;
        s->reduced.packages.install &= now->packages.install;
        s->reduced.compiled_rules = now->compiled_rules;
        s->reduced.rules = now->rules;
        if (is_other(was->servers, now->servers) || is_other(was->tools.allow, now->tools.allow) ||
            is_other(was->tools.deny, now->tools.deny))
                s->reduced.also = now;
        s->rights = &s->reduced;
        trust_ask_recheck(s);
        const char *lost = i < 0 ? NULL : lost_part(was, now);
        if (lost)
                end_for_profile(s, lost);
        else if (!config_same_list(hosts, now->egress.allow) || s->network.has_rules ||
                 has_network_rules(now))
                session_network_reload(s);
}

void session_pause_output(struct session *s, bool paused)
{
        streams_pause(&s->streams, paused);
}

/* ---- what others see of it ---- */

enum session_state session_state(const struct session *s)
{
        return s->state;
}

bool session_has_cells(const struct session *s)
{
        return s->queue.first != NULL;
}

bool session_is_single(const struct session *s)
{
        return s->single;
}

const char *session_lost(const struct session *s)
{
        return s->lost;
}

/* The last line that is not blank among the newest bytes of a text; a longer one is cut. */
static void copy_last_line(const struct buffer *text, char to[SESSION_LINE_MAX + 1])
{
        size_t most = LINES_SEEN, end = text->length, begin;
        const char *bytes = end > 0 ? buffer_bytes(text) : "";

        while (end > 0 && most-- > 0 && strchr(" \t\r\n", bytes[end - 1]))
                end--;
        for (begin = end; begin > 0 && most > 0 && !strchr("\r\n", bytes[begin - 1]); most--)
                begin--;
        while (begin < end && ((unsigned char)bytes[begin] & 0xc0) == 0x80)
                begin++;
        size_t n = end - begin < SESSION_LINE_MAX ? end - begin : SESSION_LINE_MAX;
        memcpy(to, bytes + begin, n);
        to[n] = '\0';
        utf8_trim(to);
}

void session_describe_running(const struct session *s, struct session_running *ret)
{
        const struct cell *cell = session_current(s);

        *ret = (struct session_running){};
        if (!cell)
                return;
        memcpy(ret->code, cell->excerpt, sizeof(ret->code));
        ret->duration_us = clock_us() - cell->started_us;
        for (int i = 0; i < CELL_STREAMS && !ret->line[0]; i++) {
                const struct capture *c = &cell->outcome.streams[i];
                copy_last_line(c->tail.length > 0 ? &c->tail : &c->head, ret->line);
        }
}

static void put(struct json_out *out, const char *key, uint64_t number)
{
        json_out_int(out, key, (int64_t)number);
}

static void put_traffic(struct json_out *out, const struct session_traffic *t)
{
        put(out, "tool_calls", t->calls);
        put(out, "sent_bytes", t->sent);
        put(out, "received_bytes", t->received);
        put(out, "output_bytes", t->output);
}

static void put_last(struct json_out *out, const struct session *s)
{
        const struct session_last *last = &s->history.last;
        struct session_running running;

        session_describe_running(s, &running);
        json_out_begin(out, "last", '{');
        json_out_text(out, "code", last->code);
        if (session_current(s)) {
                put(out, "duration_ms", (clock_us() - last->started_us) / 1000);
                if (running.line[0])
                        json_out_text(out, "line", running.line);
        } else {
                json_out_text(out, "status", cell_status_name(last->status));
                put(out, "duration_ms", last->duration_us / 1000);
                put(out, "cpu_ms", last->cpu_us / 1000);
                put(out, "memory_peak_bytes", last->memory_peak);
                put_traffic(out, &last->traffic);
        }
        json_out_end(out, '}');
}

static void put_copies(struct json_out *out, const struct session *s)
{
        uint64_t cell = copies_returns_to((struct session *)s);

        if (cell == 0)
                return;
        put(out, "copy_of_cell", cell);
        json_out_begin(out, "checkpoints", '[');
        for (size_t i = 0; i < s->copies->n; i++) {
                const struct copy *copy = &s->copies->list[i];
                if (!copy->name[0])
                        continue;
                json_out_begin(out, NULL, '{');
                json_out_text(out, "name", copy->name);
                put(out, "cell", copy->of);
                put(out, "age_ms", (clock_us() - copy->made_us) / 1000);
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
}

void session_put_status(struct json_out *out, const struct session *s)
{
        enum monitor_usage kind = session_usage_kind(s);
        const struct cell *cell = session_current(s);
        struct session_traffic traffic = s->history.traffic;
        uint64_t now = clock_us();

        if (cell) /* the sums of all cells, with the calls of this one */
                traffic.calls += cell->outcome.calls_total;
        json_out_begin(out, NULL, '{');
        json_out_text(out, "name", s->name);
        if (s->profile)
                json_out_text(out, "profile", s->profile->name);
        json_out_text(out, "state", session_shown_state(s));
        if (s->asks.calls > 0) {
                json_out_begin(out, "asks", '{');
                put(out, "calls", s->asks.calls);
                put(out, "ms", (now - s->asks.since_us) / 1000);
                json_out_end(out, '}');
        }
        put(out, "age_ms", (now - s->born_us) / 1000);
        put(out, "memory_bytes", meter_memory(&s->meter, kind));
        put(out, "memory_peak_bytes", meter_most(&s->meter, kind));
        put(out, "cells", s->history.n_run);
        put(out, "waiting", s->queue.n - (cell != NULL));
        put(out, "cpu_ms", meter_cpu_us(&s->meter, kind) / 1000);
        put_traffic(out, &traffic);
        if (s->tasks.is_known)
                put(out, "tasks_made", s->tasks.total);
        if (s->state >= SESSION_IDLE && s->state <= SESSION_SETTLING)
                put(out, "idle_ms", (now - s->history.used_us) / 1000);
        put_copies(out, s);
        if (s->history.n_run > 0)
                put_last(out, s);
        receipts_put_all(out, "receipts", &s->receipts);
        json_out_end(out, '}');
}

int session_append_receipt(const struct session *s, uint64_t cell, struct buffer *to)
{
        const struct receipt *receipt = receipts_find(&s->receipts, cell);
        struct json_out out = {.to = to};

        if (!receipt)
                return -ENOENT;
        receipts_put(&out, receipt, true);
        return out.error;
}
