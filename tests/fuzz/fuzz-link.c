/*
 * The monitor's messages, as the broker's end of the link gets them. Each line is a message:
 *
 *     r REQUEST TARGET NUMBER INSTEAD    the broker sends this request of rpc/monitor-messages.def
 *     e EVENT SERIAL TARGET FDS NUMBER   the monitor sends this event, with FDS descriptors. SERIAL 0: a notice.
 *                                        NUMBER: of a HELLO its generation and, above the last digit, its files
 *     z TEXT                             the monitor sends these bytes
 *
 * Accepted when the link was not closed. No message is passed on that its row does not allow, each request is answered at
 * most once, and no descriptor is left.
 */
#include "supervisor/broker/link.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "tests/fuzz/descriptors.h"
#include "tests/fuzz/events.h"
#include "tests/fuzz/fuzz.h"

enum { EVENTS_MAX = 200, LINE_SIZE = 1024, NAME_SIZE = 40, MADE_OF_FDS_MAX = 8 };

static struct event_base *base;
static struct link *link_;
static int peer;
static bool is_closed;
static uint32_t generation, serial;
static bool answered[EVENTS_MAX + 1];

static void on_event(void *data, const struct monitor_message *message)
{
        const struct monitor_request *asked = &message->asked;
        int fds[FD_MESSAGE_MAX];

        assert(!is_closed);
        assert(monitor_event_check(&message->event, message->n_fds, asked));
        assert(!monitor_event_is_config(&message->event));
        assert(monitor_message_owner(message) != MONITOR_FOR_LINK);
        if (asked->verb != MONITOR_VERB_NONE) {
                assert(asked->serial <= serial && !answered[asked->serial]);
                answered[asked->serial] = true;
        }
        memcpy(fds, message->fds, sizeof(fds));
        fd_close_many(fds, message->n_fds);
}

static void on_reloaded(void *data, const struct monitor_hello *hello,
                        const struct link_config_file *files, size_t n)
{
        assert(!is_closed && hello->generation > generation && n == hello->config_files);
        generation = hello->generation;
        for (size_t i = 0; i < n; i++)
                close(files[i].fd);
}

static void on_closed(void *data, const struct error *error)
{
        assert(!is_closed);
        is_closed = true;
}

static void run_loop(void)
{
        for (int i = 0; i < 2; i++)
                event_base_loop(base, EVLOOP_NONBLOCK);
}

/* A name of the table, or a number. */
static uint32_t number_of(const char *name, const char *(*name_of)(uint32_t), uint32_t max)
{
        for (uint32_t i = 1; i < max; i++) {
                if (strcmp(name_of(i), name) == 0)
                        return i;
        }
        return (uint32_t)strtoul(name, NULL, 10);
}

static void request(const char *rest)
{
        struct monitor_request r = {.verb = MONITOR_VERB_NONE}, sent;
        char name[NAME_SIZE] = "";

        sscanf(rest, "%39s %u %u %u", name, &r.target, &r.number, &r.instead[0]);
        r.verb = number_of(name, monitor_verb_name, MONITOR_VERB_MAX);
        if (r.verb == MONITOR_VERB_NONE || r.verb >= MONITOR_VERB_MAX || serial == EVENTS_MAX)
                return;
        int result = link_request(link_, &r, &serial);
        assert((result < 0) == is_closed);
        if (result < 0)
                return;
        assert(recv(peer, &sent, sizeof(sent), MSG_DONTWAIT) == sizeof(sent));
        assert(sent.serial == serial && sent.generation == generation && sent.verb == r.verb);
        assert(monitor_request_check(&sent) != -EPROTO);
}

static void send_event(const char *rest)
{
        struct monitor_event event = {.kind = MONITOR_EVENT_NONE};
        char name[NAME_SIZE] = "";
        int fds[MADE_OF_FDS_MAX];
        uint32_t n = 0, number = 0;

        sscanf(rest, "%39s %u %u %u %u", name, &event.serial, &event.target, &n, &number);
        event.kind = number_of(name, monitor_event_name, MONITOR_EVENT_MAX);
        n = n < MADE_OF_FDS_MAX ? n : MADE_OF_FDS_MAX;
        for (uint32_t i = 0; i < n; i++)
                fds[i] = peer;
        if (event.kind == MONITOR_HELLO)
                event.hello = (struct monitor_hello){.generation = number % 10,
                                                     .config_files = number / 10};
        else if (event.kind == MONITOR_FAILED)
                event.error.code = (int)number;
        fd_send(peer, &event, sizeof(event), fds, n, MSG_DONTWAIT);
}

static void handle(char what, const char *rest)
{
        struct monitor_request late;

        if (what == 'r')
                request(rest);
        else if (what == 'e')
                send_event(rest);
        else if (what == 'z')
                (void)!send(peer, rest, strlen(rest), MSG_DONTWAIT | MSG_NOSIGNAL);
        run_loop();
        /* The link stops a server that no caller waits for. */
        while (recv(peer, &late, sizeof(late), MSG_DONTWAIT) == sizeof(late)) {
                assert(late.verb == MONITOR_UPSTREAM_STOP);
                serial = late.serial;
        }
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        static const struct fuzz_events events = {EVENTS_MAX / 2, handle, run_loop};
        const struct link_owner owner = {NULL, on_event, on_reloaded, on_closed};
        struct error err = {};
        char line[LINE_SIZE];
        int pair[2];

        log_set_level(LOG_LEVEL_ERROR);
        int before = count_descriptors();
        is_closed = false;
        generation = 1;
        serial = 0;
        memset(answered, 0, sizeof(answered));
        base = event_base_new();
        assert(base && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        peer = pair[0];
        assert(link_new(&link_, base, pair[1], generation, &owner, &err) == 0);
        fuzz_each_event(&events, data, n, line, sizeof(line));
        bool good = !is_closed;
        link_free(link_);
        event_base_free(base);
        close(pair[0]);
        close(pair[1]);
        assert(count_descriptors() == before);
        return good;
}

FUZZ_TARGET
