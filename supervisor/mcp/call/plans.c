/* The two cells of a call with a plan, and its question. */
#include "supervisor/mcp/call/plans.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/unguessable.h"
#include "supervisor/mcp/call/input.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/sessions.h"
#include "supervisor/trust/asking.h"
#include "supervisor/trust/plans/plan-question.h"

enum { PLAN_JSON_MAX = 256 * 1024, PLAN_LINES_MAX = 16 * 1024 };

/* It outlives its call until the cell in the copy has ended. */
struct plan_run {
        struct mcp_call *call; /* NULL: it has ended */
        struct cell *in_copy;  /* NULL: it has ended */
        struct plan *plan;
        struct plan_question *question; /* while a person decides */
        bool is_only;
        bool has_outcome; /* of the call, whose own cell is not run */
        bool is_told;     /* its plan is in the outcome */
        struct cell_outcome outcome;
        char key[SESSION_KEY_MAX + 1];
};

static void run_free(struct plan_run *run)
{
        plan_question_free(run->question);
        cell_outcome_done(&run->outcome);
        plan_free(run->plan);
        free(run);
}

/* ---- the end ---- */

/* The call's own cell is not run. */
static void end_call(struct plan_run *run)
{
        run->has_outcome = true;
        if (run->call->cell)
                cell_cancel(run->call->cell);
}

static void end_with_error(struct plan_run *run, const char *type, const char *why)
{
        struct cell_outcome *o = &run->outcome;

        *o = (struct cell_outcome){.status = CELL_ERROR, .error_type = type};
        for (int i = 0; i < CELL_STREAMS; i++)
                capture_init(&o->streams[i]);
        snprintf(o->why, sizeof(o->why), "the plan was not run: %s", why);
        end_call(run);
}

static void describe_plan(const struct plan_run *run, struct cell_outcome *o)
{
        const struct plan *plan = run->plan;
        size_t asks = plan_count_kind(plan, PLAN_ASKS),
               sends = asks + plan_count_kind(plan, PLAN_SENDS);
        size_t made = 0;

        for (size_t i = 0; i < plan_count(plan); i++)
                made += plan_at(plan, i)->kind != PLAN_READS && plan_at(plan, i)->is_used;
        if (run->has_outcome)
                snprintf(
                        o->planned, sizeof(o->planned),
                        "the code ran in a copy of the session only: calls that it would send: %zu, of which ask: %zu; the session is as before",
                        sends, asks);
        else
                snprintf(o->planned, sizeof(o->planned), "plan: calls: %zu, made: %zu", sends,
                         made);
}

void plan_run_take_outcome(struct plan_run *run, struct cell_outcome *outcome)
{
        if (!run || run->is_told)
                return;
        run->is_told = true;
        if (run->has_outcome) {
                cell_outcome_done(outcome);
                cell_outcome_move(outcome, &run->outcome);
                /* The session is as before, and has no file of the copy. */
                outcome->state = sessions_is_live(run->call->server->sessions, run->key)
                                         ? CELL_STATE_KEPT
                                         : CELL_STATE_NONE;
                outcome->n_files = outcome->files_total = 0;
        }
        buffer_init(&outcome->plan, PLAN_JSON_MAX);
        buffer_init(&outcome->plan_lines, PLAN_LINES_MAX + 1024);
        if (plan_put(run->plan, run->is_only, &outcome->plan) < 0)
                buffer_done(&outcome->plan);
        if (outcome->status == CELL_PLANNED &&
            plan_list(run->plan, PLAN_LINES_MAX, &outcome->plan_lines) < 0)
                buffer_done(&outcome->plan_lines);
        describe_plan(run, outcome);
}

void plan_run_drop(struct plan_run *run)
{
        if (!run)
                return;
        run->call = NULL;
        run->question = plan_question_free(run->question);
        if (run->in_copy)
                cell_cancel(run->in_copy);
        else
                run_free(run);
}

/* ---- the question ---- */

static int ask_client(void *data, struct client_ask *ask, struct error *err)
{
        const struct plan_run *run = data;

        return mcp_input_ask(run->call, ask, err);
}

static bool ask_person(void *data, const struct person_way *way)
{
        const struct plan_run *run = data;

        return mcp_call_waits(run->call, way);
}

static void end_person(void *data)
{
        const struct plan_run *run = data;

        if (run->call)
                mcp_call_waits(run->call, NULL);
}

static void page_done(void *data, const char *page)
{
        const struct plan_run *run = data;

        if (run->call)
                mcp_input_page_done(run->call, page);
}

static void begin(struct plan_run *run)
{
        if (run->call->cell)
                cell_begin_postponed(run->call->cell);
}

static void on_decided(void *data, bool is_any_allowed, const char *why)
{
        struct plan_run *run = data;
        char text[CELL_WHY_MAX];

        snprintf(text, sizeof(text), "%s", why);
        run->question = plan_question_free(run->question);
        if (is_any_allowed)
                begin(run);
        else
                end_with_error(run, "ToolDenied", text);
}

