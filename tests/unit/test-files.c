/* Files of a session: the requests to its worker, and how each kind of answer is handled. */
#include "supervisor/session/calls/files.h"

#include <errno.h>

#include "base/base64.h"
#include "rpc/memory-account.h"
#include "tests/unit/fake-client.h"

struct got {
        int count;
        char text[256], error[512];
        size_t length;
        int code;
};

static void on_read(void *data, struct buffer *content, const struct error *error)
{
        struct got *got = data;

        got->count++;
        if (error) {
                snprintf(got->error, sizeof(got->error), "%s", error->text);
                got->code = error->code;
                return;
        }
        got->length = content->length;
        snprintf(got->text, sizeof(got->text), "%.*s", (int)content->length,
                 content->length ? buffer_bytes(content) : "");
}

static void read_file(struct fake *f, struct got *got, const char *path, size_t most)
{
        struct error err = {};

        *got = (struct got){};
        check_ok(files_read(sessions_find(f->sessions, "default"), "default", path, most, on_read,
                            got, &err));
}

static void answer(struct fake *f, uint64_t id, const char *bytes, size_t size, bool eof,
                   const char *version)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(64 * 1024 * 1024);

        buffer_printf(&b, "{\"ok\":true,\"data\":\"");
        check_eq_int(base64_append(&b, bytes, strlen(bytes)), 0);
        buffer_printf(&b, "\",\"size\":%zu,\"eof\":%s,\"version\":\"%s\"}", size,
                      eof ? "true" : "false", version);
        buffer_append(&b, "", 1);
        fake_send(f, FRAME_DATA, id, buffer_bytes(&b));
}

static void test_read(void)
{
        struct fake f;
        struct got got;
        char text[256];

        fake_open(&f);
        warm_up(&f);
        read_file(&f, &got, "d/a b.txt", 100);
        struct frame_header header = fake_read(&f, text, sizeof(text));
        check_eq_str(frame_type_name(header.type), "FETCH");
        check_eq_str(text, "{\"path\":\"out/d/a b.txt\",\"offset\":0,\"length\":1048576}");
        answer(&f, header.id, "one ", 7, false, "v");
        header = fake_read(&f, text, sizeof(text));
        check_eq_str(text, "{\"path\":\"out/d/a b.txt\",\"offset\":4,\"length\":1048576}");
        check_eq_int(got.count, 0);
        answer(&f, header.id, "two", 7, true, "v");
        check_eq_int(got.count, 1);
        check_eq_str(got.text, "one two");
        check_eq_int(f.kills, 0);
        fake_done(&f);
}

/* The content of a file that arrives counts as memory of its session. */
static void test_memory(void)
{
        static char bytes[64 * 1024];
        struct memory_account *account = memory_account_new(ACCOUNT_OF_SESSION);
        struct charge others = {};
        struct fake f;
        struct got got;

        memset(bytes, 'x', sizeof(bytes) - 1);
        charge_open(&others, account);
        for (int is_full = 0; is_full < 2; is_full++) {
                fake_open(&f);
                warm_up(&f);
                charge_set(&others, is_full ? ACCOUNTS_SESSIONS_MAX : 0);
                read_file(&f, &got, "x", sizeof(bytes));
                struct frame_header header = fake_read(&f, NULL, 0);
                answer(&f, header.id, bytes, sizeof(bytes) - 1, true, "v");
                check_eq_int(got.count, 1);
                check_eq_int(got.code, is_full ? EBUSY : 0);
                if (is_full)
                        check_has(got.error, "too many files are being read");
                charge_set(&others, 0);
                fake_done(&f);
        }
        charge_done(&others);
        memory_account_unref(account);
}

/* The session is thawed so that the worker reads the request, and is not frozen before the answer. */
static void test_thaws(void)
{
        struct fake f;
        struct got got;

        fake_open(&f);
        f.config->top.freeze_ms = 30;
        warm_up(&f);
        fake_until(&f, f.freezes == 1);
        read_file(&f, &got, "x", 100);
        check_eq_int(f.thaws, 1);
        struct frame_header header = fake_read(&f, NULL, 0);
        fake_run_ms(&f, 10 * 30);
        check_eq_int(f.freezes, 1);
        answer(&f, header.id, "x", 1, true, "v");
        check_eq_int(got.count, 1);
        fake_until(&f, f.freezes == 2);
        check_eq_int(f.thaws, 1);
        fake_done(&f);
}

