/* A hub with real server processes. */
#include "tests/unit/hub-world.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "rpc/memory-reservation.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

enum { TOO_LONG_S = 150 };

static struct world *current;
static int real_stderr = -1;

/* Standard error is a file while a world is open, so that a test can read the log; a failed test
 * prints it. */
static void show_log(int signal_number)
{
        static char text[64 * 1024];
        ssize_t n = pread(current->log_fd, text, sizeof(text), 0);

        (void)signal_number;
        if (n > 0 && write(real_stderr, text, (size_t)n) < 0)
                _exit(1);
}

/* The test's clock is stopped: this reads the kernel's. */
static void on_alarm(int signal_number)
{
        (void)signal_number;
        abort();
}

static void start_in_child(struct world *w, uint32_t index, int pipes[3][2])
{
        dup2(pipes[0][0], 0);
        dup2(pipes[1][1], 1);
        dup2(pipes[2][1], 2);
        close_range(3, ~0U, 0);
        signal(SIGPIPE, SIG_DFL);
        execv(w->used->servers[index].command, w->used->servers[index].args);
        _exit(127);
}

struct started {
        struct world *w;
        uint32_t index, instance;
        int fds[3];
};

static void report_started(evutil_socket_t fd, short what, void *data)
{
        struct started *s = data;
        struct error err = {};

        (void)fd;
        (void)what;
        if (s->instance)
                hub_upstream_started(s->w->hub, s->index, s->instance, s->fds);
        else
                hub_upstream_failed(s->w->hub, s->index,
                                    (error_set(&err, ENOENT, "no-such-program: not found"), &err));
        free(s);
}

static void on_start(void *data, uint32_t index)
{
        static const struct timeval now = {};
        struct world *w = data;
        struct started *s = calloc(1, sizeof(*s));
        int pipes[3][2];

        check(s && w->n_runs < WORLD_RUNS);
        if (w->is_silent) {
                w->n_runs++;
                free(s);
                return;
        }
        *s = (struct started){.w = w, .index = index};
        if (access(w->used->servers[index].command, X_OK) == 0) {
                for (int i = 0; i < 3; i++)
                        check_eq_int(pipe2(pipes[i], O_CLOEXEC), 0);
                pid_t pid = fork();
                if (pid == 0)
                        start_in_child(w, index, pipes);
                w->runs[w->n_runs].pid = pid;
                w->runs[w->n_runs].index = index;
                s->instance = ++w->n_runs;
                s->fds[0] = pipes[0][1];
                s->fds[1] = pipes[1][0];
                s->fds[2] = pipes[2][0];
                close(pipes[0][0]);
                close(pipes[1][1]);
                close(pipes[2][1]);
        } else {
                w->n_runs++;
        }
        check_eq_int(event_base_once(w->base, -1, EV_TIMEOUT, report_started, s, &now), 0);
}

static void on_stop(void *data, uint32_t instance)
{
        struct world *w = data;

        w->n_stops++;
        if (w->runs[instance - 1].pid > 0)
                kill(w->runs[instance - 1].pid, SIGKILL);
}

static void on_changed(void *data)
{
        ((struct world *)data)->n_changed++;
}

static void on_child(evutil_socket_t fd, short what, void *data)
{
        struct world *w = data;

        (void)fd;
        (void)what;
        for (uint32_t i = 0; i < w->n_runs; i++) {
                int status = 0;
                if (w->runs[i].pid <= 0 || waitpid(w->runs[i].pid, &status, WNOHANG) <= 0)
                        continue;
                w->runs[i].pid = 0;
                hub_upstream_ended(w->hub, i + 1, status);
        }
}

void world_init(struct world *w)
{
        *w = (struct world){};
        current = w;
        log_set_level(LOG_LEVEL_INFO);
        strcpy(w->dir, "/tmp/cloister-test-hub-XXXXXX");
        check(mkdtemp(w->dir));
        w->dir_fd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        w->log_fd = memfd_create("log", MFD_CLOEXEC);
        check(w->dir_fd >= 0 && w->log_fd >= 0);
        real_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
        dup2(w->log_fd, STDERR_FILENO);
        signal(SIGABRT, show_log);
        signal(SIGALRM, on_alarm);
        alarm(TOO_LONG_S);
        fake_clock_stop(true);
        w->config.servers = w->servers;
        w->base = event_base_new();
        check(w->base);
        evsignal_assign(&w->child, w->base, SIGCHLD, on_child, w);
}

