/* Records of requests with secrets. */
#include "supervisor/session/machine/injected-records.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rpc/inject-messages.h"
#include "supervisor/service/sha256.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/trust/records/journal.h"
#include "supervisor/trust/records/record.h"

enum { FAILED = 400 /* the first status of an error (RFC 9110, 15) */ };

struct injected_record {
        struct journal_wait wait;
        struct injected_record *next;
        struct session *session;
        injected_recorded_fn *done;
        uint32_t serial;
        bool waits;
        uint64_t number; /* 0: not recorded yet */
        uint64_t began_ms;
        char rule[256];
        size_t n;
        char text[]; /* the arguments */
};

static struct log_ids ids_of(const struct session *s)
{
        struct log_ids ids = session_log_ids(s, session_current(s));

        ids.server = "@network";
        ids.tool = "request";
        return ids;
}

static void record_free(struct injected_record *record)
{
        struct session_injected *injected = &record->session->network.injected;
        struct injected_record **at = &injected->records;

        while (*at != record)
                at = &(*at)->next;
        *at = record->next;
        injected->n_records--;
        if (record->waits)
                journal_cancel(&record->wait);
        free(record);
}

static void end(struct injected_record *record, unsigned how, uint64_t bytes)
{
        char why[32];
        const struct record_answer answer = {
                .ids = ids_of(record->session),
                .of = record->number,
                .outcome = how == INJECT_NOT_SENT   ? RECORD_NOT_SENT
                           : how == INJECT_IN_DOUBT ? RECORD_IN_DOUBT
                           : how < FAILED           ? RECORD_COMMITTED
                                                    : RECORD_FAILED,
                .duration_us = (clock_ms() - record->began_ms) * 1000,
                .bytes = bytes,
                .why = how >= FAILED ? why : NULL,
        };

        snprintf(why, sizeof(why), "status %u", how);
        record_answer(&answer);
        record_free(record);
}

/* It is not sent. Frees the record. */
static void refuse(struct injected_record *record, const struct error *err)
{
        struct session *s = record->session;
        injected_recorded_fn *done = record->done;
        uint32_t serial = record->serial;
        const struct error copy = *err;

        end(record, INJECT_NOT_SENT, 0);
        done(s, serial, false, &copy);
}

static void write_record(struct injected_record *record)
{
        const struct config_journal *how = &record->session->rights->journal;
        char digest[SHA256_TEXT_SIZE];
        struct error err = {};

        sha256_text(record->text, record->n, digest);
        const struct record_call call = {.ids = ids_of(record->session),
                                         .rule = *record->rule ? record->rule : NULL,
                                         .arguments = record->text,
                                         .n = record->n,
                                         .digest = digest};
        int r = record_call(how, &call, &record->number, &err);
        if (r >= 0)
                r = journal_sync(&record->wait, how->sync, &err);
        record->waits = r == 0;
        if (r < 0)
                refuse(record, &err);
        else if (r > 0)
                record->done(record->session, record->serial, true, NULL);
}

static void on_waited(struct journal_wait *wait, const struct error *err)
{
        struct injected_record *record = (struct injected_record *)wait; /* first member */

        record->waits = false;
        if (err)
                refuse(record, err);
        else if (record->number == 0)
                write_record(record);
        else
                record->done(record->session, record->serial, true, NULL);
}

/* The end of the oldest one was lost. */
static void make_room(struct session *s)
{
        struct injected_record *oldest = s->network.injected.records;

        if (s->network.injected.n_records < INJECTED_RECORDS_MAX)
                return;
        while (oldest->next)
                oldest = oldest->next;
        if (oldest->waits)
                refuse(oldest,
                       &(struct error){.code = EAGAIN, .text = "journal: too many requests wait"});
        else
                end(oldest, INJECT_IN_DOUBT, 0);
}

void injected_record_call(struct session *s, const struct injected_call *call,
                          injected_recorded_fn *done)
{
        struct session_injected *injected = &s->network.injected;
        struct error err = {};

        if (!s->rights || !s->rights->journal.is_set) {
                done(s, call->serial, false, NULL);
                return;
        }
        make_room(s);
        struct injected_record *record = calloc(1, sizeof(*record) + call->n + 1);
        if (!record) {
                error_errno(&err, ENOMEM, "journal");
                done(s, call->serial, false, &err);
                return;
        }
        *record = (struct injected_record){.wait.done = on_waited,
                                           .next = injected->records,
                                           .session = s,
                                           .done = done,
                                           .serial = call->serial,
                                           .began_ms = clock_ms(),
                                           .n = call->n};
        memcpy(record->text, call->arguments, call->n);
        snprintf(record->rule, sizeof(record->rule), "%s", call->rule ? call->rule : "");
        injected->records = record;
        injected->n_records++;
        int r = journal_ready(&record->wait, &err);
        record->waits = r == 0;
        if (r < 0)
                refuse(record, &err);
        else if (r > 0)
                write_record(record);
}

static struct log_field text_field(const char *name, const char *text)
{
        return (struct log_field){name, LOG_TEXT, text, strlen(text), 0};
}

void injected_record_denied(const struct session *s, const struct injected_call *call)
{
        const struct log_ids ids = ids_of(s);
        char digest[SHA256_TEXT_SIZE];
        struct error err = {};

        if (!s->rights || !s->rights->journal.is_set)
                return;
        sha256_text(call->arguments, call->n, digest);
        const struct log_field fields[] = {
                {"bytes", LOG_NUMBER, NULL, 0, call->n},
                text_field("sha256", digest),
                text_field("why", call->why),
                text_field("rule", call->rule ? call->rule : ""),
        };
        if (record_fact(&s->rights->journal, "denied", &ids, fields, call->rule ? 4 : 3, &err) < 0)
                log_warning("%s: the record of a denied request is lost", err.text);
}

void injected_record_end(struct session *s, uint32_t serial, unsigned how, uint64_t bytes)
{
        struct injected_record *record = s->network.injected.records;

        while (record && record->serial != serial)
                record = record->next;
        /* One that waits was not sent: only an invalid message says that it ended. */
        if (record && !record->waits)
                end(record, how, bytes);
}

void injected_records_done(struct session *s)
{
        struct injected_record *record;

        while ((record = s->network.injected.records))
                end(record, record->waits ? INJECT_NOT_SENT : INJECT_IN_DOUBT, 0);
}
