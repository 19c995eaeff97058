/*
 * A session: what a worker sends, in every state. Each line is an event:
 *
 *     f TYPE ID PAYLOAD   a frame; TYPE is hexadecimal, ID is added to the number of the running cell
 *     r TYPE ID CHOICES   the same with the members of that type in frames.def; each two bits of CHOICES, which is
 *                         hexadecimal, choose a member's value (send_row)
 *     h LENGTH TYPE FLAGS RESERVED   a header alone
 *     b BYTES             bytes as they are
 *     o TEXT              standard output
 *     c  x                a cell is requested, or cancelled
 *     s  d  q  z          the monitor made the sandbox, it ended, its channel was closed, it is frozen
 *     a  e  w  k          a tool answers, fails; a wait ends; the catalogue changes
 *     p  y                a person has to decide, and has decided
 *     g  n                the monitor has stopped the sandbox, and code of it has run nevertheless
 *     t MS                time passes
 *
 * Accepted when the worker was not killed.
 */
#include <assert.h>

#include "base/log.h"
#include "supervisor/session/hold.h"
#include "supervisor/session/machine/queue.h"
#include "tests/fuzz/events.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/fake-client.h"

enum { LINE_MAX_BYTES = 65536, EVENTS_MAX = 200 };

static struct fake f;
static struct end end;
static struct cell *cell;
static uint64_t number; /* of the last cell that was sent */
static int started;     /* sandboxes */
static bool is_alive;
static struct hold_request decision;

static void send_some(const void *bytes, size_t n)
{
        const char *at = bytes;

        /* Bytes that a stopped session does not read are lost: the next frame is then garbage. */
        for (int i = 0; n > 0 && i < 50 && f.rpc >= 0; i++) {
                ssize_t sent = send(f.rpc, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
                at += sent > 0 ? sent : 0;
                n -= sent > 0 ? (size_t)sent : 0;
                event_base_loop(f.base, EVLOOP_NONBLOCK);
        }
}

static void send_payload(unsigned type, int id, const char *payload)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FRAME_PAYLOAD_MAX + 100);

        assert(frame_append(&b, (uint8_t)type, number + (uint64_t)id, payload, strlen(payload)) ==
               0);
        send_some(buffer_bytes(&b), b.length);
}

static void send_frame(const char *text)
{
        unsigned type = 0;
        int id = 0, used = 0;

        if (sscanf(text, "%x %d %n", &type, &id, &used) >= 2 && used > 0)
                send_payload(type, id, text + used);
}

/* A JSON value of the type in frames.def: 1 is a usual value, 2 one of another type, 3 an extreme. */
static const char *value_of(const char *type, unsigned choice)
{
        static const char *const values[][3] = {
                {"string", "\"x\"", "[]"},
                {"integer", "2", "9223372036854775808"},
                {"number", "0.5", "1e400"},
                {"bool", "true", "0"},
                {"array", "[\"a\",{\"path\":\"a\",\"size\":1,\"mime\":\"a/b\"}]", "[[[]]]"},
                {"object", "{\"repr\":\"1\",\"type\":\"E\",\"message\":\"m\"}", "{\"\":{}}"},
                {"any", "null", "-1"},
        };

        if (choice == 2)
                return strcmp(type, "integer") == 0 ? "\"1\"" : "1";
        for (size_t i = 0; i < ARRAY_SIZE(values); i++)
                if (strcmp(type, values[i][0]) == 0)
                        return values[i][choice == 3 ? 2 : 1];
        assert(false);
        return NULL;
}

static void send_row(const char *text)
{
        static const struct {
                uint8_t type;
                const char *members;
        } rows[] = {
#define FRAME(name, number, sender, payload, most, states, id, members, when) {number, members},
#include "rpc/frames.def"
#undef FRAME
        };
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(LINE_MAX_BYTES);
        unsigned type_number = 0;
        size_t row = 0;
        unsigned long long choices = 0;
        char name[32], type[16];
        int id = 0, used = 0;

        if (sscanf(text, "%x %d %llx", &type_number, &id, &choices) < 3)
                return;
        while (row < ARRAY_SIZE(rows) && rows[row].type != type_number)
                row++;
        if (row == ARRAY_SIZE(rows))
                return;
        buffer_printf(&b, "{");
        for (const char *at = rows[row].members;
             sscanf(at, "%31[a-z_]%*[?:]%15[a-z] %n", name, type, &used) == 2;
             at += used, choices >>= 2)
                if (choices & 3)
                        buffer_printf(&b, "%s\"%s\":%s", b.length > 1 ? "," : "", name,
                                      value_of(type, choices & 3));
        assert(buffer_append(&b, "}", 2) == 0); /* with its NUL */
        send_payload(rows[row].type, id, buffer_bytes(&b));
}

