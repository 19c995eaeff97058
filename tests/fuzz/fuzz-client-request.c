/*
 * {"method", "params", "answer"}: a request of a server to our client, and the client's answer.
 * Accepted when both are passed on. An accepted answer is accepted again, unchanged.
 */
#include "rpc/client-request.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static bool is_shown(const struct client_request *q)
{
        char what[CLIENT_URL_MAX + 64];
        const char *url = client_request_url(q);

        client_request_describe(q, what, sizeof(what));
        assert(q->kind != CLIENT_URL || client_url_is_safe(url, strlen(url)));
        return q->kind == CLIENT_ROOTS || q->kind == CLIENT_SAMPLE || client_request_message(q);
}

static void check_again(const struct client_request *q)
{
        _cleanup_client_request_ struct client_request again = {};
        const char *method = client_request_method(q);
        struct error err = {};

        /* The name is put before the question once more, which may then be too long. */
        int r = client_request_read(&again, "", method, strlen(method), yyjson_doc_get_root(q->doc),
                                    &err);
        assert(r == 0 || r == -EMSGSIZE);
        assert(r < 0 || (again.kind == q->kind && again.needs == q->needs));
}

static bool is_answered(const struct client_request *q, yyjson_val *answer)
{
        _cleanup_buffer_ struct buffer once = BUFFER_INIT(CLIENT_ANSWER_MAX),
                                       twice = BUFFER_INIT(CLIENT_ANSWER_MAX);
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        if (client_answer_take(q, answer, &once, &err) < 0) {
                assert(error_is_set(&err));
                return false;
        }
        assert(json_parse(buffer_bytes(&once), once.length, &doc, &err) == 0);
        assert(client_answer_take(q, yyjson_doc_get_root(doc), &twice, &err) == 0);
        assert(once.length == twice.length &&
               memcmp(buffer_bytes(&once), buffer_bytes(&twice), once.length) == 0);
        return true;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        _cleanup_client_request_ struct client_request q = {};
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};
        size_t length = 0;

        if (json_parse((const char *)data, n, &doc, &err) < 0)
                return false;
        yyjson_val *root = yyjson_doc_get_root(doc);
        const char *method = json_string(root, "method", &length);
        if (client_request_read(&q, "server", method ? method : "", length,
                                yyjson_obj_get(root, "params"), &err) < 0) {
                assert(error_is_set(&err));
                return false;
        }
        assert(q.doc && q.params.length <= CLIENT_SAMPLE_MAX && is_shown(&q));
        check_again(&q);
        return is_answered(&q, yyjson_obj_get(root, "answer"));
}

FUZZ_TARGET
