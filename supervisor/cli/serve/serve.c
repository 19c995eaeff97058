/* The commands that other executables carry out: mcp, serve and tools (monitor, broker), doctor, login and logout (oauth), bench. */
#include "supervisor/cli/serve/serve.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/json.h"
#include "base/program.h"
#include "supervisor/cli/command/monitor-command.h"
#include "supervisor/cli/command/process.h"
#include "supervisor/cli/serve/serve-helper.h"

/* ---- --attest ---- */

enum { REPORT_MAX = 4 * 1024 * 1024, NAMES_MAX = 300 };

static void exec_doctor(const void *options, int output)
{
        struct monitor_command command;
        struct error error = {};

        if (monitor_command_init(&command, options, &error) >= 0) {
                command.options.attack = command.options.json = true;
                int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
                if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0)
                        monitor_command_exec(&command, PROGRAM_DOCTOR, NULL, &error);
        }
        fprintf(stderr, "cloister: %s\n", error.text);
        _exit(127);
}

/* "group: item" of the first rows with this verdict. */
static void name_rows(yyjson_val *report, const char *verdict, struct buffer *to)
{
        yyjson_arr_iter rows = yyjson_arr_iter_with(yyjson_obj_get(report, "rows"));
        yyjson_val *row;

        while ((row = yyjson_arr_iter_next(&rows))) {
                const char *found = json_string(row, "verdict", NULL);
                const char *group = json_string(row, "group", NULL);
                const char *item = json_string(row, "item", NULL);
                if (!found || strcmp(found, verdict) != 0 || !group || !item)
                        continue;
                if (buffer_printf(to, "%s%s: %s", to->length > 0 ? ", " : "", group, item) < 0)
                        break; /* enough */
        }
}

static int judge_report(yyjson_val *report, bool failed, struct error *err)
{
        _cleanup_buffer_ struct buffer names = BUFFER_INIT(NAMES_MAX);
        int64_t open = 0, known = 0;

        json_int64(yyjson_obj_get(report, "open"), &open);
        json_int64(yyjson_obj_get(report, "known"), &known);
        name_rows(report, failed ? "open" : "known", &names);
        const char *text = names.length > 0 ? buffer_bytes(&names) : "";
        int n = (int)names.length;
        if (failed)
                return error_set(
                        err, EPERM,
                        "--attest: not serving, because %lld attacks succeed (%.*s); see 'cloister doctor --attack'",
                        (long long)open, n, text);
        if (known == 0)
                return 0;
        if (!yyjson_get_bool(yyjson_obj_get(report, "known_are_allowed")))
                return error_set(
                        err, EPERM,
                        "--attest: not serving, because the processor's speculation is shared (%.*s): set \"speculation\" in the config to \"disabled\", or to \"shared\" to serve like this",
                        n, text);
        fprintf(stderr,
                "cloister: --attest: not mitigated, as \"speculation\": \"shared\" in the config allows: %.*s\n",
                n, text);
        return 0;
}

static int judge(const char *text, size_t n, int status, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;

        /* The doctor has said on standard error why there is no report. */
        if (json_parse(text, n, &doc, NULL) < 0)
                return error_set(
                        err, EPERM,
                        "--attest: not serving, because no sandbox could be attacked (see 'cloister doctor --attack')");
        return judge_report(yyjson_doc_get_root(doc), status != 0, err);
}

/* The report says which table is served (--as): its tools are what a client of this server sees. */
static int name_table(const char *table, char **text, size_t *n, struct error *err)
{
        _cleanup_buffer_ struct buffer whole = BUFFER_INIT(2 * REPORT_MAX);
        struct json_out out = {.to = &whole};
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *name;

        int r = json_parse(*text, *n, &doc, err);
        if (r < 0)
                return r;
        yyjson_obj_iter members = yyjson_obj_iter_with(yyjson_doc_get_root(doc));
        json_out_begin(&out, NULL, '{');
        while ((name = yyjson_obj_iter_next(&members))) {
                json_out_key(&out, yyjson_get_str(name), yyjson_get_len(name));
                json_out_value(&out, NULL, yyjson_obj_iter_get_val(name));
        }
        json_out_text(&out, "table", table);
        json_out_end(&out, '}');
        char *named = out.error == 0 ? strndup(buffer_bytes(&whole), whole.length) : NULL;
        if (!named)
                return error_errno(err, out.error ? -out.error : ENOMEM, "--attest");
        free(*text);
        *text = named;
        *n = whole.length;
        return 0;
}

