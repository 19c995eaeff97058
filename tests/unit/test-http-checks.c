/* /livez and /readyz: what balancers and probes get in each state of the server. */
#include "supervisor/service/liveness.h"
#include "supervisor/service/node.h"
#include "supervisor/service/phase.h"
#include "supervisor/session/sandbox-check.h"
#include "tests/unit/http-rig.h"

#define TOKENS "alice 0123456789abcdef sessions=1\n"

/* Sends a request and checks the whole answer: its status, and its body, which has nothing else. */
static void check_answer(const char *path, int status, const char *body)
{
        char request[128], expected[64];
        int fd = dial();

        snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
        say(fd, request);
        const char *text = hear(fd);
        snprintf(expected, sizeof(expected), "HTTP/1.1 %d ", status);
        check_has(text, expected);
        check_has(text, "\r\nCache-Control: no-store\r\n");
        check_has(text, "\r\nContent-Type: application/json\r\n");
        check_eq_str(strstr(text, "\r\n\r\n") + 4, body);
        close(fd);
}

/* The monitor's answer to the newest request for a sandbox. error 0: it is made. */
static void answer_create(int error)
{
        struct monitor_event event = {.serial = f.serial, .kind = MONITOR_SESSION_STARTED};
        int fds[SESSION_FDS];

        for (size_t i = 0; i < SESSION_FDS; i++)
                fds[i] = error ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
        f.target = event.target = error ? 0 : 4711;
        if (error) {
                event.kind = MONITOR_FAILED;
                error_set(&event.error, error, "no");
        }
        check_eq_int(fake_event(f.sessions, MONITOR_SESSION_CREATE, f.serial, &event, fds,
                                error ? 0 : SESSION_FDS),
                     0);
        for (size_t i = 0; i < SESSION_FDS && !error; i++)
                check(fcntl(fds[i], F_GETFD) < 0);
}

static void test_ready(void)
{
        open_http(TOKENS); /* both are open to every client */
        check_answer("/readyz", 503, "{\"status\":\"starting\"}\n");
        check_eq_int(f.creates, 0); /* the server itself tries one until it is ready */
        service_set_ready();
        check_answer("/readyz", 503, "{\"status\":\"starting\"}\n");
        check_eq_int(f.creates, 1);
        check_answer("/readyz", 503, "{\"status\":\"starting\"}\n");
        check_eq_int(f.creates, 1); /* one at a time */
        answer_create(0);
        check_eq_int(f.kills, 1);
        check_answer("/readyz", 200, "{\"status\":\"ready\"}\n");
        check_answer("/readyz?new", 200, "{\"status\":\"ready\"}\n");
        check_eq_int(f.creates, 1);
        node_set_name("n2");
        check_answer("/readyz", 200, "{\"status\":\"ready\",\"node\":\"n2\"}\n");
        node_set_name("");
        close_http();
}

static void test_no_sandbox(void)
{
        open_http(TOKENS);
        check_answer("/readyz", 503, "{\"status\":\"starting\"}\n");
        answer_create(ENOSPC);
        check_answer("/readyz", 503, "{\"status\":\"no-sandbox\"}\n");
        check_eq_int(f.creates, 1); /* not for each question */
        fake_run_ms(&f, SANDBOX_CHECK_MS + 1000);
        check_answer("/readyz", 503, "{\"status\":\"no-sandbox\"}\n");
        check_eq_int(f.creates, 2);
        answer_create(ESTALE); /* the config was reloaded: nothing is known of it */
        check_answer("/readyz", 503, "{\"status\":\"no-sandbox\"}\n");
        fake_run_ms(&f, SANDBOX_CHECK_MS + 1000);
        check_answer("/readyz", 503, "{\"status\":\"no-sandbox\"}\n");
        check_eq_int(f.creates, 3);
        answer_create(0);
        check_answer("/readyz", 200, "{\"status\":\"ready\"}\n");
        close_http();
}

/* A server without memory for one more is full, and its sessions must be reached. */
static void test_full(void)
{
        open_http(TOKENS);
        check_answer("/readyz", 503, "{\"status\":\"starting\"}\n");
        answer_create(EDQUOT);
        check_answer("/readyz", 200, "{\"status\":\"ready\"}\n");
        check_eq_int(f.kills, 0);
        struct monitor_hello hello = {.sessions_max = 0, .generation = 2};
        sessions_reload(f.sessions, f.config, &hello);
        check_answer("/readyz", 200, "{\"status\":\"ready\"}\n");
        check_answer("/readyz?new", 503, "{\"status\":\"full\"}\n");
        check_answer("/readyz?a=b&new", 503, "{\"status\":\"full\"}\n");
        check_answer("/readyz?newer&a=new", 200, "{\"status\":\"ready\"}\n");
        close_http();
}

static void test_draining(void)
{
        open_http(TOKENS);
        service_set_draining(false, UINT64_MAX);
        check_answer("/readyz", 404, "{\"status\":\"draining\"}\n");
        check_answer("/readyz?new", 404, "{\"status\":\"draining\"}\n");
        check_eq_int(f.creates, 0);
        check_answer("/livez", 200, "{\"status\":\"live\"}\n");
        service_set_ready();
        check_answer("/readyz", 503, "{\"status\":\"starting\"}\n");
        close_http();
}

static int asked;

static int ask(void *data)
{
        asked++;
        return 0;
}

static void test_live(void)
{
        open_http(TOKENS);
        asked = 0;
        check_eq_int(liveness_start(f.base, -1, ask, NULL), 0);
        check_answer("/livez", 200, "{\"status\":\"live\"}\n");
        fake_run_ms(&f, LIVENESS_PERIOD_MS + 1000);
        check_eq_int(asked, 1);
        liveness_answered();
        fake_run_ms(&f, LIVENESS_PERIOD_MS);
        check_eq_int(asked, 2);
        /* The monitor does not answer; it is not asked again. */
        fake_run_ms(&f, LIVENESS_MOST_MS - 2000);
        check_answer("/livez", 200, "{\"status\":\"live\"}\n");
        fake_run_ms(&f, 2000);
        check_answer("/livez", 503, "{\"status\":\"stuck\"}\n");
        check_eq_int(asked, 2);
        liveness_answered();
        check_answer("/livez", 200, "{\"status\":\"live\"}\n");
        liveness_stop();
        close_http();
}

/* As for other paths: a web page reaches neither, and only GET and HEAD are answered. */
static void test_refused(void)
{
        static const struct {
                const char *request;
                int status;
        } cases[] = {
                {"GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403},
                {"GET /readyz HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n",
                 403},
                {"DELETE /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n", 405},
                {"HEAD /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 200},
                {"GET /readyz/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
        };

        open_http(NULL);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                int fd = dial();
                say(fd, cases[i].request);
                check_status(fd, cases[i].status);
                close(fd);
        }
        check_eq_int(f.creates, 0);
        close_http();
}

int main(void)
{
        run(test_ready);
        run(test_no_sandbox);
        run(test_full);
        run(test_draining);
        run(test_live);
        run(test_refused);
        return 0;
}