static void send_header(const char *text)
{
        uint8_t bytes[FRAME_HEADER_SIZE];
        struct frame_header header = {};
        unsigned length = 0, type = 0, flags = 0, reserved = 0;

        sscanf(text, "%u %x %x %x", &length, &type, &flags, &reserved);
        header = (struct frame_header){.length = length,
                                       .type = (uint8_t)type,
                                       .flags = (uint8_t)flags,
                                       .reserved = (uint16_t)reserved};
        frame_header_encode(&header, bytes);
        send_some(bytes, sizeof(bytes));
}

/* The worker reads what it was sent, and so learns the number of the cell. */
static void read_frames(void)
{
        struct frame_header header;
        const char *payload;
        struct error err = {};
        struct pollfd p = {.fd = f.rpc, .events = POLLIN};

        while (f.rpc >= 0 && poll(&p, 1, 0) == 1 && p.revents & POLLIN &&
               buffer_read_fd(&f.in, f.rpc, 1 << 20) > 0)
                ;
        while (frame_peek(&f.in, FRAME_PAYLOAD_MAX, &header, &payload, &err) == 1) {
                if (header.type == FRAME_EXEC)
                        number = header.id;
                buffer_consume(&f.in, frame_size(&header));
        }
}

static void tell(enum monitor_event_kind kind, uint32_t held)
{
        fake_notice(f.sessions, (struct monitor_event){kind, 0, f.target, .held = held});
}

static void handle(char what, const char *rest)
{
        bool runs = cell && end.count == 0;
        int ms = 0;

        if (what == 'f')
                send_frame(rest);
        else if (what == 'r')
                send_row(rest);
        else if (what == 'h')
                send_header(rest);
        else if (what == 'b')
                send_some(rest, strlen(rest));
        else if (what == 'o' && f.out >= 0)
                (void)!write(f.out, rest, strnlen(rest, 4096));
        else if (what == 'c' && !runs)
                cell = ask_on(&f, &end, "default", "1", 1000, rest[0] == 'r');
        else if (what == 'x' && runs)
                cell_cancel(cell);
        else if (what == 's' && !is_alive && f.creates > started)
                fake_start(&f), is_alive = true, started = f.creates;
        else if (what == 'd' && is_alive)
                is_alive = false, fake_end(&f, SIGKILL, 0);
        else if (what == 'q' && f.rpc >= 0)
                close(f.rpc), f.rpc = -1;
        else if (what == 'z' && is_alive)
                sessions_frozen(f.sessions, f.target);
        else if (what == 'p' && is_alive && !decision.session)
                (void)session_hold(fake_session(&f), &decision, &(struct error){});
        else if (what == 'y')
                session_release(&decision);
        else if (what == 'g' && is_alive)
                tell(MONITOR_SESSION_HELD, f.hold_number);
        else if (what == 'n' && is_alive)
                tell(MONITOR_SESSION_RAN, 0);
        else if (what == 'a' && fake_tools.calls)
                fake_tools_answer("{\"content\":[]}");
        else if (what == 'e' && fake_tools.calls)
                fake_tools_fail("ToolError", "failed", -1, rest[0] == 's');
        else if (what == 'w' && fake_tools.wait)
                fake_tools_end_wait();
        else if (what == 'k')
                fake_tools_change("{\"servers\":[]}");
        else if (what == 't' && sscanf(rest, "%d", &ms) == 1 && ms > 0)
                fake_clock_advance_ms((unsigned)ms % 100000);
}

static void run_loop(void)
{
        fake_spin(&f);
        read_frames();
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        static const struct fuzz_events events = {EVENTS_MAX, handle, run_loop};
        char line[LINE_MAX_BYTES];

        log_set_level(LOG_LEVEL_ERROR);
        fake_open(&f);
        end = (struct end){};
        cell = NULL;
        number = 0;
        started = 0;
        is_alive = false;
        decision = (struct hold_request){};
        fuzz_each_event(&events, data, n, line, sizeof(line));
        bool good = f.kills == 0 && started > 0;
        fake_done(&f);
        return good;
}

FUZZ_TARGET
