/*
 * A client with little overhead: starts a program, sends lines and measures the responses.
 *
 *     ping COMMAND [ARGUMENT]...
 *     ping http://127.0.0.1:PORT/PATH [HEADER]...
 *
 * In the second form each line is the body of a POST with these headers, over one connection. Lines of
 * the response's head are not looked at: the template needs a %d.
 *
 * Commands come on standard input, one per line; each that waits prints one line of JSON:
 *
 *     send LINE       sends the line and waits for nothing
 *     want TEXT       from now on each answer must contain TEXT (empty: any answer)
 *     ask LINE        {"ns": N, "age_ns": since the start of COMMAND, "answer": the line}
 *     burst N LINE    the same line N times, each after the answer to the previous one:
 *                     {"ns": [N, ...]}
 *
 * Every %d in a LINE is replaced by a number that grows by one with each line. The answer is then
 * the line whose member "id" is that number; without a %d, the next line. At the end of standard
 * input, ping closes COMMAND's and waits for its exit status.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "bench/child.h"

#define HTTP "http://"

enum {
        LINE_MAX_BYTES = 60 * 1024, /* below a pipe's buffer: a write never waits for a read */
        HEAD_MAX = 4096,
};

struct peer {
        pid_t pid;
        int in, out;
        uint64_t started;
        char *data; /* read, but not consumed yet */
        size_t begin, end, room;
        char want[256];
        unsigned last;
        char *head; /* of a POST, without the length; NULL: a program */
};

_Noreturn static void fail(const char *what, const char *why)
{
        fprintf(stderr, "ping: %s: %s\n", what, why);
        exit(1);
}

static uint64_t now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void start(struct peer *p, char **command)
{
        p->started = now();
        p->pid = child_start(command, &p->in, &p->out);
        if (p->pid < 0)
                fail("start", strerror(-p->pid));
}

static void connect_to(struct peer *p, char **words)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        const char *host = words[0] + strlen(HTTP), *path = strchr(host, '/');
        const char *port = strchr(host, ':');
        const int on = 1;
        size_t n = 0;

        if (!path || !port || port > path)
                fail(words[0], "not http://127.0.0.1:PORT/PATH");
        address.sin_port = htons((uint16_t)atoi(port + 1));
        p->in = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (p->in < 0 || connect(p->in, (struct sockaddr *)&address, sizeof(address)) < 0)
                fail("connect", strerror(errno));
        setsockopt(p->in, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        p->out = dup(p->in);
        p->started = now();
        p->head = malloc(HEAD_MAX);
        if (!p->head || p->out < 0)
                fail("memory", strerror(ENOMEM));
        n = (size_t)snprintf(p->head, HEAD_MAX, "POST %s HTTP/1.1\r\nHost: localhost\r\n", path);
        for (words++; *words && n < HEAD_MAX; words++)
                n += (size_t)snprintf(p->head + n, HEAD_MAX - n, "%s\r\n", *words);
        if (n >= HEAD_MAX)
                fail("headers", "longer than 4 KiB");
}

/* The next line, NUL-terminated; valid until the next call. */
static char *next_line(struct peer *p, size_t *ret_length)
{
        size_t looked = p->begin;

        for (;;) {
                char *end = memchr(p->data + looked, '\n', p->end - looked);
                ssize_t n;

                if (end) {
                        char *line = p->data + p->begin;

                        *end = 0;
                        *ret_length = (size_t)(end - line);
                        p->begin = (size_t)(end - p->data) + 1;
                        return line;
                }
                if (p->begin > 0) {
                        memmove(p->data, p->data + p->begin, p->end - p->begin);
                        p->end -= p->begin;
                        p->begin = 0;
                }
                looked = p->end;
                if (p->room - p->end < 65536) {
                        p->room = p->room * 2 + 131072;
                        p->data = realloc(p->data, p->room);
                        if (!p->data)
                                fail("memory", strerror(ENOMEM));
                }
                n = read(p->out, p->data + p->end, p->room - p->end);
                if (n <= 0)
                        fail("the program ended before it answered",
                             n < 0 ? strerror(errno) : "end of file");
                p->end += (size_t)n;
        }
}

/* Whether the line has a member "id" with this number, at any depth: ids are not reused. */
static bool is_answer(const char *line, unsigned id)
{
        for (const char *at = line; (at = strstr(at, "\"id\"")); at++) {
                const char *number = at + 4 + strspn(at + 4, " ");
                char *end;

                if (*number != ':')
                        continue;
                number += 1 + strspn(number + 1, " ");
                if (strtoul(number, &end, 10) == id && end > number)
                        return true;
        }
        return false;
}

/* Fills in the numbers. True if there was a %d. */
static bool fill(struct peer *p, const char *template, char *line, size_t *ret_length)
{
        const char *at, *from = template;
        size_t n = 0;
        bool numbered = false;

        p->last++;
        while ((at = strstr(from, "%d"))) {
                n += (size_t)snprintf(line + n, LINE_MAX_BYTES - n, "%.*s%u", (int)(at - from),
                                      from, p->last);
                if (n >= LINE_MAX_BYTES)
                        fail("line", "longer than 60 KiB");
                from = at + 2;
                numbered = true;
        }
        n += (size_t)snprintf(line + n, LINE_MAX_BYTES - n, "%s\n", from);
        if (n >= LINE_MAX_BYTES)
                fail("line", "longer than 60 KiB");
        *ret_length = n;
        return numbered;
}

