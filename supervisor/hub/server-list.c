/*
 * Learning a server's tools: tools/list, page by page.
 *
 * A server that says list_changed again and again is asked at most as often as keeps us nine tenths
 * idle: from the answer, ten times as long as the last list took must pass, at least HUB_RELIST_MS.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "supervisor/hub/catalogue-cache.h"
#include "supervisor/hub/hub-internal.h"

enum { CURSOR_MAX = 64 * 1024 };

void hub_server_list_drop(struct hub_server *s)
{
        s->listing.tools = hub_tools_free(s->listing.tools);
        free(s->listing.cursor);
        s->listing.cursor = NULL;
}

/* Ends the attempt. The first list decides whether the server is of use; a later one leaves what
 * was known. */
static void give_up(struct hub_server *s, const char *why)
{
        hub_server_list_drop(s);
        s->request_id = 0;
        if (s->state == SERVER_LISTING) {
                hub_server_failf(s, "%s", why);
                return;
        }
        hub_server_no_deadline(s);
        if (hub_server_may_warn(s))
                log_warning("server %s: its tools stay as they were: it %s", s->config->name, why);
}

void hub_server_list_expired(struct hub_server *s)
{
        give_up(s, "did not list its tools in time");
}

static void ask_page(struct hub_server *s)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(8 * CURSOR_MAX);
        const char *cursor = s->listing.cursor;

        int r = buffer_printf(&params, "{");
        if (r >= 0 && cursor)
                r = buffer_printf(&params, "\"cursor\":");
        if (r >= 0 && cursor)
                r = json_append_string(&params, cursor, strlen(cursor));
        if (r >= 0)
                r = buffer_printf(&params, "}");
        s->request_id = ++s->last_id;
        if (r >= 0)
                r = hub_server_request(s, s->request_id, "tools/list", buffer_bytes(&params),
                                       params.length);
        if (r < 0)
                give_up(s, r == -EPIPE ? "closed its input" : "does not read what it is sent");
}

void hub_server_list(struct hub_server *s)
{
        hub_server_listing(s);
        s->listing.pages = 0;
        s->listing.again = false;
        s->listing.since = clock_us();
        s->listing.ttl_ms = -1;
        s->listing.tools = hub_tools_new();
        if (s->listing.tools)
                ask_page(s);
        else
                give_up(s, "needs more memory than there is");
}

static void relist_later(struct hub_server *s)
{
        uint64_t ms = s->listing.took / 100; /* ten times, in ms */

        if (ms < HUB_RELIST_MS)
                ms = HUB_RELIST_MS;
        if (ms > HUB_RELIST_MAX_MS)
                ms = HUB_RELIST_MAX_MS;
        struct timeval in = {.tv_sec = (time_t)(ms / 1000),
                             .tv_usec = (suseconds_t)(ms % 1000) * 1000};
        if (!evtimer_pending(&s->relist, NULL))
                evtimer_add(&s->relist, &in);
}

void hub_server_list_changed(struct hub_server *s)
{
        if (s->listing.tools)
                s->listing.again = true;
        else
                relist_later(s);
}

void hub_server_on_relist(evutil_socket_t fd, short what, void *data)
{
        struct hub_server *s = data;

        (void)fd;
        (void)what;
        if (s->state == SERVER_READY && !s->listing.tools)
                hub_server_list(s);
}

static void save(struct hub_server *s)
{
        const struct hub_cache_entry entry = {s->tools, s->instructions, s->era};
        int r = hub_cache_save(s->hub->cache_dir, s->config->key, &entry);

        if (r < 0)
                log_info("server %s: cannot keep its catalogue for the next start: %s",
                         s->config->name, strerrordesc_np(-r));
}

static void warn_of_left_out(struct hub_server *s)
{
        const char *why = NULL;
        size_t n = hub_tools_left_out(s->tools, &why);

        if (n > 0 && hub_server_may_warn(s))
                log_warning("server %s: %zu tools are left out; the first is %s", s->config->name,
                            n, why);
}