uint32_t world_add(struct world *w, const char *name, ...)
{
        static char program[4096];
        const char *source = getenv("CLOISTER_SOURCE");
        uint32_t index = (uint32_t)w->config.n_servers++;
        size_t n = 0;
        va_list args;

        snprintf(program, sizeof(program), "%s/tests/integration/servers/faulty.py",
                 source ? source : ".");
        w->args[index][n++] = (char *)"python3";
        w->args[index][n++] = (char *)"-IS";
        w->args[index][n++] = program;
        va_start(args, name);
        for (char *arg; (arg = va_arg(args, char *)) && n + 1 < WORLD_ARGS;)
                w->args[index][n++] = arg;
        va_end(args);
        w->servers[index] = (struct config_server){
                .name = (char *)name,
                .command = (char *)"/usr/bin/python3",
                .args = w->args[index],
                .key = 0x1000 + index,
        };
        return index;
}

void world_open(struct world *w)
{
        const struct hub_host host = {
                .data = w, .start = on_start, .stop = on_stop, .changed = on_changed};
        struct error err = {};

        w->used = &w->config;
        check_ok(hub_new(&w->hub, w->base, &w->config, w->dir_fd, &host, &err));
        check_eq_int(event_add(&w->child, NULL), 0);
}

void world_reload(struct world *w, const struct config *config)
{
        struct error err = {};

        w->used = config;
        check_ok(hub_reload(w->hub, config, &err));
}

void world_shut(struct world *w)
{
        /* Callbacks of event_base_once() use the hub. */
        world_turn(w);
        event_del(&w->child);
        w->hub = hub_free(w->hub);
        for (uint32_t i = 0; i < w->n_runs; i++) {
                if (w->runs[i].pid <= 0)
                        continue;
                kill(w->runs[i].pid, SIGKILL);
                waitpid(w->runs[i].pid, NULL, 0);
                w->runs[i].pid = 0;
        }
}

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *where)
{
        (void)about;
        (void)kind;
        (void)where;
        return remove(path);
}

void world_done(struct world *w)
{
        world_shut(w);
        event_base_free(w->base);
        world_member(NULL, NULL, NULL);
        dup2(real_stderr, STDERR_FILENO);
        close(real_stderr);
        close(w->log_fd);
        close(w->dir_fd);
        nftw(w->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
        signal(SIGABRT, SIG_DFL);
        alarm(0);
}

void world_until(struct world *w, const bool *done)
{
        while (!*done)
                check(event_base_loop(w->base, EVLOOP_ONCE) >= 0);
}

void world_turn(struct world *w)
{
        for (int i = 0; i < 10; i++)
                check(event_base_loop(w->base, EVLOOP_NONBLOCK) >= 0);
}

void world_pass_ms(struct world *w, unsigned ms)
{
        /* Lines that are written meanwhile count as logged before. */
        world_turn(w);
        fake_clock_advance_ms(ms);
        world_turn(w);
}

void world_until_state(struct world *w, const char *server, const char *state)
{
        while (strcmp(world_member(w, server, "state"), state) != 0)
                check(event_base_loop(w->base, EVLOOP_ONCE) >= 0);
}

void world_until_tools(struct world *w, const char *server, size_t n)
{
        while (world_tools(w, server) != n)
                check(event_base_loop(w->base, EVLOOP_ONCE) >= 0);
}

void world_until_runs(struct world *w, unsigned n)
{
        while (w->n_runs < n)
                check(event_base_loop(w->base, EVLOOP_ONCE) >= 0);
        world_turn(w);
}

void world_until_log(struct world *w, const char *part)
{
        static char text[64 * 1024];

        for (;;) {
                ssize_t n = pread(w->log_fd, text, sizeof(text) - 1, 0);
                check(n >= 0);
                text[n] = '\0';
                if (strstr(text, part))
                        return;
                check(event_base_loop(w->base, EVLOOP_ONCE) >= 0);
        }
}

static char *text_of(yyjson_val *value)
{
        struct buffer b = BUFFER_INIT(80UL * 1024 * 1024);

        if (!value)
                return NULL;
        check_eq_int(json_append(&b, value), 0);
        char *text = strndup(buffer_bytes(&b), b.length);
        buffer_done(&b);
        return text;
}

/* The text that is sent to the sandbox parses to the same value. */
static void check_text(const struct hub_result *result)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        if (result->outcome != HUB_OK || !result->text)
                return;
        check_ok(json_parse(result->text, result->text_length, &doc, &err));
        check(yyjson_equals(yyjson_doc_get_root(doc), result->result));
}

