/*
 * Learns a server's tools: tools/list, page by page.
 *
 * A server that sends list_changed again and again gets so few requests that it is idle nine
 * tenths of the time: from the answer, ten times as long as the last list took must pass, and at
 * least LISTING_AGAIN_MS.
 *
 * The tools of a large page are taken in the background (rpc/background.h).
 */
#include "supervisor/hub/server/listing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/json-out.h"
#include "base/log.h"
#include "rpc/memory-reservation.h"

enum { CURSOR_MAX = 64 * 1024 };

/* A large page. Owns what it works on until the end of the job. */
struct page_job {
        struct background_job job; /* first */
        struct listing *listing;
        struct hub_tools *tools;
        yyjson_doc *doc;
        yyjson_val *list;
        int r; /* of hub_tools_add() */
};

void listing_stop(struct listing *l)
{
        event_del(&l->again_due);
        l->request_id = 0;
        l->tools = hub_tools_free(l->tools);
        if (l->job)
                background_cancel(&l->job->job);
        l->job = NULL;
        free(l->cursor);
        free(l->next);
        l->cursor = l->next = NULL;
}

static bool is_busy(const struct listing *l)
{
        return l->tools || l->job;
}

static void fail(struct listing *l, const char *why)
{
        listing_stop(l);
        l->host->failed(l->data, why);
}

void listing_expired(struct listing *l)
{
        fail(l, "did not list its tools in time");
}

static void ask_page(struct listing *l)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(8 * CURSOR_MAX);
        struct json_out out = {.to = &params};

        json_out_begin(&out, NULL, '{');
        if (l->cursor)
                json_out_text(&out, "cursor", l->cursor);
        json_out_end(&out, '}');
        int64_t id = out.error < 0 ? out.error
                                   : connection_request(l->connection, "tools/list",
                                                        buffer_bytes(&params), params.length);
        if (id < 0)
                fail(l, id == -EPIPE ? "closed its input" : "does not read its input");
        else
                l->request_id = id;
}

void listing_start(struct listing *l, bool is_modern)
{
        listing_stop(l);
        l->pages = 0;
        l->again = false;
        l->since = clock_us();
        l->ttl_ms = -1;
        l->is_modern = is_modern;
        l->tools = hub_tools_new();
        if (l->tools && is_modern && connection_is_http(l->connection))
                hub_tools_use_headers(l->tools);
        if (l->tools)
                ask_page(l);
        else
                fail(l, "needs more memory than there is");
}

static void ask_later(struct listing *l)
{
        uint64_t ms = l->took / 100; /* ten times, in ms */

        if (ms < LISTING_AGAIN_MS)
                ms = LISTING_AGAIN_MS;
        if (ms > LISTING_AGAIN_MAX_MS)
                ms = LISTING_AGAIN_MAX_MS;
        struct timeval in = clock_timeval_ms(ms);
        if (!evtimer_pending(&l->again_due, NULL))
                evtimer_add(&l->again_due, &in);
}

void listing_changed(struct listing *l)
{
        if (is_busy(l))
                l->again = true;
        else
                ask_later(l);
}

static void on_again_due(evutil_socket_t fd, short what, void *data)
{
        struct listing *l = data;

        if (!is_busy(l))
                l->host->due(l->data);
}

/* MCP 2026-07-28: how long a list is valid. A negative time is ignored. */
static void take_ttl(struct listing *l, yyjson_val *result)
{
        int64_t ms;

        if (!l->is_modern || json_int64(yyjson_obj_get(result, "ttlMs"), &ms) < 0 || ms < 0)
                return;
        if (l->ttl_ms < 0 || ms < l->ttl_ms)
                l->ttl_ms = ms;
}

static void set_fresh(struct listing *l)
{
        int64_t ms = l->ttl_ms;

        l->fresh_until = 0;
        if (ms < 0)
                return;
        if (ms < LISTING_TTL_MIN_MS)
                ms = LISTING_TTL_MIN_MS;
        if (ms > LISTING_TTL_MAX_MS)
                ms = LISTING_TTL_MAX_MS;
        l->fresh_until = clock_us() + (uint64_t)ms * 1000;
}

void listing_used(struct listing *l)
{
        if (l->fresh_until == 0 || is_busy(l) || clock_us() < l->fresh_until)
                return;
        l->fresh_until = 0;
        listing_changed(l);
}