/* Has the doctor attack a sandbox before anything is served. Returns a sealed memfd with the report of
 * `cloister doctor --attack --json`; the caller owns it. If anything is open, it is an error that names it; *status is
 * then the exit status, 1 or EXIT_NO_SANDBOX. */
static int attest_run(const struct options *options, int *status, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t n = 0;

        *status = 1;
        int r = process_read(exec_doctor, options, "--attest", REPORT_MAX, &text, &n, err);
        int wait_status = r;
        if (r >= 0 && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == EXIT_NO_SANDBOX)
                *status = EXIT_NO_SANDBOX;
        if (r >= 0)
                r = judge(text, n, wait_status, err);
        if (r >= 0 && options->as)
                r = name_table(options->as, &text, &n, err);
        return r < 0 ? r : fd_sealed("attestation", text, n, err);
}

int cli_bench(const struct options *o, const char *const *words, size_t n)
{
        static const char *const pythons[] = {"python3", "/usr/bin/python3"};
        char script[PATH_MAX + 32], self[PATH_MAX];
        const char *arguments[OPTION_WORDS_MAX + 12] = {"python3", "-I", script, "--cloister",
                                                        self};
        size_t count = 5;
        struct error error = {};
        ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

        if (program_path("bench/run.py", script, sizeof(script), &error) < 0)
                return cli_fail(1, &error);
        self[length > 0 ? length : 0] = '\0';
        if (o->json)
                arguments[count++] = "--json";
        if (o->quick)
                arguments[count++] = "--quick";
        if (o->rounds) {
                arguments[count++] = "--rounds";
                arguments[count++] = o->rounds;
        }
        arguments[count++] = "--";
        assert(n <= OPTION_WORDS_MAX);
        for (size_t i = 0; i < n; i++)
                arguments[count++] = words[i];
        if (n == 0)
                arguments[count++] = "here";
        for (size_t i = 0; i < ARRAY_SIZE(pythons); i++)
                execvp(pythons[i], (char *const *)arguments);
        error_errno(&error, errno, "bench needs a python3 in PATH: install one");
        return cli_fail(1, &error);
}

/* ---- the sockets of serve ---- */

enum { BACKLOG = 1024, FIRST_PASSED = 3 };

struct listener {
        int fd;         /* owned; not blocking */
        bool is_unix;   /* the kernel tells who connects */
        bool guarded;   /* only this machine reaches it (TCP), or it is a unix socket */
        char text[160]; /* where it listens: "http://127.0.0.1:8808" */
};

/* Enough for all kinds. */
union address {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
};

static bool is_loopback(const union address *a)
{
        if (a->any.sa_family == AF_INET)
                return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
        return a->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static int describe(struct listener *l, struct error *err)
{
        char host[64], port[16];
        union address a = {};
        socklen_t n = sizeof(a);

        if (getsockname(l->fd, &a.any, &n) < 0)
                return error_errno(err, errno, "listen");
        if (a.any.sa_family == AF_UNIX) {
                l->guarded = l->is_unix = true;
                snprintf(l->text, sizeof(l->text), "unix:%.*s", (int)sizeof(a.local.sun_path),
                         a.local.sun_path);
                return 0;
        }
        if (getnameinfo(&a.any, n, host, sizeof(host), port, sizeof(port),
                        NI_NUMERICHOST | NI_NUMERICSERV) != 0)
                return error_set(err, EAFNOSUPPORT, "listen: neither an IP nor a unix socket");
        bool v6 = a.any.sa_family == AF_INET6;
        l->guarded = is_loopback(&a);
        snprintf(l->text, sizeof(l->text), "http://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "",
                 port);
        return 0;
}

/* Removes a socket file that a server has left. */
static void remove_stale(const struct sockaddr_un *address)
{
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct stat st;

        if (fd >= 0 && lstat(address->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
            connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
            errno == ECONNREFUSED)
                unlink(address->sun_path);
}

static int open_unix(const char *path, struct error *err)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        if (path[0] != '/' || strlen(path) >= sizeof(address.sun_path))
                return error_set(err, EINVAL,
                                 "an absolute path of at most %zu characters is needed",
                                 sizeof(address.sun_path) - 1);
        memcpy(address.sun_path, path, strlen(path) + 1);
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_errno(err, errno, "socket");
        remove_stale(&address);
        mode_t mask = umask(0177);
        int r = bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
        umask(mask);
        return r < 0 ? error_errno(err, -r, "bind") : take_fd(fd);
}

/* TCP_NODELAY is inherited by connections. */
static int open_tcp(const char *spec, struct error *err)
{
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
        struct addrinfo *found = NULL;
        const char *colon = strrchr(spec, ':'), *begin = spec + (*spec == '[');
        const int on = 1;
        char host[256];

        if (!colon || colon == spec || !colon[1] ||
            strspn(colon + 1, "0123456789") != strlen(colon + 1) || atoi(colon + 1) > 65535)
                return error_set(err, EINVAL, "HOST:PORT or unix:PATH is needed");
        snprintf(host, sizeof(host), "%.*s", (int)(colon - begin - (*spec == '[')), begin);
        int code = getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, colon + 1,
                               &hints, &found);
        if (code != 0)
                return error_set(err, EINVAL, "%s", gai_strerror(code));
        _cleanup_close_ int fd = socket(found->ai_family,
                                        SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0)
                setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (fd >= 0)
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        int r = fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) < 0 ? -errno : 0;
        freeaddrinfo(found);
        if (r == -EADDRINUSE)
                return error_set(
                        err, EADDRINUSE,
                        "the port is in use: end the program that has it, or choose another");
        return r < 0 ? error_errno(err, -r, "bind") : take_fd(fd);
}

