/* Records calls. */
#include "supervisor/trust/journal-step.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "rpc/background.h"
#include "supervisor/service/sha256.h"
#include "supervisor/trust/records/journal.h"
#include "supervisor/trust/records/record.h"

enum { HASHED_MAX = 1024 * 1024 }; /* bytes that the loop hashes itself: other clients wait 4 ms */

/* A call that waits for the hash of its arguments, for the journal's process, or for the disk. */
struct waiting {
        struct background_job job; /* first */
        struct journal_wait wait;
        struct trust_call *trust;
        char *text; /* owned: the arguments as they are sent */
        size_t n;
        char digest[SHA256_TEXT_SIZE];
        bool is_hashing, is_recorded;
};

static void free_waiting(struct waiting *waiting)
{
        free(waiting->text);
        free(waiting);
}

/* A call that is denied keeps its refusal. */
static enum trust_result refuse(struct trust_call *trust, const struct error *err)
{
        if (trust->is_refused)
                log_warning("%s: the record of a denied call is lost", err->text);
        else
                trust_set_refusal(trust, "ToolUnavailable", false, "%s", err->text);
        return TRUST_REFUSED;
}

static struct log_ids ids_of(const struct trust_call *trust)
{
        const struct session *s = trust->session;
        const struct tool_request *request = &trust->request;
        struct cell *cell = session_current(s);
        struct log_ids ids = session_log_ids(s, cell && cell->number == trust->cell ? cell : NULL);

        ids.call = trust->number;
        ids.server = request->server;
        ids.tool = request->method ? request->method : request->tool;
        return ids;
}

static struct log_field text_field(const char *name, const char *text)
{
        return (struct log_field){name, LOG_TEXT, text, strlen(text), 0};
}

static int record_denial(const struct waiting *waiting, struct error *err)
{
        const struct trust_call *trust = waiting->trust;
        const struct log_ids ids = ids_of(trust);
        const struct log_field fields[] = {
                {"bytes", LOG_NUMBER, NULL, 0, waiting->n},
                text_field("sha256", waiting->digest),
                text_field("why", trust->refusal.reason),
                text_field("rule", trust->rule),
        };

        return record_fact(&trust->session->rights->journal, "denied", &ids, fields,
                           trust->refusal.rule ? 4 : 3, err);
}

static int record(const struct waiting *waiting, struct error *err)
{
        struct trust_call *trust = waiting->trust;
        struct record_call call = {
                .ids = ids_of(trust),
                .rule = *trust->rule ? trust->rule : NULL,
                .arguments = waiting->text,
                .n = waiting->n,
                .digest = waiting->digest,
        };

        return record_call(&trust->session->rights->journal, &call, &trust->record, err);
}

static void drop(struct trust_call *trust)
{
        struct waiting *waiting = trust->data;

        trust->data = NULL;
        journal_cancel(&waiting->wait);
        if (waiting->is_hashing)
                background_cancel(&waiting->job);
        else
                free_waiting(waiting);
}

static enum trust_result wait_on(struct waiting *waiting)
{
        waiting->trust->data = waiting;
        waiting->trust->drop = drop;
        return TRUST_WAITS;
}

/* Nothing is sent, so nothing waits for the disk. */
static enum trust_result finish_denial(struct waiting *waiting)
{
        struct trust_call *trust = waiting->trust;
        struct error err = {};
        int r = record_denial(waiting, &err);

        free_waiting(waiting);
        return r < 0 ? refuse(trust, &err) : TRUST_REFUSED;
}

/* Records the call, and has it written to the disk if the profile wants that. Takes the waiting. */
static enum trust_result record_and_sync(struct waiting *waiting)
{
        struct trust_call *trust = waiting->trust;
        struct error err = {};

        if (trust->is_refused)
                return finish_denial(waiting);
        int r = record(waiting, &err);
        waiting->is_recorded = r >= 0;
        if (r >= 0)
                r = journal_sync(&waiting->wait, trust->session->rights->journal.sync, &err);
        if (r == 0)
                return wait_on(waiting);
        free_waiting(waiting);
        return r < 0 ? refuse(trust, &err) : TRUST_GO_ON;
}

/* Takes the waiting. */
static enum trust_result when_ready(struct waiting *waiting)
{
        struct trust_call *trust = waiting->trust;
        struct error err = {};
        int r = journal_ready(&waiting->wait, &err);

        if (r > 0)
                return record_and_sync(waiting);
        if (r == 0)
                return wait_on(waiting);
        free_waiting(waiting);
        return refuse(trust, &err);
}

/* ---- from the loop ---- */

static void finish(struct trust_call *trust, enum trust_result result)
{
        if (result == TRUST_GO_ON)
                trust_continue(trust);
        else if (result == TRUST_REFUSED)
                trust_refuse(trust);
}

static void forget(struct trust_call *trust)
{
        trust->data = NULL;
        trust->drop = NULL;
}

static void on_waited(struct journal_wait *wait, const struct error *err)
{
        struct waiting *waiting = (struct waiting *)((char *)wait - offsetof(struct waiting, wait));
        struct trust_call *trust = waiting->trust;
        bool is_recorded = waiting->is_recorded;

        forget(trust);
        if (!err && !is_recorded) {
                finish(trust, record_and_sync(waiting));
                return;
        }
        free_waiting(waiting);
        finish(trust, err ? refuse(trust, err) : TRUST_GO_ON);
}

static void run_hash(struct background_job *job)
{
        struct waiting *waiting = (struct waiting *)job;

        sha256_text(waiting->text, waiting->n, waiting->digest);
}

static void on_hashed(struct background_job *job)
{
        struct waiting *waiting = (struct waiting *)job;
        struct trust_call *trust = waiting->trust;

        waiting->is_hashing = false;
        forget(trust);
        finish(trust, when_ready(waiting));
}

static void free_job(struct background_job *job)
{
        free_waiting((struct waiting *)job);
}

static enum trust_result begin(struct trust_call *trust)
{
        static const struct background_kind hashing = {run_hash, on_hashed, free_job};
        struct error err = {};

        struct waiting *waiting = calloc(1, sizeof(*waiting));
        int r = waiting ? json_write(trust->request.arguments, &waiting->text, &waiting->n)
                        : -ENOMEM;
        if (r < 0) {
                free(waiting);
                error_errno(&err, -r, "journal");
                return refuse(trust, &err);
        }
        waiting->wait.done = on_waited;
        waiting->trust = trust;
        if (waiting->n > HASHED_MAX) {
                waiting->is_hashing = true;
                background_start(&waiting->job, &hashing, trust->session->context->base);
                return wait_on(waiting);
        }
        sha256_text(waiting->text, waiting->n, waiting->digest);
        return when_ready(waiting);
}

enum trust_result trust_journal(struct trust_call *trust)
{
        return trust->session->rights->journal.is_set ? begin(trust) : TRUST_GO_ON;
}

enum trust_result trust_journal_denial(struct trust_call *trust)
{
        const struct config_profile *rights = trust->session->rights;
        bool is_denied = strcmp(trust->refusal.kind, "ToolDenied") == 0;

        return is_denied && rights->journal.is_set ? begin(trust) : TRUST_REFUSED;
}
