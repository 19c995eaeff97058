/* Idle sessions that are frozen. */
#include "supervisor/session/freeze.h"

#include "base/clock.h"
#include "supervisor/session/sessions.h"

static uint64_t freeze_ms(const struct session *s)
{
        const struct config *config = s->config ? s->config : s->set->config;

        return s->profile ? s->profile->freeze_ms : config->top.freeze_ms;
}

void freeze_arm(struct session *s)
{
        uint64_t idle = s->set->config->session_idle_ms, after = freeze_ms(s);
        uint64_t passed = (clock_us() - s->used_us) / 1000;
        uint64_t left = passed < idle ? idle - passed : 1;

        s->freezing.next = after > 0 && after < left && !s->freezing.asked;
        const struct timeval t = clock_timeval_ms(s->freezing.next ? after : left);
        evtimer_add(s->timer, &t);
}

bool freeze_begin(struct session *s)
{
        if (!s->freezing.next)
                return false;
        if (s->calls.n == 0 && s->files.n == 0) {
                s->freezing.asked = true;
                s->set->host.freeze(s->set->host.data, s->target, true);
        }
        freeze_arm(s);
        return true;
}

void freeze_done(struct session *s)
{
        s->freezing.done = s->freezing.asked;
}

void freeze_end(struct session *s)
{
        if (!s->freezing.asked)
                return;
        s->freezing.asked = s->freezing.done = false;
        s->set->host.freeze(s->set->host.data, s->target, false);
        if (s->state == SESSION_IDLE)
                freeze_arm(s);
}