/* option: for the error. spec: "HOST:PORT", with port 0 for any, or "unix:PATH". A socket file has mode 0600; one without
 * a listener is replaced. Returns 0 or negative errno. */
static int listen_open(const char *option, const char *spec, struct listener *ret,
                       struct error *err)
{
        bool local = strncmp(spec, "unix:", 5) == 0;
        _cleanup_close_ int fd = local ? open_unix(spec + 5, err) : open_tcp(spec, err);

        int r = fd < 0 ? fd : 0;
        if (r >= 0 && listen(fd, BACKLOG) < 0)
                r = error_errno(err, errno, "listen");
        *ret = (struct listener){.fd = fd};
        if (r >= 0)
                r = describe(ret, err);
        if (r < 0)
                return error_context(err, "%s %s", option, spec);
        ret->fd = take_fd(fd);
        return 0;
}

static int take_one(int fd, struct listener *ret, struct error *err)
{
        int listening = 0;
        socklen_t n = sizeof(listening);

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) < 0 || !listening)
                return error_set(err, EINVAL,
                                 "descriptor %d of LISTEN_FDS is not a listening socket", fd);
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        *ret = (struct listener){.fd = fd};
        return describe(ret, err);
}

/* Takes the sockets that systemd passes (sd_listen_fds(3)). Returns how many, 0 for none. */
static int listen_inherit(struct listener ret[OPTION_LISTEN_MAX], struct error *err)
{
        const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
        int n = fds && pid && atol(pid) == (long)getpid() && atoi(fds) > 0 ? atoi(fds) : 0;

        unsetenv("LISTEN_PID");
        unsetenv("LISTEN_FDS");
        unsetenv("LISTEN_FDNAMES");
        if (n > OPTION_LISTEN_MAX)
                return error_set(err, E2BIG, "at most %d sockets are taken of LISTEN_FDS",
                                 OPTION_LISTEN_MAX);
        for (int i = 0; i < n; i++) {
                int r = take_one(FIRST_PASSED + i, &ret[i], err);
                if (r < 0)
                        return r;
        }
        return n;
}

/* ---- serve: opens the sockets and the file of tokens, which the broker cannot ---- */

struct listeners {
        struct listener all[OPTION_LISTEN_MAX];
        size_t n;
        struct listener admin;
        bool passed; /* by systemd */
};

static int open_listeners(const struct options *o, struct listeners *l, struct error *err)
{
        int r = 0;

        for (size_t i = 0; i < o->n_listen && r >= 0; i++) {
                r = listen_open("--listen", o->listen[i], &l->all[l->n], err);
                l->n += r >= 0;
        }
        if (o->n_listen == 0) {
                r = listen_inherit(l->all, err);
                l->n = r > 0 ? (size_t)r : 0;
                l->passed = l->n > 0;
        }
        if (r >= 0 && l->n == 0) {
                r = listen_open("--listen", LISTEN_DEFAULT, &l->all[0], err);
                l->n = r >= 0;
        }
        for (size_t i = 0; i < l->n && r >= 0; i++) {
                if (!l->all[i].guarded && !o->tokens)
                        r = error_set(
                                err, EPERM,
                                "%s can be reached by others: --tokens FILE is needed (see 'cloister serve --help')",
                                l->all[i].text);
        }
        return r;
}

