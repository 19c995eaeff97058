#include "rpc/monitor-messages.h"

#include "base/cleanup.h"

enum number {
        NUMBER_NONE,
        NUMBER_FLAG,
        NUMBER_PID,
        NUMBER_NEWEST_OR_PID,
        NUMBER_TIME,
        NUMBER_COUNTER,
        NUMBER_SPARES
};
enum legal { LEGAL_ANSWER, LEGAL_CONFIG, LEGAL_NOTICE };

static const struct request_row {
        const char *name;
        enum monitor_owner owner;
        enum monitor_target target;
        enum number number;
        size_t n_instead;
        uint32_t answer;
} requests[] = {
#define MONITOR_REQUEST(name, owner, target, number, instead, answer, text)                        \
        [MONITOR_##                                                                                \
                name] = {#name,   MONITOR_FOR_##owner, MONITOR_TARGET_##target, NUMBER_##number,   \
                         instead, MONITOR_##answer},
#include "rpc/monitor-messages.def"
};
static_assert(ARRAY_SIZE(requests) == MONITOR_VERB_MAX, "a row for each verb");

static const struct event_row {
        const char *name;
        enum legal legal;
        enum monitor_owner owner;
        enum monitor_target target;
        size_t n_fds;
} events[] = {
#define MONITOR_EVENT(name, legal, owner, target, fds, member, text)                               \
        [MONITOR_##                                                                                \
                name] = {#name, LEGAL_##legal, MONITOR_FOR_##owner, MONITOR_TARGET_##target, fds},
#include "rpc/monitor-messages.def"
};
static_assert(ARRAY_SIZE(events) == MONITOR_EVENT_MAX, "a row for each event");

/* NULL: there is none. */
static const struct request_row *request_row(uint32_t verb)
{
        return verb > 0 && verb < MONITOR_VERB_MAX ? &requests[verb] : NULL;
}

static const struct event_row *event_row(uint32_t kind)
{
        return kind > 0 && kind < MONITOR_EVENT_MAX ? &events[kind] : NULL;
}

const char *monitor_verb_name(uint32_t verb)
{
        const struct request_row *row = request_row(verb);

        return row ? row->name : "?";
}

const char *monitor_event_name(uint32_t kind)
{
        const struct event_row *row = event_row(kind);

        return row ? row->name : "?";
}

enum monitor_target monitor_request_target(const struct monitor_request *request)
{
        return requests[request->verb].target;
}

/* Pid 1 is init. */
static bool is_pid(uint32_t number)
{
        return number > 1 && number <= INT32_MAX;
}

static int check_number(enum number range, uint32_t number)
{
        if (range == NUMBER_NONE || range == NUMBER_FLAG)
                return number <= (range == NUMBER_FLAG) ? 0 : -EINVAL;
        if (range == NUMBER_SPARES)
                return number >> 2 * MONITOR_SPARES_BITS == 0 ? 0 : -EINVAL;
        if (range == NUMBER_TIME || range == NUMBER_COUNTER)
                return number <= INT32_MAX ? 0 : -EINVAL;
        return is_pid(number) || (number == 0 && range == NUMBER_NEWEST_OR_PID) ? 0 : -ESRCH;
}

int monitor_request_check(const struct monitor_request *request)
{
        const struct request_row *row = request_row(request->verb);

        if (!row || request->serial == 0)
                return -EPROTO;
        for (size_t i = 0; i < INIT_INSTEAD_MAX; i++) {
                if (request->instead[i] == 0)
                        continue;
                if (i >= row->n_instead)
                        return -EINVAL;
                if (!is_pid(request->instead[i]))
                        return -ESRCH;
        }
        const struct monitor_principal *p = &request->principal;
        if (row->target != MONITOR_TARGET_PROFILE &&
            (p->id || p->of || p->memory_mib || p->cpu_milli))
                return -EINVAL;
        return check_number(row->number, request->number);
}

bool monitor_event_check(const struct monitor_event *event, size_t n_fds,
                         const struct monitor_request *asked)
{
        const struct event_row *row = event_row(event->kind);
        const struct request_row *request = request_row(asked->verb);

        if (!row || n_fds != row->n_fds || (row->legal == LEGAL_ANSWER) != (request != NULL))
                return false;
        if (request && event->kind != MONITOR_FAILED && event->kind != request->answer)
                return false;
        return row->target != MONITOR_TARGET_USAGE || event->target < MONITOR_USAGE_MAX;
}

size_t monitor_event_fds(const struct monitor_event *event)
{
        return events[event->kind].n_fds;
}

bool monitor_event_is_config(const struct monitor_event *event)
{
        return events[event->kind].legal == LEGAL_CONFIG;
}

enum monitor_owner monitor_message_owner(const struct monitor_message *message)
{
        return message->asked.verb ? requests[message->asked.verb].owner
                                   : events[message->event.kind].owner;
}
