/* `cloister mcp`: the MCP server on standard input and output. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/exit-status.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/broker/broker-internal.h"
#include "supervisor/broker/reader.h"
#include "supervisor/broker/writer.h"
#include "supervisor/mcp/server.h"

enum {
        LINE_MAX_BYTES = LINES_MAX + 1024 * 1024, /* code of 16 MiB, escaped, and its envelope */
        LAST_FLUSH_MS = 100,
        ATTESTATION_MAX = 4 * 1024 * 1024,
};

struct mode_mcp {
        struct writer out;
        struct reader in;
        struct mcp_server *server;
        char *attestation; /* or NULL */
        size_t attestation_length;
};

/* While the client does not read, nothing is read from it, so that memory does not grow. */
static void balance(struct broker *broker)
{
        struct mode_mcp *mode = broker->data;

        reader_pause(&mode->in, writer_is_full(&mode->out));
}

static void send_bytes(void *data, const char *bytes, size_t n)
{
        struct broker *broker = data;
        struct mode_mcp *mode = broker->data;

        writer_write(&mode->out, bytes, n);
        balance(broker);
}

static bool is_congested(void *data)
{
        struct broker *broker = data;
        struct mode_mcp *mode = broker->data;

        return writer_is_full(&mode->out);
}

static void on_line(void *data, const char *line, size_t n)
{
        struct broker *broker = data;
        struct mode_mcp *mode = broker->data;

        mcp_server_line(mode->server, line, n);
}

static void on_parsed(void *data, struct large_line *line)
{
        struct broker *broker = data;
        struct mode_mcp *mode = broker->data;

        mcp_server_parsed(mode->server, &line->message, line->r, &line->err);
}

static void on_too_long(void *data, size_t most)
{
        struct broker *broker = data;
        struct mode_mcp *mode = broker->data;

        mcp_server_line_too_long(mode->server, most);
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
        if (code != EPIPE && code != ECONNRESET)
                log_error("standard output: %s", strerror(code));
        broker_end(data, code == EPIPE || code == ECONNRESET ? 0 : 1);
}

static int read_attestation(struct mode_mcp *mode, int fd, struct error *err)
{
        if (fd < 0)
                return 0;
        int r = fd_read_whole(fd, ATTESTATION_MAX, &mode->attestation, &mode->attestation_length,
                              err);
        close(fd);
        return r < 0 ? error_context(err, "read the attestation") : 0;
}

static int start(struct broker *broker, struct error *err)
{
        const struct writer_owner writer_owner = {broker, on_drained, on_broken};
        const struct reader_owner reader_owner = {broker, on_line, on_parsed, on_too_long,
                                                  on_ended};
        struct mode_mcp *mode = calloc(1, sizeof(*mode));

        if (!mode)
                return error_errno(err, ENOMEM, "mcp");
        broker->data = mode;
        int r = read_attestation(mode, broker->options.attestation_fd, err);
        if (r < 0)
                return r;
        const struct mcp_host host = {
                .data = broker,
                .send = send_bytes,
                .congested = is_congested,
                .profile = broker->options.profile,
                .attestation = mode->attestation,
                .attestation_length = mode->attestation_length,
        };
        const struct tool_provider tools = broker_tool_provider(broker->hub);
        r = mcp_server_new(&mode->server, broker->base, broker->config, &tools, broker->sessions,
                           &host, err);
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

        mcp_server_closing(mode->server);
        writer_flush(&mode->out, LAST_FLUSH_MS);
}

static void catalogue_changed(struct broker *broker)
{
        struct mode_mcp *mode = broker->data;

        mcp_server_catalogue_changed(mode->server);
}

static void config_changed(struct broker *broker, const struct config *config)
{
        struct mode_mcp *mode = broker->data;

        mcp_server_set_config(mode->server, config);
}

static void mode_free(struct broker *broker)
{
        struct mode_mcp *mode = broker->data;

        if (!mode)
                return;
        mcp_server_free(mode->server);
        writer_close(&mode->out);
        reader_close(&mode->in);
        free(mode->attestation);
        free(mode);
}

const struct broker_mode broker_mode_mcp = {
        .start = start,
        .stop = stop,
        .catalogue_changed = catalogue_changed,
        .config_changed = config_changed,
        .free = mode_free,
};
