/* The cells of a call with `branches`, and their result. */
#include "supervisor/mcp/call/branches.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json-out.h"
#include "supervisor/mcp/call/result.h"
#include "supervisor/mcp/subscriptions.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/sessions.h"

enum {
        SHOWN_MAX = 64,           /* in the text */
        CHARACTERS_ALL = 1000000, /* of a stream of all branches together, */
        CHARACTERS_LEAST = 200,   /* and of each at least */
        BYTES_MAX = 64 * 1024 * 1024,
};

/* One branch. */
struct branch_call {
        struct branch_calls *all;
        struct cell *cell; /* NULL: it has ended */
        bool is_ok;
        struct buffer object, text; /* of the result */
};

/* It outlives its call until all cells have ended. */
struct branch_calls {
        struct mcp_call *call; /* NULL: no client waits for it */
        char name[SESSION_NAME_MAX + 1];
        size_t most;
        unsigned n, left;
        struct branch_call branches[];
};

static void calls_free(struct branch_calls *all)
{
        for (unsigned i = 0; i < all->n; i++) {
                buffer_done(&all->branches[i].object);
                buffer_done(&all->branches[i].text);
        }
        free(all);
}

/* The name of the branch i, from 0 on. */
static int name_of(const char *name, unsigned i, char ret[SESSION_NAME_MAX + 1])
{
        int n = snprintf(ret, SESSION_NAME_MAX + 1, "%s-%u", name, i + 1);

        return n > SESSION_NAME_MAX ? -ENAMETOOLONG : 0;
}

/* Keeps the array as a resource. */
static void keep(struct mcp_call *call, const struct resource_uri *uri, const struct buffer *array)
{
        struct capture whole;

        capture_init(&whole);
        if (capture_append(&whole, buffer_bytes(array), array->length) >= 0 &&
            capture_finish(&whole) >= 0 &&
            resource_store_keep(&call->principal->store, uri, &whole) >= 0) {
                call->principal->resources_serial++;
                subscriptions_lists_changed(call->server, call->principal);
        }
        capture_done(&whole);
}

static int append_all(const struct branch_calls *all, struct buffer *array, struct buffer *text,
                      bool *is_ok)
{
        int r = buffer_append_text(array, "[");

        *is_ok = false;
        for (unsigned i = 0; i < all->n && r >= 0; i++) {
                const struct branch_call *b = &all->branches[i];
                *is_ok |= b->is_ok;
                if (i > 0)
                        buffer_append_text(array, ",");
                r = buffer_append(array, buffer_bytes(&b->object), b->object.length);
                if (i < SHOWN_MAX && r >= 0)
                        r = buffer_append(text, buffer_bytes(&b->text), b->text.length);
        }
        return r < 0 ? r : buffer_append_text(array, "]");
}

static int render(const struct branch_calls *all, const struct resource_uri *uri,
                  struct buffer *array, struct buffer *to)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(BYTES_MAX), link = BUFFER_INIT(BYTES_MAX);
        struct json_out out = {.to = to};
        bool is_ok;

        int r = append_all(all, array, &text, &is_ok);
        if (r >= 0)
                r = resource_uri_append(uri, &link);
        if (r < 0)
                return r;
        if (all->n > SHOWN_MAX)
                buffer_printf(&text, "%u branches more. ", all->n - SHOWN_MAX);
        buffer_printf(&text, "All as JSON: %.*s", (int)link.length, buffer_bytes(&link));
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "content", '[');
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "type", "text");
        json_out_string(&out, "text", buffer_bytes(&text), text.length);
        json_out_end(&out, '}');
        json_out_end(&out, ']');
        json_out_begin(&out, "structuredContent", '{');
        json_out_text(&out, "status", is_ok ? "ok" : "error");
        json_out_text(&out, "session", all->name);
        json_out_raw(&out, "branches", buffer_bytes(array), array->length);
        json_out_begin(&out, "truncated", '{');
        json_out_string(&out, "resource", buffer_bytes(&link), link.length);
        json_out_end(&out, '}');
        json_out_end(&out, '}');
        json_out_bool(&out, "isError", !is_ok);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : text.error;
}

