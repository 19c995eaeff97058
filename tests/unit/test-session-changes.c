/* How a session reports the file changes that init has found. */
#include "base/json.h"
#include "rpc/file-changes.h"
#include "supervisor/session/machine/session-state.h"
#include "supervisor/session/session.h"
#include "tests/unit/fake-client.h"

#define OK        "{\"status\":\"ok\"}"
#define NO_COPIES "{\"state\": {\"survives\": false}}"

static void open_with(struct fake *f, const char *text)
{
        struct config *config = fake_config(text);

        fake_open(f);
        sessions_reload(f->sessions, config, &fake_hello);
        config_free(config);
        warm_up(f);
}

static void answer(struct fake *f)
{
        sessions_counted(f->sessions, f->target, &(struct monitor_counted){.last_pid = 2});
        fake_spin(f);
}

static void run_cell(struct fake *f, int ms)
{
        struct end end;

        ask(f, &end, "1");
        uint64_t cell = fake_take_exec(f, NULL, 0);
        fake_run_ms(f, ms);
        fake_send(f, FRAME_RESULT, cell, OK);
        check_eq_int(end.count, 1);
}

/* Writes a scan with n new files; paths of 1,000 bytes if they are long. */
static void write_look(struct fake *f, uint32_t n, bool is_long)
{
        char bytes[FILE_CHANGES_MESSAGE_MAX];
        struct file_changes_message head = {.number = {n, 3, 2}};
        uint32_t at_once = is_long ? 3 : 40;

        for (uint32_t i = 0; i < n || i == 0;) {
                size_t used = sizeof(head);
                for (head.n = 0; head.n < at_once && i < n; head.n++, i++) {
                        struct file_changes_entry entry = {
                                .size = i, .type = 8, .length = is_long ? 1000 : 5};
                        memcpy(bytes + used, &entry, sizeof(entry));
                        memset(bytes + used + sizeof(entry), is_long ? '\1' : 'a', entry.length);
                        used += sizeof(entry) + entry.length;
                }
                memcpy(bytes, &head, sizeof(head));
                check_eq_int(write(f->changes, bytes, used), (ssize_t)used);
                head = (struct file_changes_message){.is_more = 1};
                if (n == 0)
                        break;
        }
}

/* Its text is valid until the next call; the document is freed then, too. */
static yyjson_val *receipt(struct fake *f, uint64_t cell)
{
        static struct buffer text;
        static yyjson_doc *doc;

        buffer_done(&text);
        buffer_init(&text, 1 << 20);
        yyjson_doc_free(doc);
        doc = NULL;
        if (!f)
                return NULL;
        check_eq_int(session_append_receipt(fake_session(f), cell, &text), 0);
        check_eq_int(json_parse(buffer_bytes(&text), text.length, &doc, NULL), 0);
        return yyjson_doc_get_root(doc);
}

/* -1: there is no such member. */
static int64_t member(struct fake *f, uint64_t cell, const char *key)
{
        int64_t n = -1;

        json_int64(yyjson_obj_get(receipt(f, cell), key), &n);
        return n;
}

static void test_a_look(void)
{
        struct fake f;

        open_with(&f, NO_COPIES);
        write_look(&f, 2, false);
        answer(&f);
        check_eq_int(member(&f, 1, "files_new"), 2);
        check_eq_int(member(&f, 1, "files_changed"), 3);
        check_eq_int(member(&f, 1, "files_deleted"), 2);
        check_eq_int(member(&f, 1, "files_from_cell"), -1);
        yyjson_val *files = yyjson_obj_get(receipt(&f, 1), "files");
        check_eq_int((int)yyjson_arr_size(files), 2);
        check_eq_str(json_string(yyjson_arr_get(files, 1), "path", NULL), "aaaaa");
        check_eq_str(json_string(yyjson_arr_get(files, 1), "change", NULL), "new");
        run_cell(&f, 5);
        write_look(&f, 0, false);
        answer(&f);
        check_eq_int(member(&f, 2, "files_new"), 0);
        check(!yyjson_obj_get(receipt(&f, 2), "files"));
        receipt(NULL, 0);
        fake_done(&f);
}

