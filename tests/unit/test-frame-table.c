/* Every type of frame in every state: what the table allows, and the errors for the rest. */
#include "supervisor/session/frame-table.h"

#include "supervisor/session/calls/calls.h"
#include "supervisor/session/calls/files.h"
#include "supervisor/session/calls/install.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/state/block.h"
#include "supervisor/session/state/copies.h"
#include "tests/unit/fake-tools.h"

/* Whether a frame is refused by the table itself; a handler may refuse its payload for reasons of
 * its own. */
static bool refused_by_table(uint8_t type, enum session_state state, struct error *err)
{
        static const struct session_context context;
        struct calls calls = {};
        struct session_installs installs = {};
        struct files files = {};
        struct copies copies = {};
        struct block block = {};
        struct session session = {.context = &context,
                                  .state = state,
                                  .channel.fd = -1,
                                  .calls = &calls,
                                  .installs = &installs,
                                  .files = &files,
                                  .copies = &copies,
                                  .block = &block};
        struct cell cell = {.number = 1};
        const struct frame_header header = {.type = type, .id = 2, .length = 1};
        struct frame_body body = {.bytes = "x", .n = 1};

        *err = (struct error){};
        if (state >= SESSION_RUNNING)
                session.queue.first = &cell;
        frame_dispatch(&session, &header, &body, err);
        frame_body_done(&body);
        return err->code == EPROTO && strstr(err->text, " frame ");
}

static void test_table(void)
{
        static const struct {
                uint8_t type;
                bool idle, running;
        } expected[] = {
                {FRAME_EXEC, false, false},
                {FRAME_RETURN, false, false},
                {0x03, false, false},
                {FRAME_CATALOG, false, false},
                {0x05, false, false},
                {FRAME_RESULT, false, true},
                {FRAME_CALL, true, true},
                {FRAME_DISPLAY, true, true},
                {FRAME_PROGRESS, true, true},
                {FRAME_LOG, true, true},
                {0x46, false, false},
                {FRAME_QUERY, true, true},
                {FRAME_DROP, true, true},
                {FRAME_DATA, true, true},
                {FRAME_FETCH, false, false},
                {FRAME_PUT, false, false},
                {FRAME_INPUT, false, false},
                {FRAME_KEEP, false, false},
                {FRAME_CHECK, false, false},
                {FRAME_SCRIPT, false, false},
                {FRAME_READ, false, true},
                {FRAME_PROBE, false, false},
                {FRAME_NEED, false, false},
                {FRAME_BRANCH, false, false},
                {0, false, false},
                {0xff, false, false},
        };
        static const bool is_idle[SESSION_STATE_MAX] = {
                [SESSION_IDLE] = true,   [SESSION_KEEPING] = true,  [SESSION_FREEZING] = true,
                [SESSION_FROZEN] = true, [SESSION_SWEEPING] = true, [SESSION_SETTLING] = true};
        static const bool has_cell[SESSION_STATE_MAX] = {
                [SESSION_RUNNING] = true, [SESSION_INTERRUPTING] = true, [SESSION_DRAINING] = true};
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
                uint8_t type = expected[i].type;
                for (enum session_state state = 0; state < SESSION_STATE_MAX; state++)
                        check_eq_int(refused_by_table(type, state, &err),
                                     !(has_cell[state] && expected[i].running) &&
                                             !(is_idle[state] && expected[i].idle));
        }
}

/* The handler refuses a KEPT that no KEEP has asked for, in the states in which the table lets it pass. */
static void test_copies(void)
{
        struct error err;

        for (enum session_state state = 0; state < SESSION_STATE_MAX; state++) {
                bool is_alive = state >= SESSION_IDLE && state <= SESSION_INTERRUPTING;
                check_eq_int(refused_by_table(FRAME_KEPT, state, &err),
                             !(is_alive || state == SESSION_DRAINING));
                check(err.code == EPROTO);
                check_eq_int(refused_by_table(FRAME_RESTORED, state, &err),
                             state != SESSION_WAKING);
        }
}

static void test_reasons(void)
{
        struct error err;

        check(refused_by_table(FRAME_RESULT, SESSION_IDLE, &err));
        check_eq_str(err.text, "RESULT frame while the session is idle");
        check(refused_by_table(FRAME_EXEC, SESSION_RUNNING, &err));
        check_eq_str(err.text, "EXEC frame (0x01), which a worker may not send");
}

int main(void)
{
        run(test_table);
        run(test_copies);
        run(test_reasons);
        return 0;
}