static void test_refused(void)
{
        static const char *const paths[] = {"", "../x", "/etc/passwd", "a//b", "a\nb", "\xff"};
        struct fake f;
        struct got got;
        struct error err;

        fake_open(&f);
        err = (struct error){};
        check_eq_int(files_read(sessions_find(f.sessions, "nobody"), "nobody", "x", 1, on_read,
                                &got, &err),
                     -ENOENT);
        check_eq_str(err.text, "there is no session \"nobody\"");
        warm_up(&f);
        for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
                err = (struct error){};
                check_eq_int(files_read(sessions_find(f.sessions, "default"), "default", paths[i],
                                        1, on_read, &got, &err),
                             -EINVAL);
        }
        check(!fake_has_frame(&f));
        fake_done(&f);
}

/* The worker refuses; its reason is one line. */
static void test_refusal(void)
{
        struct fake f;
        struct got got;

        fake_open(&f);
        warm_up(&f);
        read_file(&f, &got, "x", 100);
        fake_send(&f, FRAME_DATA, fake_read(&f, NULL, 0).id,
                  "{\"ok\":false,\"error\":\"out/x: no\\nsuch file\"}");
        check_eq_int(got.count, 1);
        check_eq_str(got.error, "session \"default\": out/x: no such file");
        check_eq_int(f.kills, 0);
        fake_done(&f);
}

static void test_bounds(void)
{
        struct fake f;
        struct got got;

        fake_open(&f);
        warm_up(&f);
        read_file(&f, &got, "x", 3);
        answer(&f, fake_read(&f, NULL, 0).id, "four", 4, true, "v");
        check_eq_int(got.code, EFBIG);
        check_eq_str(got.error, "out/x has 4 bytes: at most 3 are read");
        read_file(&f, &got, "x", 4);
        answer(&f, fake_read(&f, NULL, 0).id, "four", 4, true, "v");
        check_eq_str(got.text, "four");
        /* A file that grows, or is replaced, while it is read. */
        read_file(&f, &got, "x", 100);
        answer(&f, fake_read(&f, NULL, 0).id, "four", 8, false, "v");
        answer(&f, fake_read(&f, NULL, 0).id, "five", 8, true, "w");
        check_eq_int(got.code, EAGAIN);
        check_has(got.error, "changed while it was read");
        check_eq_int(f.kills, 0);
        fake_done(&f);
}

/* Malformed answers end the session, and all waiting requests fail. */
static void test_hostile(void)
{
        static const char *const payloads[] = {
                "",
                "{\"ok\":true}",
                "{\"ok\":true,\"data\":1,\"size\":1,\"eof\":true,\"version\":\"\"}",
                "{\"ok\":true,\"data\":\"!\",\"size\":1,\"eof\":true,\"version\":\"\"}",
                "{\"ok\":true,\"data\":\"\",\"size\":-1,\"eof\":true,\"version\":\"\"}",
                "{\"ok\":true,\"data\":\"\",\"size\":0,\"eof\":true}",
                "{\"ok\":true,\"data\":\"\",\"size\":1,\"eof\":false,\"version\":\"\"}",
        };
        struct fake f;
        struct got got;

        for (size_t i = 0; i < ARRAY_SIZE(payloads); i++) {
                fake_open(&f);
                warm_up(&f);
                read_file(&f, &got, "x", 100);
                fake_send(&f, FRAME_DATA, fake_read(&f, NULL, 0).id, payloads[i]);
                check_eq_int(f.kills, 1);
                check_eq_int(got.count, 0);
                fake_end(&f, SIGKILL, 0);
                check_eq_int(got.count, 1);
                check_has(got.error, "session \"default\" is gone, and its files with it");
                fake_done(&f);
        }
}

/* More bytes than were requested. */
static void test_too_much(void)
{
        struct fake f;
        struct got got;
        _cleanup_free_ char *bytes = calloc(1, FILES_CHUNK + 2);

        fake_open(&f);
        warm_up(&f);
        read_file(&f, &got, "x", FILES_READ_MAX);
        memset(bytes, 'x', FILES_CHUNK + 1);
        answer(&f, fake_read(&f, NULL, 0).id, bytes, FILES_CHUNK + 1, true, "v");
        /* So many bytes are parsed in the background, in real time. */
        for (int i = 0; i < 5000 && f.kills == 0; i++) {
                usleep(1000);
                fake_spin(&f);
        }
        check_eq_int(f.kills, 1);
        fake_end(&f, SIGKILL, 0);
        fake_done(&f);
}