/* Short cells have one list, which is in the receipt of the last. */
static void test_cells_together(void)
{
        struct fake f;

        open_with(&f, NO_COPIES);
        write_look(&f, 0, false);
        answer(&f);
        for (int i = 0; i < 3; i++)
                run_cell(&f, 0);
        run_cell(&f, 5);
        check_eq_int(member(&f, 2, "files_new"), -1);
        write_look(&f, 1, false);
        answer(&f);
        for (uint64_t cell = 2; cell <= 5; cell++) {
                check_eq_int(member(&f, cell, "files_new"), 1);
                check_eq_int(member(&f, cell, "files_from_cell"), cell == 2 ? -1 : 2);
                check_eq_int(member(&f, cell, "files_to_cell"), cell == 5 ? -1 : 5);
                check_eq_int(yyjson_obj_get(receipt(&f, cell), "files") != NULL, cell == 5);
        }
        receipt(NULL, 0);
        fake_done(&f);
}

/* init does not look after each cell if that takes long: once the session rests, it has to. */
static void test_the_session_rests(void)
{
        struct fake f;

        open_with(&f, NO_COPIES);
        check_eq_int(f.counts, 1);
        answer(&f);
        check_eq_int(member(&f, 1, "files_new"), -1);
        fake_run_ms(&f, SESSION_QUIET_MS + 2);
        check_eq_int(f.looks, 1);
        write_look(&f, 1, false);
        answer(&f);
        check_eq_int(member(&f, 1, "files_new"), 1);
        fake_run_ms(&f, 3 * SESSION_QUIET_MS);
        check_eq_int(f.looks, 1);

        /* One answer at a time. */
        run_cell(&f, 5);
        fake_run_ms(&f, SESSION_QUIET_MS + 2);
        check_eq_int(f.looks, 1);
        answer(&f);
        check_eq_int(f.looks, 2);
        write_look(&f, 4, false);
        answer(&f);
        check_eq_int(member(&f, 2, "files_new"), 4);

        /* A cell that begins meanwhile has its own scan. */
        run_cell(&f, 5);
        fake_run_ms(&f, SESSION_QUIET_MS + 2);
        struct end end;
        ask(&f, &end, "1");
        fake_take_exec(&f, NULL, 0);
        answer(&f);
        check_eq_int(f.looks, 2);
        receipt(NULL, 0);
        fake_done(&f);
}

/* A list that is too long as JSON is cut. */
static void test_bounds(void)
{
        struct fake f;

        open_with(&f, NO_COPIES);
        for (uint64_t cell = 1; cell <= 8; cell++) {
                write_look(&f, 30, true); /* six times as long as JSON */
                answer(&f);
                check_eq_int(member(&f, cell, "files_new"), 30);
                size_t n = yyjson_arr_size(yyjson_obj_get(receipt(&f, cell), "files"));
                check(n > 4 && n < 9);
                run_cell(&f, 5);
        }
        receipt(NULL, 0);
        fake_done(&f);
}

/* A hostile template could have written them. */
static void test_bytes_that_are_no_look(void)
{
        struct fake f;

        open_with(&f, NO_COPIES);
        check_eq_int(write(f.changes, "x", 1), 1);
        answer(&f);
        check_eq_int(member(&f, 1, "files_new"), -1);
        run_cell(&f, 5);
        check(write(f.changes, "x", 1) < 0); /* it has no reader */
        answer(&f);
        check_eq_int(member(&f, 2, "tasks_made"), 0);
        check_eq_int(member(&f, 2, "files_new"), -1);
        receipt(NULL, 0);
        fake_done(&f);
}

static void test_limits(void)
{
        struct file_changes_message head = {.limit = FILE_CHANGES_NUMBER};
        struct fake f;

        open_with(&f, NO_COPIES);
        check_eq_int(write(f.changes, &head, sizeof(head)), sizeof(head));
        answer(&f);
        check_has(json_string(receipt(&f, 1), "files_unknown", NULL), "20,000");
        check_eq_int(member(&f, 1, "files_new"), -1);
        receipt(NULL, 0);
        fake_done(&f);
}

int main(void)
{
        run(test_a_look);
        run(test_cells_together);
        run(test_the_session_rests);
        run(test_bounds);
        run(test_bytes_that_are_no_look);
        run(test_limits);
        return 0;
}
