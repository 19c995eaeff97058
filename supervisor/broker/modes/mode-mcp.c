/* `cloister mcp`: the MCP server on standard input and output. */
#include "supervisor/broker/modes/mode-mcp.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/exit-status.h"
#include "base/log.h"
#include "supervisor/broker/modes/mode-server.h"
#include "supervisor/broker/reader.h"
#include "supervisor/broker/writer.h"
#include "supervisor/mcp/call/ask.h"
#include "supervisor/mcp/peer.h"
#include "supervisor/mcp/subscriptions.h"

enum {
        LINE_MAX_BYTES = LINES_MAX + 1024 * 1024, /* code of 16 MiB, escaped, and its envelope */
        LAST_FLUSH_MS = 100,
};

struct mode_mcp {
        struct mode_server server;
        struct broker *broker;
        struct mcp_sink sink; /* standard output */
        struct writer out;
        struct reader in;
        struct mcp_peer *peer;
};
static_assert(offsetof(struct mode_mcp, server) == 0, "mode-server.h");

/* While the client does not read, nothing is read from it, so that memory does not grow. */
static void balance(struct broker *broker)
{
        struct mode_mcp *mode = broker->data;

        reader_pause(&mode->in, writer_is_full(&mode->out));
}

static struct mode_mcp *mode_of(const struct mcp_sink *sink)
{
        return (struct mode_mcp *)((char *)(uintptr_t)sink - offsetof(struct mode_mcp, sink));
}

static void send_message(struct mcp_sink *sink, const struct mcp_message *message)
{
        struct mode_mcp *mode = mode_of(sink);

        writer_write(&mode->out, message->bytes, message->n);
        balance(mode->broker);
}

static bool is_congested(const struct mcp_sink *sink)
{
        return writer_is_full(&mode_of(sink)->out);
}

static const struct mcp_sink_calls sink_calls = {.send = send_message, .congested = is_congested};

static void on_line(void *data, const char *line, size_t n)
{
        struct broker *broker = data;
        struct mode_mcp *mode = broker->data;

        mcp_peer_line(mode->peer, &mode->sink, line, n);
}

static void on_parsed(void *data, struct large_line *line)
{
        struct broker *broker = data;
        struct mode_mcp *mode = broker->data;

        mcp_peer_parsed(mode->peer, &mode->sink, &line->message, line->r, &line->err);
}

static void on_too_long(void *data, size_t most)
{
        struct broker *broker = data;
        struct mode_mcp *mode = broker->data;

        mcp_peer_too_long(mode->peer, &mode->sink, most);
}

static void on_ended(void *data)
{
        struct broker *broker = data;

        broker_end(broker, broker->no_sandbox ? EXIT_NO_SANDBOX : 0);
}

static void on_drained(void *data)
{
        balance(data);
}

static void on_broken(void *data, int code)
{
        if (code == ENOBUFS)
                log_error(
                        "standard output: the client does not read, and %d MiB wait for it: the server ends",
                        WRITER_MAX / (1024 * 1024));
        else if (code != EPIPE && code != ECONNRESET)
                log_error("standard output: %s", strerror(code));
        broker_end(data, code == EPIPE || code == ECONNRESET ? 0 : 1);
}

static int start(struct broker *broker, struct error *err)
{
        const struct writer_owner writer_owner = {broker, on_drained, on_broken};
        const struct reader_owner reader_owner = {broker, on_line, on_parsed, on_too_long,
                                                  on_ended};
        struct mode_mcp *mode = calloc(1, sizeof(*mode));

        if (!mode)
                return error_errno(err, ENOMEM, "mcp");
        *mode = (struct mode_mcp){.broker = broker, .sink = {&sink_calls, 1}};
        broker->data = mode;
        int r = mode_server_start(broker, err);
        if (r >= 0)
                r = mcp_peer_new(&mode->peer, mode->server.mcp, NULL, &mode->sink, err);
        if (r >= 0)
                r = writer_open(&mode->out, broker->base, STDOUT_FILENO, &writer_owner, err);
        if (r >= 0)
                r = reader_open(&mode->in, broker->base, STDIN_FILENO, LINE_MAX_BYTES,
                                &reader_owner, err);
        return r;
}

static void stop(struct broker *broker)
{
        struct mode_mcp *mode = broker->data;

        subscriptions_close(mode->server.mcp);
        writer_flush(&mode->out, LAST_FLUSH_MS);
}

static int ask(struct broker *broker, struct client_ask *client_ask, struct error *err)
{
        struct mode_mcp *mode = broker->data;

        return mcp_ask_peer(mode->peer, client_ask, err);
}

static void mode_free(struct broker *broker)
{
        struct mode_mcp *mode = broker->data;

        if (!mode)
                return;
        mode_server_drop_calls(&mode->server);
        mcp_peer_free(mode->peer);
        mode_server_done(&mode->server);
        writer_close(&mode->out);
        reader_close(&mode->in);
        free(mode);
}

const struct broker_mode broker_mode_mcp = {
        .start = start,
        .stop = stop,
        .catalogue_changed = mode_server_catalogue_changed,
        .config_changed = mode_server_config_changed,
        .ask = ask,
        .page_done = mode_server_page_done,
        .free = mode_free,
};
