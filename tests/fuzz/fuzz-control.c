/* Requests on the control socket: accepted when each is answered, and none with an error. Whatever
 * comes, what is answered is whole messages. */
#include <assert.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/log.h"
#include "rpc/jsonrpc.h"
#include "supervisor/broker/control-methods.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/fake-monitor.h"

/* A listening socket with an abstract address that the kernel chooses, and a connection to it. */
static void connect_to(int *listener, int *client)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        socklen_t n = sizeof(address);
        int flags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

        *listener = socket(AF_UNIX, flags, 0);
        *client = socket(AF_UNIX, flags, 0);
        assert(bind(*listener, (struct sockaddr *)&address, sizeof(sa_family_t)) == 0);
        assert(listen(*listener, 1) == 0);
        assert(getsockname(*listener, (struct sockaddr *)&address, &n) == 0);
        assert(connect(*client, (struct sockaddr *)&address, n) == 0);
}

/* Returns whether there are as many answers as lines, and no error. */
static bool check_answers(int client, size_t lines)
{
        _cleanup_buffer_ struct buffer in = BUFFER_INIT(64 * 1024 * 1024);
        bool good = lines > 0;
        size_t n = 0;

        while (buffer_read_fd(&in, client, 65536) > 0)
                ;
        while (in.length > 0) {
                _cleanup_jsonrpc_ struct jsonrpc_message message = {};
                const char *end = memchr(buffer_bytes(&in), '\n', in.length);
                struct error err = {};

                assert(end);
                size_t length = (size_t)(end - buffer_bytes(&in));
                assert(jsonrpc_parse(buffer_bytes(&in), length, &message, &err) == 0);
                good = good && message.kind == JSONRPC_RESPONSE;
                buffer_consume(&in, length + 1);
                n++;
        }
        return good && n == lines;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        struct control *control = NULL;
        struct fake f;
        struct error err = {};
        int listener, client;
        size_t lines = 0;

        log_set_level(LOG_LEVEL_ERROR);
        fake_open(&f);
        connect_to(&listener, &client);
        assert(control_new(&control, listener, &(struct control_context){f.base, f.sessions, NULL},
                           control_methods, &err) == 0);
        for (size_t i = 0; i < n; i++)
                lines += data[i] == '\n';
        ssize_t sent = send(client, data, n, MSG_NOSIGNAL);
        fake_spin(&f);
        bool good = check_answers(client, lines) && sent == (ssize_t)n;
        control_free(control);
        close(client);
        fake_done(&f);
        return good;
}

FUZZ_TARGET
