/* The life of a session, and where its events come from; actions.c handles them. */
#include "supervisor/session/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "supervisor/session/actions.h"
#include "supervisor/session/calls/calls.h"
#include "supervisor/session/calls/files.h"
#include "supervisor/session/calls/input.h"
#include "supervisor/session/calls/install.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/machine/tasks.h"
#include "supervisor/session/state/block.h"
#include "supervisor/session/state/copies.h"
#include "supervisor/session/state/transaction.h"

/* A session with what the modules above the machine keep of it. */
struct whole {
        struct session session; /* first */
        struct calls calls;
        struct session_input input;
        struct session_installs installs;
        struct files files;
        struct copies copies;
        struct transaction transaction;
        struct block block;
};

int session_new(struct session **ret, const struct session_context *context, const char *name,
                struct error *err)
{
        struct whole *whole = calloc(1, sizeof(*whole));

        if (!whole)
                return error_errno(err, ENOMEM, "session");
        struct session *s = &whole->session;
        s->context = context;
        s->table = &session_table;
        s->calls = &whole->calls;
        s->input = &whole->input;
        s->installs = &whole->installs;
        s->files = &whole->files;
        s->copies = &whole->copies;
        s->transaction = &whole->transaction;
        s->block = &whole->block;
        snprintf(s->name, sizeof(s->name), "%s", name);
        s->channel.fd = s->tasks.changes_fd = -1;
        streams_init(&s->streams, s->name);
        meter_init(&s->meter);
        session_network_init(&s->network);
        s->account = memory_account_new(ACCOUNT_OF_SESSION);
        if (machine_init(s) < 0 || queue_init(s) < 0 || !s->account) {
                session_free(s);
                return error_errno(err, ENOMEM, "session");
        }
        *ret = s;
        return 0;
}

struct session *session_free(struct session *s)
{
        if (!s)
                return NULL;
        if (s->timer && s->remind)
                session_forget_sandbox(s);
        files_fail_all(s, "");
        queue_done(s);
        machine_done(s);
        receipts_done(&s->receipts);
        memory_account_unref(s->account);
        free(s);
        return NULL;
}

void session_started(struct session *s, uint32_t target, const int fds[SESSION_FDS])
{
        session_dispatch_fds(s, EVENT_STARTED,
                             &(struct session_details){.target = target, .fds = fds}, SESSION_FDS);
}

void session_ended(struct session *s, const struct monitor_ended *ended)
{
        tasks_end(s, ended);
        session_dispatch(s, EVENT_ENDED, &(struct session_details){.ended = ended});
}

void session_cleared(struct session *s, const struct monitor_ended *ended,
                     const int fds[SESSION_COUNTERS])
{
        tasks_end(s, ended);
        session_dispatch_fds(s, EVENT_CLEARED,
                             &(struct session_details){.ended = ended, .fds = fds},
                             SESSION_COUNTERS);
}

void session_end_by_owner(struct session *s, bool restart)
{
        s->restart = restart;
        session_dispatch(s, EVENT_OWNER_END, NULL);
}

void session_counted(struct session *s, const struct monitor_counted *counted)
{
        tasks_counted(s, counted, s->copies->is_awaited || s->copies->is_offered,
                      s->copies->asked.of_block);
}

void session_pause_output(struct session *s, bool paused)
{
        streams_pause(&s->streams, paused);
}