/* Servers of MCP 2026-07-28 say how long a list holds; negative is as good as nothing. */
static void take_ttl(struct hub_server *s, yyjson_val *result)
{
        int64_t ms;

        if (s->speaks != HUB_ERA_MODERN || json_int64(yyjson_obj_get(result, "ttlMs"), &ms) < 0 ||
            ms < 0)
                return;
        if (s->listing.ttl_ms < 0 || ms < s->listing.ttl_ms)
                s->listing.ttl_ms = ms;
}

static void set_fresh(struct hub_server *s)
{
        int64_t ms = s->listing.ttl_ms;

        s->fresh_until = 0;
        if (ms < 0)
                return;
        if (ms < HUB_TTL_LEAST_MS)
                ms = HUB_TTL_LEAST_MS;
        if (ms > HUB_TTL_MOST_MS)
                ms = HUB_TTL_MOST_MS;
        s->fresh_until = clock_us() + (uint64_t)ms * 1000;
}

void hub_server_list_used(struct hub_server *s)
{
        /* One that listens is told. */
        if (s->state != SERVER_READY || s->listens || s->fresh_until == 0 || s->listing.tools ||
            clock_us() < s->fresh_until)
                return;
        s->fresh_until = 0;
        hub_server_list_changed(s);
}

/* The list is whole. */
static void adopt(struct hub_server *s)
{
        struct hub_tools *tools = take_ptr(s->listing.tools);

        hub_tools_seal(tools);
        set_fresh(s);
        s->listing.took = clock_us() - s->listing.since;
        hub_server_list_drop(s);
        hub_server_no_deadline(s);
        bool is_news = !s->tools || !hub_tools_equal(s->tools, tools);
        hub_tools_free(s->tools);
        s->tools = tools;
        /* The first time also when nothing changed: the instructions may have. */
        if (is_news || s->state == SERVER_LISTING) {
                save(s);
                warn_of_left_out(s);
        }
        if (s->state == SERVER_LISTING)
                hub_server_ready(s);
        hub_touch(s->hub);
        if (s->listing.again)
                relist_later(s);
}

/* Takes one page. Returns 1 when there is another (the cursor is set), 0 when that was the last,
 * -EINVAL, -ENOMEM. */
static int take_page(struct hub_server *s, yyjson_val *result)
{
        yyjson_val *next = yyjson_obj_get(result, "nextCursor");

        int r = hub_tools_add(s->listing.tools, yyjson_obj_get(result, "tools"));
        take_ttl(s, result);
        if (r != 0)
                return r < 0 ? r : 0;
        if (!yyjson_is_str(next))
                return 0;
        const char *cursor = yyjson_get_str(next);
        bool repeats = s->listing.cursor && strcmp(s->listing.cursor, cursor) == 0;
        bool is_odd = strlen(cursor) != yyjson_get_len(next) || yyjson_get_len(next) > CURSOR_MAX;
        if (repeats || is_odd || ++s->listing.pages >= HUB_PAGES_MAX) {
                if (hub_server_may_warn(s))
                        log_warning("server %s: its list of tools %s; the first %zu are taken",
                                    s->config->name,
                                    repeats ? "repeats itself" : "has no usable end",
                                    hub_tools_count(s->listing.tools));
                return 0;
        }
        free(s->listing.cursor);
        s->listing.cursor = strdup(cursor);
        return s->listing.cursor ? 1 : -ENOMEM;
}

void hub_server_list_answer(struct hub_server *s, const struct jsonrpc_message *answer)
{
        if (!s->listing.tools)
                return;
        int r = -EINVAL;
        if (answer->kind == JSONRPC_RESPONSE)
                r = take_page(s, answer->result);
        /* A server without tools need not know the method. */
        else if (answer->error_code == JSONRPC_METHOD_NOT_FOUND && s->listing.pages == 0)
                r = 0;

        if (r == 1)
                ask_page(s);
        else if (r == 0)
                adopt(s);
        else if (answer->kind == JSONRPC_ERROR)
                give_up(s, "answered tools/list with an error");
        else
                give_up(s, r == -ENOMEM ? "needs more memory than there is"
                                        : "answered tools/list without a list of tools");
}
