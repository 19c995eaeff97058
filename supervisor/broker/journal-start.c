/* The start of the journal. */
#include "supervisor/broker/journal-start.h"

#include "policy/config/journal-keys.h"
#include "supervisor/service/event.h"
#include "supervisor/trust/records/doubts.h"
#include "supervisor/trust/records/journal.h"
#include "supervisor/trust/records/record.h"

static void take_doubt(void *data, const char *call, size_t n)
{
        doubts_add(call, n);
}

static int ask_start(void *data)
{
        const struct monitor_request request = {.verb = MONITOR_JOURNAL_START};

        return link_request(data, &request, NULL);
}

int journal_use(const struct config *config, struct event_base *base, struct link *link,
                struct error *err)
{
        const struct journal_owner owner = {link, ask_start, take_doubt};
        uint64_t max, keep_s;

        if (!config_journal_limits(config, &max, &keep_s))
                return 0;
        int r = journal_new(base, &owner, err);
        if (r < 0)
                return r;
        event_set_sink(record_event);
        journal_need();
        return 0;
}

void journal_take_start(const struct monitor_message *message)
{
        const struct monitor_event *event = &message->event;

        if (event->kind == MONITOR_JOURNAL_STARTED)
                journal_started(message->fds[0], NULL);
        else
                journal_started(-1, &event->error);
}

void journal_finish(void)
{
        event_set_sink(NULL);
        journal_free();
        doubts_free();
}
