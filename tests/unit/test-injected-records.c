/* Records of requests with secrets: what is recorded before a request is sent, and how each one ends. The journal is this file's. */
#include "supervisor/session/machine/injected-records.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rpc/inject-messages.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/trust/records/journal.h"
#include "supervisor/trust/records/record.h"
#include "tests/unit/test.h"

/* Answers of the journal, and the records that it got. */
static struct {
        int ready, sync, call, fact;
        struct journal_wait *waiting[INJECTED_RECORDS_MAX + 1];
        int n_waiting, n_cancelled, n_calls, n_answers, n_facts;
        struct record_answer answer;
        char arguments[64], rule[32], why[32];
        size_t n_fields;
} journal;

static int wait_for(struct journal_wait *wait, int how, struct error *err)
{
        if (how == 0)
                journal.waiting[journal.n_waiting++] = wait;
        return how < 0 ? error_errno(err, -how, "the journal") : how;
}

int journal_ready(struct journal_wait *wait, struct error *err)
{
        return wait_for(wait, journal.ready, err);
}

int journal_sync(struct journal_wait *wait, enum config_journal_sync sync, struct error *err)
{
        check_eq_int(sync, CONFIG_SYNC_EACH);
        return wait_for(wait, journal.sync, err);
}

void journal_cancel(struct journal_wait *wait)
{
        journal.n_cancelled++;
}

int record_call(const struct config_journal *how, const struct record_call *call, uint64_t *number,
                struct error *err)
{
        check_eq_str(call->ids.server, "@network");
        check_eq_str(call->ids.tool, "request");
        check_eq_str(call->ids.session, "work");
        check_eq_int(strlen(call->digest), 64);
        snprintf(journal.arguments, sizeof(journal.arguments), "%.*s", (int)call->n,
                 call->arguments);
        snprintf(journal.rule, sizeof(journal.rule), "%s", call->rule ? call->rule : "-");
        if (journal.call < 0)
                return error_errno(err, -journal.call, "record");
        *number = (uint64_t)++journal.n_calls;
        return 0;
}

void record_answer(const struct record_answer *answer)
{
        journal.answer = *answer;
        snprintf(journal.why, sizeof(journal.why), "%s", answer->why ? answer->why : "-");
        journal.n_answers++;
}

int record_fact(const struct config_journal *how, const char *kind, const struct log_ids *ids,
                const struct log_field *fields, size_t n, struct error *err)
{
        check_eq_str(kind, "denied");
        check_eq_str(ids->server, "@network");
        check_eq_str(fields[2].text, "a rule denies it");
        journal.n_fields = n;
        journal.n_facts++;
        return journal.fact < 0 ? error_errno(err, -journal.fact, "record") : 0;
}

/* The last answer to the caller. */
static struct {
        int n, code;
        uint32_t serial;
        bool is_recorded;
} told;

static void on_told(struct session *session, uint32_t serial, bool is_recorded,
                    const struct error *err)
{
        told.n++;
        told.serial = serial;
        told.is_recorded = is_recorded;
        told.code = err ? err->code : 0;
}

static struct session session;
static struct config_profile profile;

static void begin(int ready, int sync)
{
        memset(&journal, 0, sizeof(journal));
        memset(&told, 0, sizeof(told));
        memset(&session, 0, sizeof(session));
        snprintf(session.name, sizeof(session.name), "work");
        profile.journal = (struct config_journal){.is_set = true, .sync = CONFIG_SYNC_EACH};
        session.rights = &profile;
        journal.ready = ready;
        journal.sync = sync;
}

static void call(uint32_t serial)
{
        const struct injected_call call = {
                .serial = serial, .arguments = "{\"host\":\"h\"}not these", .n = 12, .rule = "r 1"};

        injected_record_call(&session, &call, on_told);
}

static void check_told(int n, uint32_t serial, bool is_recorded, int code)
{
        check_eq_int(told.n, n);
        check_eq_int(told.serial, serial);
        check_eq_int(told.is_recorded, is_recorded);
        check_eq_int(told.code, code);
}

