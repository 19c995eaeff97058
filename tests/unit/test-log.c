/* The log: levels, and that a peer's text can neither forge a line nor control a terminal. */
#include "base/log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"

#include "tests/unit/test.h"

static int log_fd = -1, real_stderr = -1;

static void begin(void)
{
        fflush(stderr);
        log_fd = memfd_create("log", MFD_CLOEXEC);
        real_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
        check(log_fd >= 0 && real_stderr >= 0);
        dup2(log_fd, STDERR_FILENO);
}

/* The text written since begin(). */
static const char *end(void)
{
        static char text[64 * 1024];
        ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);

        dup2(real_stderr, STDERR_FILENO);
        close(real_stderr);
        close(log_fd);
        check(n >= 0);
        text[n] = '\0';
        return text;
}

static void test_levels(void)
{
        check_eq_int(log_get_level(), LOG_LEVEL_WARNING);
        check_eq_int(log_level_from_name("debug"), LOG_LEVEL_DEBUG);
        check_eq_int(log_level_from_name("loud"), -EINVAL);
        begin();
        log_error("e");
        log_warning("w %d", 1);
        log_info("i");
        log_debug("d");
        check_eq_str(end(), "cloister: error: e\ncloister: warning: w 1\n");
        begin();
        log_set_level(LOG_LEVEL_DEBUG);
        log_debug("d");
        log_set_level(LOG_LEVEL_ERROR);
        log_warning("w");
        check_eq_str(end(), "cloister: debug: d\n");
        log_set_level(LOG_LEVEL_WARNING);
}

static void test_text_of_a_peer(void)
{
        begin();
        log_error("%s", "a\nb\r\t\x1b[31m\x7f é€😀 \xc2\x9b"
                        "31m");
        check_eq_str(end(), "cloister: error: a\\x0ab\\x0d\\x09\\x1b[31m\\x7f é€😀 \\xc2\\x9b"
                            "31m\n");
}

/* Each byte that a text can contain: the output is one line without control characters. */
static void test_every_byte(void)
{
        char bytes[512];
        size_t n = 0;

        for (int c = 1; c < 256; c++) {
                bytes[n++] = (char)c;
                bytes[n++] = 'x';
        }
        bytes[n] = '\0';
        begin();
        log_error("%s", bytes);
        const char *line = end();
        size_t length = strlen(line);
        check_eq_int(line[length - 1], '\n');
        for (size_t i = 0; i + 1 < length; i++)
                check((unsigned char)line[i] >= 0x20 && line[i] != 0x7f);
}

static void test_long_lines_are_cut(void)
{
        static char text[10000];

        memset(text, 0x1b, sizeof(text) - 1);
        begin();
        log_error("%s", text);
        const char *line = end();
        check(strlen(line) > 2000 && strlen(line) <= 4096);
        check_eq_int(line[strlen(line) - 1], '\n');
        check(!strchr(line, 0x1b));
}

static void test_ids(void)
{
        const struct log_ids ids = {.session = "default", .request = "7", .cell = 3, .call = 12};
        const struct log_ids hostile = {.session = "a\"\n\x1b", .server = "s\xff", .tool = "t"};

        begin();
        log_event(LOG_LEVEL_WARNING, &ids, "hello");
        check_eq_str(end(),
                     "cloister: warning: hello [session default, request 7, cell 3, call 12]\n");
        begin();
        log_event(LOG_LEVEL_WARNING, &hostile, "hello");
        check_eq_str(end(),
                     "cloister: warning: hello [session a\"\\x0a\\x1b, server s\xff, tool t]\n");
}

/* The text behind the time. */
static const char *without_time(const char *line)
{
        check(strncmp(line, "{\"time\":\"20", 11) == 0);
        check_eq_int(line[9 + 10], 'T');
        return line + 9 + strlen("2026-01-31T12:00:00.123Z\",");
}

static void test_json(void)
{
        const struct log_ids ids = {
                .session = "a\"\n", .request = "\"r\"", .cell = 3, .server = "\xff"};

        begin();
        log_to(STDERR_FILENO, LOG_FORMAT_JSON);
        log_event(LOG_LEVEL_WARNING, &ids, "say \"%s\" \\ \n é \xff", "x");
        log_to(STDERR_FILENO, LOG_FORMAT_TEXT);
        check_eq_str(without_time(end()),
                     "\"level\":\"warning\",\"program\":\"cloister\",\"session\":\"a\\\"\\\\x0a\","
                     "\"request\":\"r\",\"cell\":3,\"server\":\"\xef\xbf\xbd\","
                     "\"message\":\"say \\\"x\\\" \\\\ \\\\x0a é \xef\xbf\xbd\"}\n");
}

/* A line of any length is one complete JSON object within PIPE_BUF. */
static void test_long_json(void)
{
        static char text[10000];
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {0};

        for (size_t i = 0; i + 1 < sizeof(text); i++)
                text[i] = "\"\\\xc3\xa9"[i % 4];
        begin();
        log_to(STDERR_FILENO, LOG_FORMAT_JSON);
        log_error("%s", text);
        log_to(STDERR_FILENO, LOG_FORMAT_TEXT);
        const char *line = end();
        check(strlen(line) <= 4096);
        check_ok(json_parse(line, strlen(line), &doc, &err));
        check(strlen(json_string(yyjson_doc_get_root(doc), "message", NULL)) > 1000);
}

