/* Lines of JSON-RPC: accepted when there is at least one and every one is a message. */
#include "rpc/jsonrpc.h"
#include "rpc/lines.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { MOST = 64 * 1024 };

/* The answer to a request has the unchanged id. */
static void check_answer(const struct jsonrpc_message *request)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(2UL * MOST + 1024);
        _cleanup_jsonrpc_ struct jsonrpc_message back = {};
        struct error err = {};

        assert(jsonrpc_append_result(&b, request->id, "{}", 2) == 0);
        assert(memchr(buffer_bytes(&b), '\n', b.length) == buffer_bytes(&b) + b.length - 1);
        assert(jsonrpc_parse(buffer_bytes(&b), b.length, &back, &err) == 0);
        assert(back.kind == JSONRPC_RESPONSE && yyjson_equals(back.id, request->id));
}

/* Text that is passed on unchanged parses to the value that was read. */
static void check_text(const struct jsonrpc_message *m)
{
        _cleanup_buffer_ struct buffer a = BUFFER_INIT(8UL * MOST), b = BUFFER_INIT(8UL * MOST);
        _cleanup_json_ yyjson_doc *doc = NULL;

        if (!m->text)
                return;
        assert(m->kind == JSONRPC_RESPONSE && memchr(m->text, '\n', m->text_length) == NULL);
        assert(json_parse(m->text, m->text_length, &doc, NULL) == 0);
        assert(json_append(&a, m->result) == 0);
        assert(json_append(&b, yyjson_doc_get_root(doc)) == 0);
        assert(a.length == b.length && memcmp(buffer_bytes(&a), buffer_bytes(&b), a.length) == 0);
}

static void check_members(const struct jsonrpc_message *m)
{
        assert((m->kind == JSONRPC_REQUEST) <= (m->id && m->method));
        assert((m->kind == JSONRPC_NOTIFICATION) <= (!m->id && m->method));
        assert((m->kind == JSONRPC_RESPONSE) <= (m->id && m->result));
        assert((m->kind == JSONRPC_ERROR) <= (m->error_message != NULL));
        if (m->kind == JSONRPC_REQUEST)
                check_answer(m);
        check_text(m);
}

static bool take_batch(yyjson_val *batch)
{
        size_t i, n;
        yyjson_val *value;
        bool good = true;

        yyjson_arr_foreach (batch, i, n, value) {
                struct jsonrpc_message m;
                struct error err = {};
                int r = jsonrpc_classify(value, &m, &err);
                assert(r == 0 || ((r == -EINVAL || r == -ENOTUNIQ) && error_is_set(&err)));
                if (r == 0)
                        check_members(&m);
                good = good && r == 0;
        }
        return good;
}

static bool take_line(const char *line, size_t n)
{
        _cleanup_jsonrpc_ struct jsonrpc_message m = {};
        struct error err = {};

        int r = jsonrpc_parse(line, n, &m, &err);
        assert((r == 0) == (m.kind != JSONRPC_INVALID));
        assert(r == 0 || ((r == -EBADMSG || r == -EINVAL || r == -ENOTUNIQ) && error_is_set(&err)));
        int64_t guessed = 0;
        assert(!jsonrpc_guess_id(line, n, &guessed) || guessed >= 0);
        if (r < 0)
                return false;
        if (m.kind == JSONRPC_BATCH)
                return take_batch(m.batch);
        check_members(&m);
        return true;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        size_t at = 0, lines = 0, length = 0;
        const char *line = NULL;
        struct lines l;
        bool good = true;
        int r;

        lines_init(&l, MOST);
        while (at < n) {
                size_t piece = 1 + data[at];
                if (piece > n - at)
                        piece = n - at;
                assert(lines_feed(&l, data + at, piece) == 0);
                at += piece;
                while ((r = lines_next(&l, &line, &length)) != 0) {
                        assert(length <= MOST && (r == 1 || length == MOST));
                        good = r == 1 && take_line(line, length) && good;
                        lines++;
                }
        }
        if (lines_rest(&l, &line, &length)) {
                good = take_line(line, length) && good;
                lines++;
        }
        lines_done(&l);
        return good && lines > 0;
}

FUZZ_TARGET
