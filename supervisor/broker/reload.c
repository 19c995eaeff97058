/* Reloads that someone asks for. */
#include "supervisor/broker/reload.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "policy/config/keys.h"
#include "supervisor/service/event.h"
#include "supervisor/service/metrics.h"

TAILQ_HEAD(waiters, reload_waiter);

enum reload_step { RELOAD_NONE, RELOAD_CHECK, RELOAD_READ };

struct reload {
        const struct reload_actions *actions;
        void *data;
        struct event *timer;
        enum reload_step step;
        bool again;          /* a request for another one arrived while one ran */
        struct waiters now;  /* for the end of the one that runs */
        struct waiters next; /* for the end of the next one */
        char at_restart[CONFIG_CHANGED_MAX];
};

static void start(struct reload *r)
{
        r->again = false;
        TAILQ_CONCAT(&r->now, &r->next, link);
        r->at_restart[0] = '\0';
        r->step = RELOAD_CHECK;
        r->actions->check(r->data);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct reload *r = data;

        if (r->step == RELOAD_NONE && r->again)
                start(r);
}

void reload_refused(const struct error *error)
{
        metrics_add(METRIC_RELOADS, 1, "failed");
        event_reload(&(struct event_reload){"config", false, error->text});
}

static void finish(struct reload *r, const struct error *error)
{
        const struct timeval gap = clock_timeval_ms(RELOAD_GAP_MS);
        struct waiters waiting;
        struct reload_waiter *w;

        r->step = RELOAD_NONE;
        r->actions->take(r->data, !error);
        if (error)
                log_error("reload: %s; nothing has changed", error->text);
        else
                log_info("reload: done%s%s", *r->at_restart ? "; at the next start: " : "",
                         r->at_restart);
        if (error)
                reload_refused(error);
        r->actions->ended(r->data);
        TAILQ_INIT(&waiting);
        TAILQ_CONCAT(&waiting, &r->now, link);
        while ((w = TAILQ_FIRST(&waiting))) {
                TAILQ_REMOVE(&waiting, w, link);
                w->done(w, error, r->at_restart);
        }
        evtimer_add(r->timer, &gap);
}

int reload_new(struct reload **ret, struct event_base *base, const struct reload_actions *actions,
               void *data, struct error *err)
{
        struct reload *r = calloc(1, sizeof(*r));

        if (r) {
                *r = (struct reload){.actions = actions, .data = data};
                r->timer = evtimer_new(base, on_timer, r);
        }
        if (!r || !r->timer) {
                free(r);
                return error_errno(err, ENOMEM, "reload");
        }
        TAILQ_INIT(&r->now);
        TAILQ_INIT(&r->next);
        *ret = r;
        return 0;
}

struct reload *reload_free(struct reload *r)
{
        if (!r)
                return NULL;
        event_free(r->timer);
        free(r);
        return NULL;
}

void reload_begin(struct reload *r, struct reload_waiter *waiter)
{
        if (waiter)
                TAILQ_INSERT_TAIL(&r->next, waiter, link);
        r->again = true;
        /* Soon after the last one, the timer begins it. */
        if (r->step == RELOAD_NONE && !evtimer_pending(r->timer, NULL))
                start(r);
}

void reload_forget(struct reload *r, struct reload_waiter *waiter)
{
        struct waiters *lists[] = {&r->now, &r->next};
        struct reload_waiter *w;

        for (size_t i = 0; i < 2; i++) {
                TAILQ_FOREACH (w, lists[i], link) {
                        if (w != waiter)
                                continue;
                        TAILQ_REMOVE(lists[i], w, link);
                        return;
                }
        }
}

void reload_checked(struct reload *r, const struct error *error)
{
        struct error err = {};

        if (r->step != RELOAD_CHECK)
                return;
        r->step = RELOAD_READ;
        int read = error ? 0 : r->actions->read(r->data);
        if (read < 0)
                error_errno(&err, -read, "ask the monitor");
        if (error || read < 0)
                finish(r, error ? error : &err);
}

void reload_read(struct reload *r, const struct error *error)
{
        if (r->step == RELOAD_READ)
                finish(r, error);
}

void reload_note(struct reload *r, const struct config *before, const struct config *now)
{
        config_changed_at_restart(before, now, r->at_restart);
}
