/* The kinds of outcomes, the methods, and the questions of servers. */
#include "supervisor/hub/call/caller.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "rpc/client-request.h"
#include "rpc/jsonrpc.h"

static const char *const outcome_kinds[] = {
        [HUB_OK] = "ToolError", /* with isError; the tool itself says that it failed */
        [HUB_NOT_FOUND] = "ToolNotFound",
        [HUB_UNAVAILABLE] = "ToolUnavailable",
        [HUB_TIMEOUT] = "ToolTimeout",
        [HUB_PROTOCOL] = "ToolProtocolError",
        [HUB_INPUT] = "ToolInputRequired",
};
static_assert(ARRAY_SIZE(outcome_kinds) == HUB_OUTCOME_MAX, "a kind for each outcome");

const char *hub_outcome_kind(enum hub_outcome outcome)
{
        return outcome < HUB_OUTCOME_MAX ? outcome_kinds[outcome] : "ToolError";
}

const char *hub_result_fault(yyjson_val *result)
{
        yyjson_val *content = yyjson_obj_get(result, "content");
        yyjson_val *is_error = yyjson_obj_get(result, "isError");
        yyjson_val *block;
        size_t i, n;

        if (!yyjson_is_obj(result))
                return "the result is not an object";
        if (is_error && !yyjson_is_bool(is_error))
                return "isError is not a boolean";
        if (content && !yyjson_is_arr(content))
                return "the content is not an array";
        yyjson_arr_foreach (content, i, n, block) {
                if (!json_string(block, "type", NULL))
                        return "a block of the content has no type";
        }
        return NULL;
}

static const struct hub_method methods[] = {
        {"resources/list", false}, {"resources/templates/list", false},
        {"resources/read", false}, {"prompts/list", true},
        {"prompts/get", true},
};

const struct hub_method *hub_method_find(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                if (strcmp(methods[i].name, name) == 0)
                        return &methods[i];
        }
        return NULL;
}

/* ---- questions ---- */

void question_end(struct question *q)
{
        TAILQ_REMOVE(&q->list->open, q, link);
        q->list->n--;
        event_del(&q->deadline);
        client_request_done(&q->ask.request);
        yyjson_doc_free(q->id);
        free(q->key);
        free(q);
}

void question_refused(struct question *q, struct client_request *request)
{
        *request = q->ask.request;
        q->ask.request = (struct client_request){};
        question_end(q);
}

static void withdraw(struct question *q)
{
        if (q->ask.withdraw)
                q->ask.withdraw(&q->ask);
        question_end(q);
}

bool questions_withdraw(struct questions *list, yyjson_val *id)
{
        struct question *q;

        TAILQ_FOREACH (q, &list->open, link) {
                if (jsonrpc_id_equals(yyjson_doc_get_root(q->id), id)) {
                        withdraw(q);
                        return true;
                }
        }
        return false;
}

void questions_withdraw_all(struct questions *list)
{
        struct question *q;

        while ((q = TAILQ_FIRST(&list->open)))
                withdraw(q);
}

/* The taker has forgotten the question. */
static void on_answered(struct client_ask *ask, yyjson_val *answer, const char *why)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(CLIENT_ANSWER_MAX);
        struct question *q = (struct question *)ask;
        struct error err = {};

        ask->withdraw = NULL;
        if (answer && client_answer_take(&ask->request, answer, &result, &err) < 0)
                why = error_is_set(&err) ? err.text : strerror(ENOMEM);
        else if (answer && buffer_append(&result, "", 1) < 0)
                why = "the answer is too large";
        q->list->answered(q->list->data, q, why ? NULL : answer, why ? NULL : buffer_bytes(&result),
                          why);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct question *q = data;

        if (q->ask.withdraw)
                q->ask.withdraw(&q->ask);
        on_answered(&q->ask, NULL, "no answer arrived in time");
}

struct question *questions_add(struct questions *list, struct client_request *request,
                               const char *server, yyjson_doc *id, char *key)
{
        const struct timeval in = clock_timeval_ms(QUESTION_MS);
        struct question *q = calloc(1, sizeof(*q));

        if (!q) {
                yyjson_doc_free(id);
                free(key);
                return NULL;
        }
        *q = (struct question){
                .ask = {.request = *request, .server = server, .answered = on_answered},
                .list = list,
                .id = id,
                .key = key};
        *request = (struct client_request){};
        evtimer_assign(&q->deadline, list->base, on_deadline, q);
        evtimer_add(&q->deadline, &in);
        TAILQ_INSERT_TAIL(&list->open, q, link);
        list->n++;
        return q;
}