static void answer(struct branch_calls *all)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(BYTES_MAX),
                                       array = BUFFER_INIT(BYTES_MAX);
        struct mcp_call *call = all->call;
        /* No cell of a session has such a number. */
        struct resource_uri uri = {
                .kind = RESOURCE_OUTPUT, .cell = clock_us(), .stream = CELL_STDOUT};

        memcpy(uri.session, all->name, sizeof(uri.session));
        int r = render(all, &uri, &array, &result);
        if (r >= 0)
                keep(call, &uri, &array);
        call->branches = NULL;
        reply_made(&call->reply, r, &result);
        mcp_call_free(call);
}

static void on_done(void *data, struct cell *cell)
{
        struct branch_call *b = data;
        struct branch_calls *all = b->all;
        char name[SESSION_NAME_MAX + 1];

        b->cell = NULL;
        b->is_ok = cell->outcome.status == CELL_OK;
        if (all->call) {
                name_of(all->name, (unsigned)(b - all->branches), name);
                if (result_render_branch(&cell->outcome, name, all->most, &b->object, &b->text) <
                    0) {
                        buffer_done(&b->object);
                        buffer_append_text(&b->object, "{\"session\":\"");
                        buffer_append_text(&b->object, name);
                        buffer_append_text(&b->object, "\",\"status\":\"error\"}");
                }
        }
        if (--all->left > 0)
                return;
        if (all->call)
                answer(all);
        calls_free(all);
}

/* The call ends before its branches have. */
static void drop(struct mcp_call *call)
{
        struct branch_calls *all = call->branches;

        if (!all)
                return;
        call->branches = NULL;
        all->call = NULL;
        all->left++; /* it stays until this loop has ended */
        for (unsigned i = 0; i < all->n; i++) {
                if (all->branches[i].cell)
                        cell_cancel(all->branches[i].cell);
        }
        if (--all->left == 0)
                calls_free(all);
}

static const struct mcp_call_kind branches_kind = {.done = drop};

static struct branch_calls *calls_new(struct mcp_call *call, const char *name, unsigned n)
{
        struct branch_calls *all = calloc(1, sizeof(*all) + n * sizeof(all->branches[0]));
        size_t most = CHARACTERS_ALL / n > CHARACTERS_LEAST ? CHARACTERS_ALL / n : CHARACTERS_LEAST;

        if (!all)
                return NULL;
        all->call = call;
        all->n = n;
        all->most = call->max_output < most ? call->max_output : most;
        snprintf(all->name, sizeof(all->name), "%s", name);
        for (unsigned i = 0; i < n; i++) {
                struct branch_call *b = &all->branches[i];
                b->all = all;
                buffer_init(&b->object, BYTES_MAX);
                buffer_init(&b->text, BYTES_MAX);
        }
        return all;
}

int branch_calls_start(struct mcp_call *call, const struct cell_request *cell, const char *name,
                       unsigned n, struct error *err)
{
        struct sessions *sessions = call->server->sessions;
        char own[SESSION_NAME_MAX + 1], key[SESSION_KEY_MAX + 1];
        struct cell_request request = *cell;
        struct branch *shared = NULL;
        int r = sessions_check_branches(sessions, call->principal->key, name, n,
                                        call->principal->sessions_max, err);

        if (r < 0)
                return r;
        struct branch_calls *all = calls_new(call, name, n);
        if (!all)
                return error_errno(err, ENOMEM, "branches");
        call->kind = &branches_kind;
        call->branches = all;
        request.done = on_done;
        /* Both take a call as their data. */
        request.watch = NULL;
        request.client = NULL;
        request.shared = &shared;
        for (unsigned i = 0; i < n; i++) {
                struct branch_call *b = &all->branches[i];
                name_of(name, i, own);
                session_key_make(call->principal->key, own, key);
                request.data = b;
                request.branch = i + 1;
                r = sessions_run(sessions, key, &request, &b->cell, err);
                if (r < 0) {
                        drop(call);
                        return r;
                }
                all->left++;
        }
        return 0;
}