static void ask(struct plan_run *run, const struct session *copy)
{
        const struct plan_asker asker = {.ask_client = ask_client,
                                         .ask_person = ask_person,
                                         .end_person = end_person,
                                         .page_done = page_done,
                                         .decided = on_decided,
                                         .data = run};
        const struct mcp_call *call = run->call;
        const struct log_ids ids = {.session = run->key,
                                    .client = *call->client_name ? call->client_name : NULL,
                                    .trace_id = *call->trace.id ? call->trace.id : NULL};
        struct approval_settings settings = asking_settings(copy);

        settings.is_plan = true;
        run->question = plan_question_new(call->server->base, run->plan, &ids, call->session,
                                          call->principal->key, &settings, &copy->profile->journal,
                                          &asker);
        if (!run->question)
                end_with_error(run, "ToolError", "no memory for its question");
}

/* ---- the copy ---- */

/* Whether the code has ended well there, and the plan is whole. */
static bool is_whole(const struct plan_run *run, const struct cell *cell)
{
        return cell->outcome.status == CELL_OK && !cell->outcome.error && !plan_fault(run->plan);
}

static void on_copy_ended(void *data, struct cell *cell)
{
        struct plan_run *run = data;
        struct cell_outcome *o = &run->outcome;

        run->in_copy = NULL;
        if (!run->call) {
                run_free(run);
                return;
        }
        if (is_whole(run, cell) && !run->is_only) {
                if (plan_count_kind(run->plan, PLAN_ASKS) > 0)
                        ask(run, cell->session);
                else
                        begin(run);
                return;
        }
        if (plan_fault(run->plan)) {
                end_with_error(run, "PlanError", plan_fault(run->plan));
                return;
        }
        cell_outcome_move(o, &cell->outcome);
        if (o->status == CELL_OK)
                o->status = CELL_PLANNED;
        end_call(run);
}

/* ---- the beginning ---- */

/* The profile of the copy and of the session: that of a session which is live or was, unless the call names another one. */
static int find_profile(const struct plan_run *run, const struct cell_request *cell,
                        const char **name, const struct config_profile **ret, struct error *err)
{
        struct sessions *sessions = run->call->server->sessions;
        const struct session *session = sessions_find(sessions, run->key);
        const struct config *config = sessions_config(sessions);

        *ret = NULL;
        *name = cell->profile;
        if (session && session->state != SESSION_NONE)
                *ret = session->profile;
        if (*ret || config->n_profiles == 0)
                return 0;
        if (session && session->last_profile[0] && !cell->profile_asked)
                *name = session->last_profile;
        int i = *name ? config_find_profile(config, *name, err) : (int)config->profile;
        if (i >= 0)
                *ret = &config->profiles[i];
        return i;
}

static int check_profile(const struct config_profile *profile, struct error *err)
{
        if (!profile)
                return error_set(err, EINVAL, "plan: the config has no profile");
        for (size_t i = 0; i < profile->n_mounts; i++) {
                if (profile->mounts[i].writable)
                        return error_set(
                                err, EINVAL,
                                "plan: code of profile \"%s\" can write to %s, and would do it before a person has answered: leave plan out",
                                profile->name, profile->mounts[i].target);
        }
        return 0;
}

/* The code in the copy: it has no client, and no effect besides the plan. */
static void describe_copy(const struct cell_request *cell, const char *from, struct plan_run *run,
                          struct cell_request *ret)
{
        *ret = *cell;
        ret->from = from;
        ret->checkpoint = NULL;
        ret->rolls_back = false;
        ret->is_unnamed = true;
        ret->is_single = true;
        ret->is_planning = true;
        ret->plan = run->plan;
        ret->client = NULL;
        ret->waits = NULL;
        ret->watch = NULL;
        ret->done = on_copy_ended;
        ret->data = run;
        if (ret->timeout_ms == 0 || ret->timeout_ms > PLAN_MS)
                ret->timeout_ms = PLAN_MS;
}

static int start(struct plan_run *run, const struct cell_request *cell, struct error *err)
{
        struct mcp_call *call = run->call;
        struct sessions *sessions = call->server->sessions;
        struct cell_request in_copy, own = *cell;
        char name[SESSION_NAME_MAX + 1] = "plan-", key[SESSION_KEY_MAX + 1];
        bool is_live = sessions_is_live(sessions, run->key);
        const struct config_profile *profile;

        int r = find_profile(run, cell, &own.profile, &profile, err);
        if (r >= 0)
                r = check_profile(profile, err);
        if (r < 0)
                return r;
        unguessable(name + strlen(name));
        r = sessions_check_branches(sessions, call->principal->key, name, 1,
                                    call->principal->sessions_max, err);
        if (r < 0)
                return r;
        session_key_make(call->principal->key, name, key);
        describe_copy(&own, is_live ? run->key : NULL, run, &in_copy);
        r = sessions_run(sessions, key, &in_copy, &run->in_copy, err);
        if (r < 0)
                return r;
        own.is_postponed = true;
        own.plan = run->plan;
        r = sessions_run(sessions, run->key, &own, &call->cell, err);
        if (r >= 0)
                plan_charge(run->plan, call->cell->session->account);
        return r;
}

int plan_run_start(struct mcp_call *call, const struct cell_request *cell, const char *key,
                   bool is_only, struct error *err)
{
        struct plan_run *run = calloc(1, sizeof(*run));

        if (run)
                run->plan = plan_new();
        if (!run || !run->plan) {
                free(run);
                return error_errno(err, ENOMEM, "plan");
        }
        run->call = call;
        run->is_only = is_only;
        snprintf(run->key, sizeof(run->key), "%s", key);
        int r = start(run, cell, err);
        if (r < 0)
                plan_run_drop(run);
        else
                call->plan = run;
        return r;
}