/* An unknown request number ends the session; one that was answered already does not. */
static void test_numbers(void)
{
        struct fake f;
        struct got got;

        fake_open(&f);
        warm_up(&f);
        read_file(&f, &got, "x", 100);
        uint64_t id = fake_read(&f, NULL, 0).id;
        answer(&f, id, "1", 1, true, "v");
        answer(&f, id, "2", 1, true, "v");
        check_eq_int(got.count, 1);
        check_eq_int(f.kills, 0);
        answer(&f, id + 1, "3", 1, true, "v");
        check_eq_int(f.kills, 1);
        fake_end(&f, SIGKILL, 0);
        fake_done(&f);
}

static void test_too_many(void)
{
        struct fake f;
        struct got got[FILES_REQUESTS_MAX], more;
        struct error err = {};

        fake_open(&f);
        warm_up(&f);
        for (size_t i = 0; i < FILES_REQUESTS_MAX; i++)
                read_file(&f, &got[i], "x", 1);
        check_eq_int(files_read(sessions_find(f.sessions, "default"), "default", "x", 1, on_read,
                                &more, &err),
                     -EBUSY);
        f.sessions = sessions_free(f.sessions);
        for (size_t i = 0; i < FILES_REQUESTS_MAX; i++)
                check_eq_int(got[i].count, 1);
        fake_done(&f);
}

/* Code keeps the worker from answering: the request fails after FILES_WAIT_MS, and a late answer is
 * ignored. */
static void test_busy(void)
{
        struct fake f;
        struct end end;
        struct got got;

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "time.sleep(60)");
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        read_file(&f, &got, "x", 100);
        uint64_t id = fake_read(&f, NULL, 0).id;
        fake_run_ms(&f, FILES_WAIT_MS - 1000);
        check_eq_int(got.count, 0);
        fake_run_ms(&f, 1000);
        check_eq_int(got.code, EBUSY);
        check_has(got.error, "session \"default\" is busy");
        answer(&f, id, "1", 1, true, "v");
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_eq_int(end.status, CELL_OK);
        check_eq_int(f.kills, 0);
        fake_done(&f);
}

struct listed {
        int count;
        size_t n, total;
        char first[64];
        int code;
};

static void on_list(void *data, const struct file_answer *answer, const struct error *error)
{
        struct listed *listed = data;

        listed->count++;
        listed->code = error ? error->code : 0;
        if (error || !answer->files)
                return;
        listed->n = answer->n_files;
        listed->total = answer->files_total;
        snprintf(listed->first, sizeof(listed->first), "%s", answer->files[0].path);
}

static void test_list_and_put(void)
{
        struct fake f;
        struct listed got = {};
        struct error err = {};
        char text[256];

        fake_open(&f);
        warm_up(&f);
        check_ok(files_list(fake_session(&f), NULL, on_list, &got, &err));
        struct frame_header header = fake_read(&f, text, sizeof(text));
        check_eq_str(text, "{\"list\":10000}");
        fake_send(&f, FRAME_DATA, header.id,
                  "{\"ok\":true,\"files\":[{\"path\":\"p\",\"mime\":\"a/b\",\"size\":1}],"
                  "\"files_total\":3}");
        check(got.count == 1 && got.n == 1 && got.total == 3);
        check_eq_str(got.first, "p");
        check_ok(files_put(
                fake_session(&f),
                &(struct file_put){.path = "in.bin", .offset = 6, .bytes = "\0\1", .n = 2}, on_list,
                &got, &err));
        header = fake_read(&f, text, sizeof(text));
        check_eq_str(frame_type_name(header.type), "PUT");
        check_eq_str(text, "{\"path\":\"in.bin\",\"offset\":6,\"data\":\"AAE=\"}");
        fake_send(&f, FRAME_DATA, header.id, "{\"ok\":true}");
        check(got.count == 2 && got.code == 0);
        fake_done(&f);
}

int main(void)
{
        run(test_read);
        run(test_memory);
        run(test_thaws);
        run(test_refused);
        run(test_refusal);
        run(test_bounds);
        run(test_hostile);
        run(test_too_much);
        run(test_numbers);
        run(test_too_many);
        run(test_busy);
        run(test_list_and_put);
        return 0;
}