void world_on_result(void *data, const struct hub_result *result)
{
        struct reply *reply = data;

        check(!reply->done);
        reply->done = true;
        reply->call = NULL;
        reply->outcome = result->outcome;
        snprintf(reply->message, sizeof(reply->message), "%s",
                 result->message ? result->message : "");
        reply->result = text_of(result->result);
        check_text(result);
        reply->rpc_data = text_of(result->rpc_data);
        reply->rpc_code = result->rpc_code;
        reply->duration_us = result->duration_us;
        reply->sent = result->sent;
}

static const struct hub_caller quiet = {.done = world_on_result};

void world_begin(struct world *w, struct reply *reply, const char *server, const char *tool,
                 const char *arguments, uint32_t timeout_ms)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        *reply = (struct reply){};
        check_ok(json_parse(arguments, strlen(arguments), &doc, &err));
        const struct hub_method *method = hub_method_find(tool);
        bool large = strlen(arguments) > RESERVATION_MIN; /* as a session passes them */
        const struct hub_request request = {
                .profile = w->profile,
                .server = server,
                .method = method ? method->name : NULL,
                .tool = method ? NULL : tool,
                .arguments = yyjson_doc_get_root(doc),
                .text = large ? shared_text_new(strdup(arguments), strlen(arguments)) : NULL,
                .timeout_ms = timeout_ms,
                .caller = w->caller ? w->caller : &quiet,
                .data = reply,
        };
        check_ok(hub_call(w->hub, &request, &reply->call, &err));
        reply->text_refs = request.text ? request.text->refs : 0;
        shared_text_unref(request.text);
        check(!reply->done);
}

struct reply *world_call(struct world *w, const char *server, const char *tool,
                         const char *arguments)
{
        struct reply *reply = calloc(1, sizeof(*reply));

        check(reply);
        world_begin(w, reply, server, tool, arguments, 0);
        world_until(w, &reply->done);
        return reply;
}

void world_settle(struct world *w, const char *server)
{
        reply_free(world_call(w, server, "lists", "{}"));
        world_turn(w);
}

struct reply *reply_free(struct reply *reply)
{
        free(reply->result);
        free(reply->rpc_data);
        free(reply);
        return NULL;
}

static yyjson_val *find_server(yyjson_doc *doc, const char *name)
{
        yyjson_val *list = yyjson_obj_get(yyjson_doc_get_root(doc), "servers"), *server;
        size_t i, n;

        yyjson_arr_foreach (list, i, n, server) {
                if (yyjson_equals_str(yyjson_obj_get(server, "name"), name))
                        return server;
        }
        return NULL;
}

static yyjson_doc *catalogue(struct world *w)
{
        const struct buffer *b = hub_catalogue(w->hub, w->profile, NULL);
        yyjson_doc *doc = NULL;
        struct error err = {};

        check_ok(json_parse(buffer_bytes(b), b->length, &doc, &err));
        return doc;
}

const char *world_member(struct world *w, const char *server, const char *member)
{
        static char *text;

        free(text);
        text = NULL;
        if (!w)
                return NULL;
        _cleanup_json_ yyjson_doc *doc = catalogue(w);
        yyjson_val *value = yyjson_obj_get(find_server(doc, server), member);
        text = yyjson_is_str(value) ? strdup(yyjson_get_str(value)) : text_of(value);
        return text ? text : "";
}

size_t world_tools(struct world *w, const char *server)
{
        _cleanup_json_ yyjson_doc *doc = catalogue(w);

        return yyjson_arr_size(yyjson_obj_get(find_server(doc, server), "tools"));
}

const char *world_log(struct world *w)
{
        static char text[1024 * 1024];
        ssize_t n = pread(w->log_fd, text, sizeof(text) - 1, 0);

        check(n >= 0);
        text[n] = '\0';
        check_eq_int(ftruncate(w->log_fd, 0), 0);
        check_eq_int(lseek(w->log_fd, 0, SEEK_SET), 0);
        return text;
}
