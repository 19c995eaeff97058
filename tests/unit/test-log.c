/* The log: levels, and that no text of a peer's forges a line or drives a terminal. */
#include "base/log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* What was written since begin(). */
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
        log_set_name("cloister-monitor");
        log_set_level(LOG_LEVEL_DEBUG);
        log_debug("d");
        log_set_level(LOG_LEVEL_ERROR);
        log_warning("w");
        check_eq_str(end(), "cloister-monitor: debug: d\n");
        log_set_name("cloister");
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

/* Each byte that a text may hold: one line comes of it, without a control character. */
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

int main(void)
{
        run(test_levels);
        run(test_text_of_a_peer);
        run(test_every_byte);
        run(test_long_lines_are_cut);
        return 0;
}