/* A line that a full pipe took in part does not become part of the next one, and those that are lost are counted. */
static void test_a_full_pipe(void)
{
        static char text[64 * 1024];
        char large[2000];
        int ends[2];
        uint64_t before = log_errors();

        memset(large, 'x', sizeof(large) - 1);
        large[sizeof(large) - 1] = '\0';
        const struct log_field code = {"code", LOG_CODE, large, sizeof(large) - 1, 0};
        const struct log_field fields[] = {code, code, code};
        const struct log_record record = {"e", "0", fields, 3};

        check_eq_int(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        check(fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096);
        log_to(ends[1], LOG_FORMAT_JSON);
        log_record(LOG_LEVEL_ERROR, NULL, &record, "first");
        check_eq_int(log_errors() - before, 1);
        check_eq_int(read(ends[0], text, sizeof(text)), 4096);
        log_warning("second");
        log_to(STDERR_FILENO, LOG_FORMAT_TEXT);
        ssize_t n = read(ends[0], text, sizeof(text) - 1);
        check(n > 0);
        text[n] = '\0';
        check_eq_int(text[0], '\n');
        check(strstr(text, "\"1 lines of the log could not be written\"}\n{"));
        check(strstr(text, "\"message\":\"second\"}\n"));
        log_add_errors(7);
        check_eq_int(log_errors() - before, 8);
        close(ends[0]);
        close(ends[1]);
}

static void test_secrets(void)
{
        begin();
        log_warning("the server says: API_KEY=abcdef0123456789");
        check_eq_str(end(), "cloister: warning: the server says: API_KEY=***\n");
}

static void test_another_descriptor(void)
{
        int other = memfd_create("other", MFD_CLOEXEC);
        char text[256] = "";

        begin();
        log_to(other, LOG_FORMAT_TEXT);
        log_error("e");
        log_warning("w");
        log_to(STDERR_FILENO, LOG_FORMAT_TEXT);
        check_eq_str(end(), "cloister: error: e\n");
        check(pread(other, text, sizeof(text) - 1, 0) > 0);
        check_eq_str(text, "cloister: error: e\ncloister: warning: w\n");
        close(other);
}

static int n_later;

static void on_later(void *data)
{
        n_later++;
}

static void write_waiting(const char *text)
{
        static const struct log_record record = {
                .event = "cell.end", .message_id = "0", .may_wait = true};

        log_record(LOG_LEVEL_WARNING, NULL, &record, "%s", text);
}

/* Reads one datagram, or what one write has put into a pipe of packets. Returns whether it has these texts, in this order. */
static bool next_has(int fd, const char *first, const char *second)
{
        char text[8192];
        ssize_t n = read(fd, text, sizeof(text) - 1);

        if (n < 0)
                return false;
        text[n] = '\0';
        const char *at = strstr(text, first);
        return at && (second ? strstr(at, second) != NULL : !strstr(text, "second"));
}

/* A line that may wait is written with the next one, in one write to a pipe, and as a datagram of its own to journald. */
static void test_lines_that_wait(void)
{
        int pipes[2], sockets[2];

        check_eq_int(pipe2(pipes, O_CLOEXEC | O_NONBLOCK | O_DIRECT), 0);
        check_eq_int(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
        log_to(pipes[1], LOG_FORMAT_JSON);
        write_waiting("at once");
        check(next_has(pipes[0], "at once", NULL));
        log_set_later(on_later, NULL);
        write_waiting("first");
        check(!next_has(pipes[0], "first", NULL));
        check_eq_int(n_later, 1);
        log_warning("second");
        check(next_has(pipes[0], "first", "second"));
        write_waiting("first");
        write_waiting("second");
        check_eq_int(n_later, 2);
        log_flush();
        check(next_has(pipes[0], "first", "second"));
        /* More than a pipe takes whole, and more lines than wait: none is lost. */
        for (int i = 0; i < 50; i++) {
                write_waiting("many");
                write_waiting("second");
        }
        log_to(sockets[1], LOG_FORMAT_JOURNAL);
        size_t n = 0;
        for (char text[8192]; read(pipes[0], text, sizeof(text)) > 0;)
                n++;
        check_eq_int(n, 13); /* of eight lines, and the rest */
        write_waiting("first");
        write_waiting("second");
        check(!next_has(sockets[0], "first", NULL));
        log_flush();
        check(next_has(sockets[0], "first", NULL) && next_has(sockets[0], "second", "second"));
        write_waiting("first");
        log_set_later(NULL, NULL);
        check(next_has(sockets[0], "first", NULL));
        /* Entries that cannot be written are counted, each once. */
        uint64_t before = log_errors();
        log_set_later(on_later, NULL);
        write_waiting("first");
        write_waiting("second");
        close(sockets[0]);
        log_flush();
        check_eq_int(log_errors() - before, 2);
        log_set_later(NULL, NULL);
        log_to(STDERR_FILENO, LOG_FORMAT_TEXT);
        fd_close_many((int[]){pipes[0], pipes[1], sockets[1]}, 3);
}

int main(void)
{
        run(test_ids);
        run(test_json);
        run(test_long_json);
        run(test_a_full_pipe);
        run(test_secrets);
        run(test_another_descriptor);
        run(test_lines_that_wait);
        run(test_levels);
        run(test_text_of_a_peer);
        run(test_every_byte);
        run(test_long_lines_are_cut);
        return 0;
}
