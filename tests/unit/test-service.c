/* The phases of a server, refused calls, and the order in which a draining server ends. */
#include "supervisor/service/drain.h"
#include "supervisor/service/phase.h"

#include <event2/event.h>
#include <string.h>

#include "base/loop.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

enum { MANY_MS = 3600 * 1000 };

/* The state that the parts of a server report, and the actions that were called. */
struct parts {
        struct event_base *base;
        bool sessions, calls, results, answers, stubborn;
        char log[256];
        bool is_whole;
};

static void note(struct parts *p, const char *what)
{
        size_t n = strlen(p->log);

        snprintf(p->log + n, sizeof(p->log) - n, "%s%s", n > 0 ? " " : "", what);
}

static bool has_sessions(void *data)
{
        return ((struct parts *)data)->sessions;
}

static void stop(void *data)
{
        note(data, "stop");
}

static bool has_calls(void *data)
{
        return ((struct parts *)data)->calls;
}

static bool has_results(void *data, uint64_t since_us)
{
        return ((struct parts *)data)->results;
}

static void cancel(void *data)
{
        struct parts *p = data;

        note(p, "cancel");
        p->calls = p->stubborn;
}

static void close_streams(void *data)
{
        note(data, "close");
}

static bool has_answers(void *data)
{
        return ((struct parts *)data)->answers;
}

static void changed(void *data, bool stopping, uint64_t left_ms)
{
}

static void ended(void *data, bool whole)
{
        struct parts *p = data;

        note(p, "end");
        p->is_whole = whole;
        event_base_loopbreak(p->base);
}

static const struct drain_actions actions = {has_sessions, stop,    has_calls,
                                             has_results,  cancel,  close_streams,
                                             has_answers,  changed, ended};

static struct drain *open_drain(struct parts *p)
{
        struct drain *drain = NULL;
        struct error err = {};

        p->base = loop_new();
        check(p->base && drain_new(&drain, p->base, &actions, p, &err) == 0);
        return drain;
}

static void close_drain(struct parts *p, struct drain *drain)
{
        drain_free(drain);
        event_base_free(p->base);
        service_set_ready();
}

static void test_refusals(void)
{
        static const struct {
                enum service_reason reason;
                int status;
                uint64_t ms;
                const char *data;
        } cases[] = {
                {SERVICE_FULL, 503, 0, "{\"reason\":\"full\",\"retry_after\":1}"},
                {SERVICE_QUOTA, 429, 6001, "{\"reason\":\"quota\",\"retry_after\":7}"},
                {SERVICE_BUSY, 429, 1000, "{\"reason\":\"busy\",\"retry_after\":1}"},
                {SERVICE_STOPPED, 503, UINT64_MAX, "{\"reason\":\"draining\",\"retry_after\":60}"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _cleanup_buffer_ struct buffer data = BUFFER_INIT(256);
                struct service_refusal refusal;
                service_refuse(&refusal, cases[i].reason, cases[i].ms, "%s", "no");
                check_eq_int(service_refusal_status(&refusal), cases[i].status);
                check(service_refusal_append(&refusal, &data) >= 0);
                check_eq_int(data.length, strlen(cases[i].data));
                check(memcmp(buffer_bytes(&data), cases[i].data, data.length) == 0);
        }
}

/* Nothing is left: each step at once, in this order. */
static void test_idle(void)
{
        struct parts p = {};
        struct drain *drain = open_drain(&p);

        drain_stop(drain, MANY_MS);
        check(service_phase() == SERVICE_DRAINING && service_is_stopping());
        loop_run(p.base);
        check_eq_str(p.log, "stop close end");
        check(p.is_whole);
        close_drain(&p, drain);
}

/* Calls that run are cancelled at the end of the time; `whole` is false if one does not end then, or its answer is not read. */
static void test_limits(void)
{
        for (int i = 0; i < 4; i++) {
                struct parts p = {
                        .calls = true, .stubborn = i & 1, .answers = i & 2, .results = true};
                struct drain *drain = open_drain(&p);
                drain_stop(drain, MANY_MS);
                loop_run(p.base);
                check_eq_str(p.log, "stop cancel close end");
                check(p.is_whole == (i == 0));
                close_drain(&p, drain);
        }
}

/* Sessions continue until the deadline; it can be undone before, and not after. */
static void test_wait(void)
{
        struct parts p = {.sessions = true};
        struct drain *drain = open_drain(&p);
        struct error err = {};

        check(drain_undo(drain, &err) == -ENOENT);
        check(drain_wait(drain, 0, 1000, &err) == 0);
        check(service_phase() == SERVICE_DRAINING && !service_is_stopping());
        check(service_draining_deadline() == UINT64_MAX);
        check(drain_undo(drain, &err) == 0 && service_phase() == SERVICE_READY);
        check(drain_wait(drain, MANY_MS, 1000, &err) == 0);
        loop_run(p.base);
        check_eq_str(p.log, "stop close end");
        check(drain_wait(drain, 0, 0, &err) == -EALREADY && drain_undo(drain, &err) == -EALREADY);
        close_drain(&p, drain);
}

/* The second time, it ends at once. */
static void test_second_signal(void)
{
        struct parts p = {.calls = true};
        struct drain *drain = open_drain(&p);

        drain_stop(drain, MANY_MS);
        drain_stop(drain, MANY_MS);
        check_eq_str(p.log, "stop end");
        check(!p.is_whole);
        drain_stop(drain, MANY_MS);
        check_eq_str(p.log, "stop end");
        close_drain(&p, drain);
}

int main(void)
{
        fake_clock_skip_idle(true);
        run(test_refusals);
        run(test_idle);
        run(test_limits);
        run(test_wait);
        run(test_second_signal);
        return 0;
}
