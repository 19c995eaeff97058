/* Answers of clients. */
#include "supervisor/mcp/publish/published-answers.h"

#include <errno.h>
#include <string.h>

#include "base/json-out.h"
#include "rpc/client-request.h"
#include "supervisor/mcp/state.h"

static int append_answer(struct buffer *answers, const char *key, const struct buffer *answer)
{
        size_t before = answers->length;
        struct json_out out = {.to = answers, .more = before > 0};

        json_out_buffer(&out, key, answer);
        if (out.error < 0)
                answers->length = before;
        return out.error;
}

int published_answer_take(struct published_run *run, const char *key,
                          const struct client_request *question, yyjson_val *answer,
                          struct error *err)
{
        _cleanup_buffer_ struct buffer taken = BUFFER_INIT(CLIENT_ANSWER_MAX);

        int r = client_answer_take(question, answer, &taken, err);
        if (r >= 0)
                r = append_answer(&run->answers, key, &taken);
        if (r < 0 && !error_is_set(err))
                return error_set(err, -r, "%s",
                                 r == -EMSGSIZE ? "the answers are too large" : strerror(-r));
        return r;
}

/* ---- of modern requests ---- */

static int refuse(struct error *err, const char *why)
{
        return error_set(err, EINVAL, "%s", why);
}

static int check_responses(yyjson_val *given, struct error *err)
{
        size_t i, n;
        yyjson_val *key, *value;

        if (given && (!yyjson_is_obj(given) || yyjson_obj_size(given) > ANSWERS_MAX))
                return refuse(err, "params.inputResponses must be an object of at most 64 results");
        yyjson_obj_foreach (given, i, n, key, value) {
                if (!yyjson_is_obj(value))
                        return refuse(err, "each of params.inputResponses must be an object");
        }
        return 0;
}

static struct request_call describe(const struct published_run *run)
{
        return (struct request_call){.method = run->method,
                                     .name = &run->name,
                                     .arguments = &run->arguments,
                                     .answers = &run->answers,
                                     .questions = &run->questions,
                                     .rounds = run->rounds + 1};
}

/* The answers and questions of the call that the request continues. */
static int find_state(const struct mcp_request *request, struct published_run *run,
                      struct error *err)
{
        yyjson_val *state = yyjson_obj_get(request->params, "requestState");
        const struct request_call call = describe(run);

        if (!state)
                return 0;
        int r = yyjson_is_str(state)
                        ? request_state_find(&request->peer->principal->states, &call,
                                             yyjson_get_str(state), yyjson_get_len(state),
                                             &run->answers, &run->questions, &run->rounds)
                        : -ENOENT;
        if (r == -ENOENT)
                return refuse(
                        err,
                        "params.requestState is unknown, has expired, or belongs to another call: call without it");
        return r < 0 ? error_errno(err, -r, "params.requestState") : 0;
}

/* key, question: of run->questions. */
static int take_one(struct published_run *run, yyjson_val *key, yyjson_val *question,
                    yyjson_val *answer, struct error *err)
{
        _cleanup_client_request_ struct client_request request = {};
        size_t n = 0;
        const char *method = json_string(question, "method", &n);

        int r = client_request_restore(&request, method, n, yyjson_obj_get(question, "params"),
                                       err);
        if (r >= 0)
                r = published_answer_take(run, yyjson_get_str(key), &request, answer, err);
        return r < 0 ? error_context(err, "params.inputResponses.%s", yyjson_get_str(key)) : 0;
}

/* Returns how many answers have a question. */
static int take_known(struct published_run *run, yyjson_val *given, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        size_t i, n;
        yyjson_val *key, *question;
        int known = 0;

        if (run->questions.length > 0 &&
            json_parse(buffer_bytes(&run->questions), run->questions.length, &doc, err) < 0)
                return -ENOMEM;
        yyjson_obj_foreach (yyjson_doc_get_root(doc), i, n, key, question) {
                yyjson_val *answer = yyjson_obj_get(given, yyjson_get_str(key));
                int r = answer ? take_one(run, key, question, answer, err) : 0;

                if (r < 0)
                        return r;
                known += answer != NULL;
        }
        return known;
}

static int keep_early(struct published_run *run, yyjson_val *given, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(ANSWERS_BYTES_MAX);

        int r = json_append(&text, given);
        if (r == -EMSGSIZE)
                return refuse(err, "params.inputResponses is too large");
        if (r >= 0)
                r = json_parse(buffer_bytes(&text), text.length, &run->early, err);
        return r < 0 && !error_is_set(err) ? error_errno(err, -r, "params.inputResponses") : r;
}

int published_answers_read(const struct mcp_request *request, struct published_run *run,
                           struct error *err)
{
        yyjson_val *given = yyjson_obj_get(request->params, "inputResponses");

        if (!run->modern)
                return 0;
        int r = check_responses(given, err);
        if (r >= 0)
                r = find_state(request, run, err);
        if (r >= 0)
                r = take_known(run, given, err);
        if (r >= 0 && (size_t)r < yyjson_obj_size(given))
                r = keep_early(run, given, err);
        return r < 0 ? r : 0;
}

/* ---- of modern calls ---- */

static void drop_question(struct published_run *run, size_t i)
{
        client_request_done(&run->asked[i].ask.request);
        memmove(&run->asked[i], &run->asked[i + 1], (--run->n_questions - i) * sizeof(*run->asked));
}

int published_answers_early(struct published_run *run, struct error *err)
{
        yyjson_val *given = yyjson_doc_get_root(run->early);

        for (size_t i = 0; i < run->n_questions;) {
                const struct published_question *q = &run->asked[i];
                yyjson_val *answer = yyjson_obj_get(given, q->key);

                if (!answer) {
                        i++;
                        continue;
                }
                int r = published_answer_take(run, q->key, &q->ask.request, answer, err);
                if (r < 0)
                        return error_context(err, "params.inputResponses.%s", q->key);
                drop_question(run, i);
        }
        return 0;
}

/* The form decides what fits; of other questions, the method does. */
static void put_question(struct json_out *out, const struct published_question *q)
{
        const struct client_request *request = &q->ask.request;

        json_out_begin(out, q->key, '{');
        json_out_text(out, "method", client_request_method(request));
        if (request->kind == CLIENT_FORM || request->kind == CLIENT_URL)
                json_out_buffer(out, "params", &request->params);
        json_out_end(out, '}');
}

int published_answers_keep(struct published_run *run, struct request_states *states,
                           struct buffer *to)
{
        const struct request_call call = describe(run);
        struct json_out out = {.to = &run->questions};

        buffer_consume(&run->questions, run->questions.length);
        json_out_begin(&out, NULL, '{');
        for (size_t i = 0; i < run->n_questions; i++)
                put_question(&out, &run->asked[i]);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : request_state_keep(states, &call, to);
}