static void check_ended(int n, uint64_t of, enum record_outcome outcome, size_t n_left)
{
        check_eq_int(journal.n_answers, n);
        check_eq_int(journal.answer.of, of);
        check_eq_int(journal.answer.outcome, outcome);
        check_eq_int(session.network.injected.n_records, n_left);
}

static void go_on(int i, const struct error *err)
{
        journal.waiting[i]->done(journal.waiting[i], err);
}

static void test_without_a_journal(void)
{
        const struct injected_call denied = {.why = "a rule denies it", .arguments = ""};

        begin(1, 1);
        profile.journal.is_set = false;
        call(1);
        injected_record_denied(&session, &denied);
        session.rights = NULL;
        call(2);
        injected_record_denied(&session, &denied);
        check_told(2, 2, false, 0);
        check_eq_int(journal.n_calls + journal.n_facts, 0);
        check_eq_int(session.network.injected.n_records, 0);
}

static void test_outcomes(void)
{
        static const struct {
                unsigned how;
                enum record_outcome outcome;
                const char *why;
        } ends[] = {{200, RECORD_COMMITTED, "-"},
                    {399, RECORD_COMMITTED, "-"},
                    {400, RECORD_FAILED, "status 400"},
                    {503, RECORD_FAILED, "status 503"},
                    {INJECT_IN_DOUBT, RECORD_IN_DOUBT, "-"},
                    {INJECT_NOT_SENT, RECORD_NOT_SENT, "-"}};

        begin(1, 1);
        for (uint32_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
                call(i + 1);
                check_told((int)i + 1, i + 1, true, 0);
                check_eq_str(journal.arguments, "{\"host\":\"h\"}");
                check_eq_str(journal.rule, "r 1");
                check_eq_int(session.network.injected.n_records, 1);
                injected_record_end(&session, 99, 200, 1); /* of no request */
                check_eq_int(journal.n_answers, i);
                injected_record_end(&session, i + 1, ends[i].how, 1000 + i);
                check_ended((int)i + 1, i + 1, ends[i].outcome, 0);
                check_eq_int(journal.answer.bytes, 1000 + i);
                check_eq_str(journal.why, ends[i].why);
                check_eq_str(journal.answer.ids.server, "@network");
        }
        check_eq_int(journal.n_cancelled, 0);
}

/* Each end is that of its own request. */
static void test_several(void)
{
        begin(1, 1);
        for (uint32_t serial = 1; serial <= 3; serial++)
                call(serial);
        injected_record_end(&session, 2, 200, 0);
        check_ended(1, 2, RECORD_COMMITTED, 2);
        injected_record_end(&session, 2, 200, 0);
        check_eq_int(journal.n_answers, 1);
        injected_record_end(&session, 1, 200, 0);
        check_ended(2, 1, RECORD_COMMITTED, 1);
        injected_record_end(&session, 3, 200, 0);
        check_ended(3, 3, RECORD_COMMITTED, 0);
}

/* Nothing is sent before the record is written, and on the disk. */
static void test_waits(void)
{
        begin(0, 0);
        call(5);
        check_eq_int(told.n + journal.n_calls, 0);
        injected_record_end(&session, 5, 200, 0); /* a lie: it was not sent */
        check_eq_int(journal.n_answers, 0);
        go_on(0, NULL);
        check_eq_int(journal.n_calls, 1);
        check_eq_int(told.n, 0);
        injected_record_end(&session, 5, 200, 0);
        check_eq_int(journal.n_answers, 0);
        go_on(1, NULL);
        check_told(1, 5, true, 0);
        check_eq_int(journal.n_calls, 1);
        injected_record_end(&session, 5, 200, 0);
        check_ended(1, 1, RECORD_COMMITTED, 0);
        check_eq_int(journal.n_cancelled, 0);
}