/* Without tokens, every program that can connect to the address gets what it serves. */
static int open_admin(struct options *o, struct listener *ret, struct error *err)
{
        int r = listen_open("--admin", o->admin, ret, err);

        if (r < 0)
                return r;
        if (!ret->guarded && !o->tokens)
                return error_set(
                        err, EPERM,
                        "--admin %s can be reached by others: use 127.0.0.1:PORT or unix:PATH, or --tokens FILE with a token that has role=metrics",
                        o->admin);
        o->admin_view = ret->is_unix;
        return 0;
}

/* The descriptors that the broker gets; -1: none. The first ones listen. */
enum { TOKENS = OPTION_LISTEN_MAX, HELPER, ATTESTATION, ADMIN, FDS };

/* Tokens name the clients. Without tokens, clients of unix sockets are distinguished by their uids, and all
 * other clients share one name. */
static int start_helper(const struct options *o, struct listeners *l, int fds[FDS],
                        struct error *err)
{
        int local[OPTION_LISTEN_MAX];
        struct serve_helper work = {.listeners = local};
        _cleanup_free_ char *path = NULL;

        for (size_t i = 0; i < l->n; i++) {
                if (l->all[i].is_unix && !o->tokens)
                        local[work.n_listeners++] = l->all[i].fd;
                else
                        fds[i] = l->all[i].fd;
        }
        if (o->tokens && monitor_command_absolute(o->tokens, &path, err) < 0)
                return error_context(err, "--tokens");
        work.tokens = path;
        if (!work.tokens && work.n_listeners == 0)
                return 0;
        fds[HELPER] = serve_helper_start(&work, err);
        return fds[HELPER] < 0 ? fds[HELPER] : 0;
}

static int pass_fds(struct options *o, int fds[FDS], struct error *err)
{
        for (size_t i = 0; i < FDS; i++) {
                if (fds[i] < 0)
                        continue;
                fds[i] = monitor_command_fd(fds[i], err);
                if (fds[i] < 0)
                        return fds[i];
                if (i < OPTION_LISTEN_MAX)
                        o->listen_fds[o->n_listen_fds++] = fds[i];
        }
        o->tokens_fd = fds[TOKENS];
        o->helper_fd = fds[HELPER];
        o->attestation_fd = fds[ATTESTATION];
        o->admin_fd = fds[ADMIN];
        return 0;
}

/* As they are in the headers Host and Origin: what can match nothing is refused. */
static int check_names(const struct options *o, struct error *err)
{
        for (size_t i = 0; i < o->n_hosts; i++) {
                const char *host = o->hosts[i];
                if (!*host || strpbrk(host, "/*@, ") || (*host != '[' && strchr(host, ':')) ||
                    (*host == '[' && host[strlen(host) - 1] != ']'))
                        return error_set(
                                err, EINVAL,
                                "--allow-host %s: a name or an address is needed, without https:// and port: mcp.example.org or [2001:db8::1]",
                                host);
        }
        for (size_t i = 0; i < o->n_origins; i++) {
                const char *host = strstr(o->origins[i], "://");
                if (!host || host == o->origins[i] || !host[3] || strpbrk(host + 3, "/*@, "))
                        return error_set(
                                err, EINVAL,
                                "--allow-origin %s: SCHEME://HOST or SCHEME://HOST:PORT is needed, without a path: https://app.example.org",
                                o->origins[i]);
        }
        return 0;
}

/* Code gets variables of the owner's environment: no other user may run code then. */
static int check_private(const struct options *o, const struct listeners *l, int *status,
                         struct error *err)
{
        bool shared = o->tokens || o->n_listen == 0;

        for (size_t i = 0; i < l->n; i++)
                shared |= !l->all[i].is_unix;
        if (!o->private_variables || !shared)
                return 0;
        *status = 2;
        return error_set(
                err, EPERM,
                "variables of your environment are passed to code only where no other user can call it: use 'cloister mcp', or --listen unix:PATH without --tokens");
}

static int open_all(struct options *o, struct listeners *l, int fds[FDS], int *status,
                    struct error *err)
{
        int r = check_names(o, err);

