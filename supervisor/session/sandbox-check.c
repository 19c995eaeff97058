/* Notes whether sandboxes can be made, and tries it. */
#include "supervisor/session/sandbox-check.h"

#include <errno.h>
#include <unistd.h>

#include "base/clock.h"

static bool is_about_room(int code)
{
        return code == EDQUOT || code == EBUSY || code == EAGAIN || code == ECANCELED;
}

static enum sandbox_ability ability_after(enum sandbox_ability before,
                                          const struct monitor_message *message)
{
        if (message->event.kind == MONITOR_SESSION_STARTED)
                return SANDBOX_ABILITY_YES;
        if (message->event.error.code == ESTALE)
                return before;
        return is_about_room(message->event.error.code) ? SANDBOX_ABILITY_YES : SANDBOX_ABILITY_NO;
}

bool sandbox_check_answer(struct sandbox_check *check, const struct sandbox_requests *requests,
                          const struct monitor_message *message)
{
        bool own = check->is_asked && message->asked.serial == check->serial;

        check->ability = ability_after(check->ability, message);
        if (!own)
                return false;
        check->is_asked = false;
        if (message->event.kind == MONITOR_SESSION_STARTED)
                sandbox_request(requests, MONITOR_SESSION_KILL, message->event.target, 0);
        for (size_t i = 0; i < message->n_fds; i++)
                close(message->fds[i]);
        return true;
}

void sandbox_check_again(struct sandbox_check *check, const struct sandbox_requests *requests,
                         size_t profile)
{
        const struct monitor_principal nobody = {};
        uint64_t now = clock_us();

        if (check->ability == SANDBOX_ABILITY_YES || check->is_asked ||
            (check->asked_us > 0 && now - check->asked_us < SANDBOX_CHECK_MS * UINT64_C(1000)))
                return;
        check->asked_us = now;
        check->is_asked = sandbox_request_new(requests, MONITOR_SESSION_CREATE, profile, &nobody,
                                              &check->serial) >= 0;
}