/* A request whose record cannot be written, or is not on the disk, is not sent. */
static void test_refused(void)
{
        const struct error full = {.code = ENOSPC, .text = "full"};

        begin(-ENOSPC, 1);
        call(1);
        check_told(1, 1, false, ENOSPC);
        check_ended(1, 0, RECORD_NOT_SENT, 0);

        begin(1, 1);
        journal.call = -EIO;
        call(2);
        check_told(1, 2, false, EIO);
        check_ended(1, 0, RECORD_NOT_SENT, 0);

        begin(1, -EIO);
        call(3);
        check_told(1, 3, false, EIO);
        check_ended(1, 1, RECORD_NOT_SENT, 0);

        begin(0, 1);
        call(4);
        go_on(0, &full);
        check_told(1, 4, false, ENOSPC);
        check_ended(1, 0, RECORD_NOT_SENT, 0);

        begin(1, 0);
        call(5);
        check_eq_int(told.n, 0);
        go_on(0, &full);
        check_told(1, 5, false, ENOSPC);
        check_ended(1, 1, RECORD_NOT_SENT, 0);
        check_eq_int(journal.n_cancelled, 0);
}

/* A session has 64 at most: the oldest one gives way. */
static void test_many(void)
{
        begin(1, 1);
        for (uint32_t serial = 1; serial <= INJECTED_RECORDS_MAX; serial++)
                call(serial);
        check_eq_int(journal.n_answers, 0); /* the control */
        check_eq_int(session.network.injected.n_records, INJECTED_RECORDS_MAX);
        call(1000);
        check_told(INJECTED_RECORDS_MAX + 1, 1000, true, 0);
        check_ended(1, 1, RECORD_IN_DOUBT, INJECTED_RECORDS_MAX);
        injected_record_end(&session, 1, 200, 0); /* too late */
        check_eq_int(journal.n_answers, 1);
        injected_records_done(&session);
        check_ended(1 + INJECTED_RECORDS_MAX, 2, RECORD_IN_DOUBT, 0);

        /* One that waits was not sent: its caller gets the reason. */
        begin(0, 1);
        for (uint32_t serial = 1; serial <= INJECTED_RECORDS_MAX; serial++)
                call(serial);
        check_eq_int(told.n, 0);
        call(1000);
        check_told(1, 1, false, EAGAIN);
        check_ended(1, 0, RECORD_NOT_SENT, INJECTED_RECORDS_MAX);
        check_eq_int(journal.n_cancelled, 1);
        injected_records_done(&session);
        check_eq_int(journal.n_cancelled, 1 + INJECTED_RECORDS_MAX);
}

/* The end of the session: what was sent is in doubt, what waits was not sent. */
static void test_end_of_the_session(void)
{
        begin(1, 1);
        call(1);
        injected_records_done(&session);
        check_ended(1, 1, RECORD_IN_DOUBT, 0);
        check_eq_int(journal.n_cancelled, 0);
        begin(1, 0);
        call(2);
        injected_records_done(&session);
        check_ended(1, 1, RECORD_NOT_SENT, 0);
        check_eq_int(journal.n_cancelled, 1);
        check_eq_int(told.n, 0);
        injected_records_done(&session);
        check_eq_int(journal.n_answers, 1);
}

static void test_denied(void)
{
        struct injected_call denied = {.why = "a rule denies it", .arguments = "{}", .n = 2};

        begin(1, 1);
        injected_record_denied(&session, &denied);
        check_eq_int(journal.n_facts, 1);
        check_eq_int(journal.n_fields, 3);
        denied.rule = "r 1";
        journal.fact = -EIO; /* a warning in the log */
        injected_record_denied(&session, &denied);
        check_eq_int(journal.n_facts, 2);
        check_eq_int(journal.n_fields, 4);
        check_eq_int(session.network.injected.n_records, 0);
}

int main(void)
{
        run(test_without_a_journal);
        run(test_outcomes);
        run(test_several);
        run(test_waits);
        run(test_refused);
        run(test_many);
        run(test_end_of_the_session);
        run(test_denied);
        return 0;
}
