#include "base/loop.h"

#include <errno.h>
#include <stdbool.h>

#include "base/log.h"

/* libevent's log callback gets no pointer of ours. */
static struct event_base *the_base;
static bool has_warned;

static void on_message(int severity, const char *text)
{
        if (severity < EVENT_LOG_WARN)
                return;
        log_error("the event loop stops: %s", text);
        has_warned = true;
        if (the_base)
                event_base_loopbreak(the_base);
}

struct event_base *loop_new(void)
{
        event_set_log_callback(on_message);
        the_base = event_base_new();
        return the_base;
}

int loop_run(struct event_base *base)
{
        int r;

        while ((r = loop_turn(base)) > 0)
                ;
        return r;
}

int loop_turn(struct event_base *base)
{
        int r = has_warned ? -1 : event_base_loop(base, EVLOOP_ONCE);

        if (r < 0 || has_warned)
                return -EIO;
        return r == 0 && !event_base_got_break(base);
}