static void put(struct peer *p, const char *line, size_t length)
{
        char whole[LINE_MAX_BYTES + HEAD_MAX + 64];

        if (p->head) {
                int n = snprintf(whole, sizeof(whole), "%sContent-Length: %zu\r\n\r\n%.*s", p->head,
                                 length, (int)length, line);
                line = whole;
                length = (size_t)n;
        }
        int r = fd_write_all(p->in, line, length);
        if (r < 0)
                fail("write to the program", strerror(-r));
}

/* Sends one line and reads its answer; returns the nanoseconds between. */
static uint64_t exchange(struct peer *p, const char *template, char **ret_answer)
{
        char line[LINE_MAX_BYTES];
        size_t length, got;
        bool numbered = fill(p, template, line, &length);
        uint64_t begin = now(), end;
        char *answer;

        put(p, line, length);
        do
                answer = next_line(p, &got);
        while (numbered && !is_answer(answer, p->last));
        end = now();
        if (p->want[0] && !memmem(answer, got, p->want, strlen(p->want)))
                fail("not the answer that is wanted", answer);
        *ret_answer = answer;
        return end - begin;
}

static void ask(struct peer *p, const char *template)
{
        char *answer;
        uint64_t ns = exchange(p, template, &answer);
        uint64_t age = now() - p->started;

        printf("{\"ns\": %" PRIu64 ", \"age_ns\": %" PRIu64 ", \"answer\": %s}\n", ns, age, answer);
}

static void burst(struct peer *p, char *arguments)
{
        char *template, *answer;
        unsigned long count = strtoul(arguments, &template, 10);
        _cleanup_free_ uint64_t *ns = NULL;

        if (count == 0 || count > 10000000 || *template != ' ')
                fail("burst", "needs a number from 1 to 10000000 and a line");
        template ++;
        ns = calloc(count, sizeof(*ns));
        if (!ns)
                fail("memory", strerror(ENOMEM));
        for (unsigned long i = 0; i < count; i++)
                ns[i] = exchange(p, template, &answer);
        printf("{\"ns\": [");
        for (unsigned long i = 0; i < count; i++)
                printf("%s%" PRIu64, i ? "," : "", ns[i]);
        printf("]}\n");
}

/* 128 plus the number of the signal, as shells report it. */
static int end(struct peer *p)
{
        int status;

        if (p->in >= 0)
                close(p->in);
        p->in = -1;
        if (p->head)
                return 0;
        if (waitpid(p->pid, &status, 0) < 0)
                fail("wait", strerror(errno));
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

_Noreturn static void wait_for_end(struct peer *p)
{
        _cleanup_free_ char *output = NULL;
        size_t length;
        int status;

        close(take_fd(p->in));
        if (fd_read_whole(p->out, 1 << 20, &output, &length, NULL) < 0)
                fail("wait", "more than 1 MiB of output, or none to be read");
        status = end(p);
        uint64_t age = now() - p->started;
        if (p->want[0] && !memmem(output, length, p->want, strlen(p->want)))
                fail("not the output that is wanted", output);
        printf("{\"age_ns\": %" PRIu64 ", \"status\": %d}\n", age, status);
        fflush(stdout);
        exit(status);
}

static void obey(struct peer *p, char *command)
{
        char line[LINE_MAX_BYTES];
        size_t length;

        if (strncmp(command, "send ", 5) == 0) {
                fill(p, command + 5, line, &length);
                put(p, line, length);
        } else if (strncmp(command, "want ", 5) == 0) {
                if (snprintf(p->want, sizeof(p->want), "%s", command + 5) >= (int)sizeof(p->want))
                        fail("want", "longer than 255 bytes");
        } else if (strncmp(command, "ask ", 4) == 0) {
                ask(p, command + 4);
        } else if (strncmp(command, "burst ", 6) == 0) {
                burst(p, command + 6);
        } else if (strcmp(command, "wait") == 0) {
                wait_for_end(p);
        } else {
                fail(command, "unknown command (send, want, ask, burst or wait)");
        }
        fflush(stdout);
}

int main(int argc, char **argv)
{
        struct peer p = {0};
        _cleanup_free_ char *command = NULL;
        size_t room = 0;
        ssize_t n;

        if (argc < 2) {
                fprintf(stderr,
                        "usage: ping COMMAND [ARGUMENT]... (what to send, on standard input)\n");
                return 2;
        }
        signal(SIGPIPE, SIG_IGN);
        if (strncmp(argv[1], HTTP, strlen(HTTP)) == 0)
                connect_to(&p, argv + 1);
        else
                start(&p, argv + 1);
        while ((n = getline(&command, &room, stdin)) > 0) {
                if (command[n - 1] == '\n')
                        command[n - 1] = 0;
                obey(&p, command);
        }
        free(p.data);
        int status = end(&p);
        free(p.head);
        return status;
}
