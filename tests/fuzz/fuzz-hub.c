/* The stdout of a server, from its start on; accepted if the server becomes ready. The answers must
 * have the ids of the hub's requests: 1 is server/discover, then come initialize or
 * subscriptions/listen, tools/list, the call. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "supervisor/hub/hub.h"
#include "supervisor/hub/server/messages.h"
#include "supervisor/hub/server/server.h"
#include "tests/fuzz/fuzz.h"

static struct event_base *base;
static bool is_called_back;

static void on_start(void *data, uint32_t index)
{
        (*(unsigned *)data)++;
}

static void on_stop(void *data, uint32_t instance)
{
}

static void on_changed(void *data)
{
}

static void on_result(void *data, const struct hub_result *result)
{
        is_called_back = true;
        assert(result->outcome == HUB_OK ? result->result != NULL : result->message != NULL);
}

/* The hub's ends in fds, the server's in others. */
static void make_pipes(int fds[3], int others[3])
{
        for (int i = 0; i < 3; i++) {
                int ends[2];
                assert(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
                fds[i] = ends[i == 0];
                others[i] = ends[i != 0];
        }
}

static void check_catalogue(struct hub *hub)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        const struct buffer *b = hub_catalogue(hub, NULL, NULL);

        assert(json_parse(buffer_bytes(b), b->length, &doc, NULL) == 0);
}

static void feed(struct hub_server *s, const uint8_t *data, size_t n)
{
        const char *at = (const char *)data, *end = at + n;

        while (at < end && connection_has_output(&s->connection)) {
                const char *newline = memchr(at, '\n', (size_t)(end - at));
                size_t length = (size_t)((newline ? newline : end) - at);
                hub_server_on_line(s, at, length);
                event_base_loop(base, EVLOOP_NONBLOCK);
                at += length + 1;
        }
}

/* A client that supports every request, and never answers. */
static bool on_client(void *data, struct hub_client *ret)
{
        *ret = (struct hub_client){&base, ~0U, "debug"};
        return true;
}

static int on_ask(void *data, struct client_ask *ask, struct error *err)
{
        return ask->request.params.length % 2 ? 0 : error_set(err, EBUSY, "busy");
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        static const struct hub_caller caller = {
                .done = on_result, .client = on_client, .ask = on_ask};
        const struct hub_request request = {.server = "s", .tool = "echo", .caller = &caller};
        const struct config_server server = {.name = (char *)"s", .command = (char *)"/bin/true"};
        const struct config config = {.servers = (struct config_server *)&server, .n_servers = 1};
        unsigned started = 0;
        const struct hub_host host = {&started, on_start, on_stop, on_changed};
        int fds[3], others[3];
        struct hub *hub = NULL;
        struct hub_call *call = NULL;

        log_set_level(LOG_LEVEL_ERROR);
        if (!base)
                base = event_base_new();
        is_called_back = false;
        assert(hub_new(&hub, base, &config, -1, &host, NULL) == 0);
        hub_add_client(hub, ~0U);
        assert(hub_call(hub, &request, &call, NULL) == 0);
        assert(started == 1);
        make_pipes(fds, others);
        hub_upstream_started(hub, 0, 1, fds);
        feed(hub_server_at(hub, 0), data, n);
        bool is_ready = hub_server_at(hub, 0)->state == SERVER_READY;
        /* The call still waits for its answer, or its callback was called. */
        assert(is_called_back || hub_server_at(hub, 0)->calls.count == 1);
        check_catalogue(hub);
        hub_free(hub);
        for (int i = 0; i < 3; i++)
                close(others[i]);
        return is_ready;
}

FUZZ_TARGET