        for (size_t i = 0; i < FDS; i++)
                fds[i] = -1;
        if (r >= 0 && o->tokens)
                r = fds[TOKENS] = serve_tokens_open(o->tokens, err);
        if (r >= 0 && o->attest)
                r = fds[ATTESTATION] = attest_run(o, status, err);
        if (r >= 0)
                r = open_listeners(o, l, err);
        if (r >= 0 && o->admin)
                r = open_admin(o, &l->admin, err);
        if (r >= 0 && o->admin)
                fds[ADMIN] = l->admin.fd;
        if (r >= 0)
                r = check_private(o, l, status, err);
        return r < 0 ? r : start_helper(o, l, fds, err);
}

/* The broker prints them once it serves: a config or a file of tokens may still be refused. */
static int name_addresses(const struct options *o, const struct listeners *l, char **ret,
                          struct error *err)
{
        size_t size;
        FILE *text = open_memstream(ret, &size);

        if (!text)
                return error_errno(err, errno, "names of addresses");
        if (o->admin)
                fprintf(text, "cloister: serving metrics at %s%s\n", l->admin.text,
                        l->admin.is_unix ? "" : "/metrics");
        for (size_t i = 0; i < l->n; i++)
                fprintf(text, "cloister: serving MCP at %s%s\n", l->all[i].text,
                        l->all[i].is_unix ? "" : "/mcp");
        return fclose(text) != 0 ? error_errno(err, errno, "names of addresses") : 0;
}

int cli_serve(const struct options *o, const char *const *words, size_t n)
{
        int fds[FDS], status = 1;
        struct monitor_command command;
        struct listeners listeners = {};
        struct options own = *o;
        _cleanup_free_ char *serving = NULL;
        struct error error = {};
        sigset_t hangup;

        /* It reloads a server that runs, and must not end one that starts: the monitor unblocks it. */
        sigemptyset(&hangup);
        sigaddset(&hangup, SIGHUP);
        sigprocmask(SIG_BLOCK, &hangup, NULL);
        if (open_all(&own, &listeners, fds, &status, &error) < 0)
                return cli_fail(status, &error);
        if (monitor_command_init(&command, &own, &error) < 0)
                return cli_fail(1, &error);
        if (pass_fds(&command.options, fds, &error) < 0)
                return cli_fail(1, &error);
        command.options.passed = listeners.passed;
        if (name_addresses(&own, &listeners, &serving, &error) < 0)
                return cli_fail(1, &error);
        command.options.serving = serving;
        monitor_command_exec(&command, PROGRAM_MONITOR, "serve", &error);
        monitor_command_done(&command);
        return cli_fail(1, &error);
}

/* ---- the other commands ---- */

static int log_in_or_out(const char *verb, const struct options *o, const char *const *words,
                         size_t n)
{
        struct monitor_command command;
        struct error error = {};

        if (n == 0)
                return cli_fail_text(2, "%s needs the NAME of a server (see 'cloister tools')",
                                     verb);
        if (monitor_command_init(&command, o, &error) < 0)
                return cli_fail(1, &error);
        command.options.name = words[0];
        monitor_command_exec(&command, PROGRAM_OAUTH, verb, &error);
        monitor_command_done(&command);
        return cli_fail(1, &error);
}

int cli_login(const struct options *o, const char *const *words, size_t n)
{
        return log_in_or_out("login", o, words, n);
}

int cli_logout(const struct options *o, const char *const *words, size_t n)
{
        return log_in_or_out("logout", o, words, n);
}

int cli_mcp(const struct options *o, const char *const *words, size_t n)
{
        struct options own = *o;
        struct error error = {};
        int status = 1;

        if (o->attest) {
                own.attestation_fd = monitor_command_fd(attest_run(o, &status, &error), &error);
                if (own.attestation_fd < 0)
                        return cli_fail(status, &error);
        }
        return monitor_command_leave(&own, PROGRAM_MONITOR, "mcp", 1);
}

int cli_tools(const struct options *o, const char *const *words, size_t n)
{
        return monitor_command_leave(o, PROGRAM_MONITOR, "tools", 1);
}

int cli_doctor(const struct options *o, const char *const *words, size_t n)
{
        const char *only = cli_option_given(
                o, CLI_OPTIONS(CLI_PROFILE, CLI_IMAGE, CLI_PYTHON, CLI_STORE));

        if (only && !o->attack)
                return cli_fail_text(2, "%s needs --attack (see 'cloister doctor --help')", only);
        return monitor_command_leave(o, PROGRAM_DOCTOR, NULL, 1);
}
