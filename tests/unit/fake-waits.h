/* Calls that wait for code, for their tests. */
#pragma once

#include "tests/unit/fake-tasks.h"

#define STATUS "/result/structuredContent/status"
#define STDOUT "/result/structuredContent/stdout"
#define NOTICE "/result/structuredContent/notice"

/* A call whose code runs; fresh: it needs a sandbox. Returns its number. */
static inline uint64_t begin(const char *line, bool fresh)
{
        send_line(line);
        fake_spin(&f);
        if (fresh)
                fake_start(&f);
        return fake_take_exec(&f, NULL, 0);
}

static inline void print(const char *text)
{
        check_eq_int(write(f.out, text, strlen(text)), (ssize_t)strlen(text));
        fake_spin(&f);
}

static inline void end(uint64_t cell)
{
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\",\"value\":{\"repr\":\"42\"}}");
}

/* The next message answers this request with this status. The caller frees. */
static inline yyjson_doc *take_answer(int number, const char *status)
{
        yyjson_doc *doc = take_message();

        check_eq_int(number_at(doc, "/id"), number);
        check_eq_str(text_at(doc, STATUS), status);
        /* The text says it too. */
        if (strcmp(status, "ok") != 0)
                check_has(text_at(doc, "/result/content/0/text"), status);
        return doc;
}

static inline void check_answer(int number, const char *status, const char *out)
{
        _cleanup_json_ yyjson_doc *doc = take_answer(number, status);

        check_eq_str(text_at(doc, STDOUT), out);
}

static inline void check_nothing(const char *line, int number)
{
        send_line(line);
        fake_spin(&f);
        _cleanup_json_ yyjson_doc *doc = take_answer(number, "error");
        check_has(text_at(doc, "/result/structuredContent/error/message"),
                  "no code runs in session");
}

static inline void open_stopped(void)
{
        open_server();
        fake_clock_stop(true);
}

static inline void close_stopped(void)
{
        check_no_message();
        close_server();
        fake_clock_stop(false);
}