/* The list is complete. */
static void finish(struct listing *l)
{
        struct hub_tools *tools = take_ptr(l->tools);

        set_fresh(l);
        l->took = clock_us() - l->since;
        bool again = l->again;
        listing_stop(l);
        l->host->listed(l->data, tools);
        if (again)
                ask_later(l);
}

/* Notes what the page says besides its tools. Returns 0, -ENOMEM. */
static int take_head(struct listing *l, yyjson_val *result)
{
        size_t n = 0;
        const char *next = json_string(result, "nextCursor", &n);

        take_ttl(l, result);
        if (!next)
                return 0;
        l->next_is_odd = strlen(next) != n || n > CURSOR_MAX;
        l->next = strdup(l->next_is_odd ? "" : next);
        return l->next ? 0 : -ENOMEM;
}

/* Whether there is another page, which the cursor then names. */
static bool take_cursor(struct listing *l)
{
        _cleanup_free_ char *next = take_ptr(l->next);

        if (!next)
                return false;
        bool repeats = l->cursor && !l->next_is_odd && strcmp(l->cursor, next) == 0;
        if (repeats || l->next_is_odd || ++l->pages >= LISTING_PAGES_MAX) {
                if (connection_may_warn(l->connection))
                        log_warning("server %s: its list of tools %s; the first %zu are taken",
                                    l->host->name(l->data),
                                    repeats ? "repeats itself" : "has no usable end",
                                    hub_tools_count(l->tools));
                return false;
        }
        free(l->cursor);
        l->cursor = take_ptr(next);
        return true;
}

/* The tools of the page were added; r: what hub_tools_add() said. */
static void end_page(struct listing *l, int r)
{
        if (r < 0)
                fail(l, r == -ENOMEM ? "needs more memory than there is"
                                     : "answered tools/list without a list of tools");
        else if (r == 0 && take_cursor(l))
                ask_page(l);
        else
                finish(l);
}

static void run_page(struct background_job *job)
{
        struct page_job *page = (void *)job;

        page->r = hub_tools_add(page->tools, page->list);
        yyjson_doc_free(page->doc);
        page->doc = NULL;
}

static void free_page(struct background_job *job)
{
        struct page_job *page = (void *)job;

        hub_tools_free(page->tools);
        yyjson_doc_free(page->doc);
        free(page);
}

static void on_page(struct background_job *job)
{
        struct page_job *page = (void *)job;
        struct listing *l = page->listing;
        int r = page->r;

        l->tools = take_ptr(page->tools);
        l->job = NULL;
        free_page(job);
        end_page(l, r);
}

/* Adds the tools of a page, which may be done later. Takes the document of a large one. */
static void take_tools(struct listing *l, struct jsonrpc_message *answer)
{
        static const struct background_kind kind = {run_page, on_page, free_page};
        yyjson_val *list = yyjson_obj_get(answer->result, "tools");
        bool is_large = answer->doc && yyjson_doc_get_read_size(answer->doc) > RESERVATION_MIN;
        struct page_job *page = is_large ? calloc(1, sizeof(*page)) : NULL;

        if (!page) {
                end_page(l, hub_tools_add(l->tools, list));
                return;
        }
        page->listing = l;
        page->list = list;
        page->doc = take_ptr(answer->doc);
        page->tools = take_ptr(l->tools);
        l->job = page;
        background_start(&page->job, &kind, l->base);
}

bool listing_awaits(const struct listing *l, yyjson_val *id)
{
        return l->request_id != 0 && id && jsonrpc_id_is(id, l->request_id);
}

bool listing_on_unanswered(struct listing *l, int64_t id, const char *why)
{
        if (l->request_id == 0 || l->request_id != id)
                return false;
        fail(l, why);
        return true;
}

bool listing_on_answer(struct listing *l, struct jsonrpc_message *answer)
{
        if (!listing_awaits(l, answer->id))
                return false;
        l->request_id = 0;
        if (answer->kind == JSONRPC_RESPONSE && take_head(l, answer->result) < 0)
                end_page(l, -ENOMEM);
        else if (answer->kind == JSONRPC_RESPONSE)
                take_tools(l, answer);
        /* A server without tools need not know the method. */
        else if (answer->error_code == JSONRPC_METHOD_NOT_FOUND && l->pages == 0)
                finish(l);
        else
                fail(l, "answered tools/list with an error");
        return true;
}

void listing_init(struct listing *l, struct event_base *base, struct connection *connection,
                  const struct listing_host *host, void *data)
{
        *l = (struct listing){.base = base, .connection = connection, .host = host, .data = data};
        evtimer_assign(&l->again_due, base, on_again_due, l);
}
