/* The phases of a server, and refused calls. */
#include "supervisor/service/phase.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json-out.h"

static const char *const phases[] = {
        [SERVICE_STARTING] = "starting",
        [SERVICE_READY] = "ready",
        [SERVICE_DRAINING] = "draining",
};
static_assert(ARRAY_SIZE(phases) == SERVICE_PHASES, "a name for each phase");

static const struct {
        const char *name;
        int status;
} reasons[] = {
        [SERVICE_FULL] = {"full", 503},
        [SERVICE_QUOTA] = {"quota", 429},
        [SERVICE_BUSY] = {"busy", 429},
        [SERVICE_STOPPED] = {"draining", 503},
};
static_assert(ARRAY_SIZE(reasons) == SERVICE_REASONS, "a name for each reason");

static struct {
        enum service_phase phase;
        bool is_stopping;
        uint64_t deadline_us;
} service = {.deadline_us = UINT64_MAX};

enum service_phase service_phase(void)
{
        return service.phase;
}

const char *service_phase_name(enum service_phase phase)
{
        return phases[phase];
}

void service_set_ready(void)
{
        service.phase = SERVICE_READY;
        service.is_stopping = false;
        service.deadline_us = UINT64_MAX;
}

void service_set_draining(bool stopping, uint64_t deadline_us)
{
        service.phase = SERVICE_DRAINING;
        service.is_stopping = stopping;
        service.deadline_us = deadline_us;
}

bool service_is_stopping(void)
{
        return service.is_stopping;
}

uint64_t service_draining_deadline(void)
{
        return service.deadline_us;
}

const char *service_reason_name(enum service_reason reason)
{
        return reasons[reason].name;
}

void service_refuse(struct service_refusal *ret, enum service_reason reason, uint64_t retry_ms,
                    const char *format, ...)
{
        uint64_t s = retry_ms / 1000 + (retry_ms % 1000 > 0);
        va_list args;

        ret->reason = reason;
        ret->retry_after_s = s < 1                     ? 1
                             : s > SERVICE_RETRY_MAX_S ? SERVICE_RETRY_MAX_S
                                                       : (unsigned)s;
        va_start(args, format);
        vsnprintf(ret->text, sizeof(ret->text), format, args);
        va_end(args);
}

/* Whatever serves next at this address can take the call once this server has stopped. */
void service_refuse_draining(struct service_refusal *ret)
{
        uint64_t now = clock_us(), at = service.deadline_us;
        uint64_t left = at == UINT64_MAX || at <= now ? 0 : (at - now) / 1000;

        service_refuse(ret, SERVICE_STOPPED, left, "the server is stopping: call again later");
}

int service_refusal_status(const struct service_refusal *refusal)
{
        return reasons[refusal->reason].status;
}

int service_refusal_append(const struct service_refusal *refusal, struct buffer *to)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "reason", service_reason_name(refusal->reason));
        json_out_int(&out, "retry_after", refusal->retry_after_s);
        json_out_end(&out, '}');
        return out.error;
}
