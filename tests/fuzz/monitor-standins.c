#include "tests/fuzz/monitor-standins.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/monitor/image/image-job.h"
#include "supervisor/monitor/image/image-reader.h"
#include "supervisor/monitor/monitor-inject.h"
#include "supervisor/monitor/monitor-journal.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-pictures.h"
#include "supervisor/monitor/template-files.h"
#include "supervisor/monitor/template/network-check.h"
#include "supervisor/monitor/template/sandbox-copy.h"
#include "supervisor/monitor/template/sandbox.h"
#include "supervisor/monitor/template/template.h"
#include "supervisor/monitor/upstream/upstream.h"

enum { THINGS_MAX = 256 };

/* ---- what a stand-in gives out: the first is the oldest ---- */

struct things {
        void *items[THINGS_MAX];
        size_t n;
};

static struct things templates, readers, jobs, checks, servers, started;
static size_t n_sandboxes;

static void add_thing(struct things *list, void *thing)
{
        assert(thing && list->n < THINGS_MAX);
        list->items[list->n++] = thing;
}

static void remove_thing(struct things *list, const void *thing)
{
        for (size_t i = 0; i < list->n; i++) {
                if (list->items[i] != thing)
                        continue;
                memmove(&list->items[i], &list->items[i + 1],
                        (list->n - i - 1) * sizeof(list->items[0]));
                list->n--;
                return;
        }
}

static void *first(const struct things *list)
{
        return list->n > 0 ? list->items[0] : NULL;
}

/* ---- sandboxes ---- */

struct sandbox {
        const struct sandbox_host *host;
        uint32_t handle, serial;
};

int sandbox_new(const struct sandbox_host *host, uint32_t handle, uint32_t id, uint32_t request,
                uint32_t principal, const struct limits *limits, struct sandbox **ret,
                struct error *err)
{
        struct sandbox *s = calloc(1, sizeof(*s));

        assert(s && ++n_sandboxes <= STANDIN_SESSIONS_MAX);
        *s = (struct sandbox){host, handle, request};
        *ret = s;
        return 0;
}

struct sandbox *sandbox_free(struct sandbox *s)
{
        if (s) {
                remove_thing(&started, s);
                n_sandboxes--;
        }
        free(s);
        return NULL;
}

uint32_t sandbox_handle(const struct sandbox *s)
{
        return s->handle;
}

uint32_t sandbox_principal(const struct sandbox *s)
{
        return 0;
}

bool sandbox_is_up(const struct sandbox *s)
{
        return true;
}

uint64_t sandbox_memory_now(const struct sandbox *s)
{
        return 0;
}

uint32_t sandbox_serial(const struct sandbox *s)
{
        return s->serial;
}

pid_t sandbox_pid(const struct sandbox *s)
{
        return getpid();
}

void sandbox_set_listener(struct sandbox *s, int listener)
{
        if (listener >= 0)
                close(listener);
}

int sandbox_take_listener(struct sandbox *s)
{
        return -1;
}

int sandbox_open_outer(struct sandbox *s, int fds[SESSION_FDS], struct error *err)
{
        for (int i = 0; i < SESSION_FDS; i++) {
                fds[i] = eventfd(0, EFD_CLOEXEC);
                assert(fds[i] >= 0);
        }
        add_thing(&started, s);
        return 0;
}

const struct sandbox_memory *sandbox_memory(const struct sandbox *s)
{
        return NULL;
}

void sandbox_kill_for_memory(struct sandbox *s, enum monitor_limit limit)
{
        abort();
}

void sandbox_kill(struct sandbox *s)
{
        assert(s->handle > 0);
}

bool sandbox_is_out_of_memory(const struct sandbox *s)
{
        return false;
}

int sandbox_keep(struct sandbox *s, pid_t pid, bool is_aside, const pid_t instead[INIT_INSTEAD_MAX],
                 uint32_t serial)
{
        if (s->handle % 2 == 0)
                return -ESRCH;
        s->host->kept(s->host->data, s, serial, pid % 2 ? 0 : -ESRCH);
        return 0;
}

int sandbox_drop(struct sandbox *s, pid_t pid)
{
        return s->handle % 2 ? 0 : -ESRCH;
}

int sandbox_restore(struct sandbox *s, pid_t pid)
{
        return s->handle % 2 ? 0 : -EPIPE;
}

int sandbox_ask_init(struct sandbox *s, enum init_verb verb, pid_t pid)
{
        if (s->handle % 2 == 0)
                return -EPIPE;
        if (verb == INIT_COUNT)
                s->host->counted(s->host->data, s,
                                 &(struct monitor_counted){.last_pid = s->handle});
        if (verb == INIT_SWEEP)
                s->host->swept(s->host->data, s);
        return 0;
}

bool sandbox_is_copy(const struct sandbox *s, pid_t pid)
{
        return pid % 2 != 0;
}

int sandbox_freeze(struct sandbox *s, bool frozen)
{
        return s->handle % 2 ? 0 : -EOPNOTSUPP;
}

int sandbox_rest(struct sandbox *s, uint32_t ms)
{
        if (s->handle % 3 == 0)
                return -EPIPE;
        s->host->stopped(s->host->data, s, ms);
        return 0;
}

int sandbox_hold(struct sandbox *s, uint32_t number)
{
        if (s->handle % 3 == 0)
                return -EPIPE;
        if (number > 0)
                s->host->held(s->host->data, s, number, s->handle % 2 != 0);
        return 0;
}

void standin_end_session(void)
{
        const struct monitor_ended how = {.wait_status = 9};
        struct sandbox *s = first(&started);

        if (s)
                s->host->ended(s->host->data, s, &how);
}

/* ---- templates ---- */

struct template
{
        const struct template_host *host;
        struct things line;
        bool may_be_replaced;
};

void template_files_init(struct template_files *files)
{
}

void template_files_done(struct template_files *files)
{
}

int template_files_open(struct template_files *files, struct error *err)
{
        return 0;
}

int template_files_filter(struct template_files *files, enum filter_kind kind, struct error *err)
{
        return STDERR_FILENO;
}

int template_files_get(struct template_files *files, const struct config_profile *settings,
                       struct template_parts *parts, struct error *err)
{
        return 0;
}

int template_start(const struct template_host *host, const struct template_parts *parts,
                   struct template **ret, struct error *err)
{
        *ret = calloc(1, sizeof(struct template));
        add_thing(&templates, *ret);
        (*ret)->host = host;
        return 0;
}

bool template_may_be_replaced(const struct template *t)
{
        return t->may_be_replaced;
}

void template_kill(const struct template *t)
{
        assert(t->host);
}

struct template *template_free(struct template *t)
{
        remove_thing(&templates, t);
        free(t);
        return NULL;
}

int template_make(struct template *t, struct sandbox *sandbox, const struct limits *limits,
                  bool rlimits, struct error *err)
{
        add_thing(&t->line, sandbox);
        return 0;
}

void standin_make(const struct error *error)
{
        for (size_t i = 0; i < templates.n; i++) {
                struct template *t = templates.items[i];
                struct sandbox *sandbox = first(&t->line);
                if (!sandbox)
                        continue;
                const struct template_host *host = t->host;
                remove_thing(&t->line, sandbox);
                host->made(host->data, sandbox, error);
                host->has_room(host->data);
                return;
        }
}

void standin_end_template(int code)
{
        struct error passed_on = {.code = code, .text = "ended"}, error = {.code = EPIPE};
        struct template *t = first(&templates);

        if (!t)
                return;
        t->may_be_replaced = code == ESTALE;
        while (t->line.n > 0) {
                struct sandbox *sandbox = first(&t->line);
                remove_thing(&t->line, sandbox);
                t->host->made(t->host->data, sandbox, &passed_on);
        }
        t->host->ended(t->host->data, &error);
}

/* ---- images and networks ---- */

struct image_reader {
        image_reader_done *done;
        void *data;
};

int image_reader_start(struct child_tasks *tasks, const struct image_choice *choice,
                       const struct upstream_user *user, image_reader_done *done, void *data,
                       struct image_reader **ret, struct error *err)
{
        *ret = calloc(1, sizeof(struct image_reader));
        add_thing(&readers, *ret);
        **ret = (struct image_reader){done, data};
        return 0;
}

struct image_reader *image_reader_cancel(struct image_reader *reader)
{
        remove_thing(&readers, reader);
        free(reader);
        return NULL;
}

int image_read(const struct image_choice *choice, const struct upstream_user *user,
               struct image_found *found, struct error *err)
{
        return -ENOTSUP;
}

void standin_end_read(int code)
{
        struct error error = {.code = code, .text = "read"};
        struct image_found found = {.name = "default-0", .root = -1, .packages = -1};
        struct image_reader *reader = first(&readers);

        if (!reader)
                return;
        remove_thing(&readers, reader);
        reader->done(reader->data, code ? &error : NULL, &found);
        free(reader);
}

struct image_job {
        void (*done)(void *data, const struct error *error);
        void (*told)(void *data, const char *line);
        void *data;
};

int image_job_start(struct event_base *base, struct children *children, struct cgroups *cgroups,
                    const char *program, const struct image_choice *choice,
                    const struct upstream_user *user, bool quiet,
                    void (*done)(void *data, const struct error *error),
                    void (*told)(void *data, const char *line), void *data, struct image_job **ret,
                    struct error *err)
{
        *ret = calloc(1, sizeof(struct image_job));
        add_thing(&jobs, *ret);
        **ret = (struct image_job){done, told, data};
        return 0;
}

struct image_job *image_job_free(struct image_job *job)
{
        remove_thing(&jobs, job);
        free(job);
        return NULL;
}

void standin_end_build(int code)
{
        struct error error = {.code = code, .text = "build"};
        struct image_job *job = first(&jobs);

        if (job)
                job->done(job->data, code ? &error : NULL);
}

struct network_check {
        network_check_done *done;
        void *data;
};

int network_check_start(struct child_tasks *tasks, pid_t pid, enum config_network network,
                        network_check_done *done, void *data, struct network_check **ret,
                        struct error *err)
{
        *ret = calloc(1, sizeof(struct network_check));
        add_thing(&checks, *ret);
        **ret = (struct network_check){done, data};
        return 0;
}

struct network_check *network_check_cancel(struct network_check *check)
{
        remove_thing(&checks, check);
        free(check);
        return NULL;
}

void standin_end_check(int code)
{
        struct error error = {.code = code, .text = "network"};
        struct network_check *check = first(&checks);

        if (!check)
                return;
        remove_thing(&checks, check);
        check->done(check->data, code ? &error : NULL, -1);
        free(check);
}

/* ---- servers ---- */

struct upstream {
        int exec, end; /* eventfds */
        int code;
};

int upstream_start(const struct config_server *server, const struct upstream_user *user,
                   int passed_fd, struct upstream **ret, int fds[3], struct error *err)
{
        struct upstream *u = calloc(1, sizeof(*u));

        add_thing(&servers, u);
        u->exec = eventfd(0, EFD_CLOEXEC);
        u->end = eventfd(0, EFD_CLOEXEC);
        for (int i = 0; i < 3; i++)
                fds[i] = eventfd(0, EFD_CLOEXEC);
        *ret = u;
        return 0;
}

int upstream_exec_fd(const struct upstream *u)
{
        return u->exec;
}

int upstream_exec_result(struct upstream *u, struct error *err)
{
        return u->code ? error_set(err, u->code, "exec") : 0;
}

pid_t upstream_pid(const struct upstream *u)
{
        return INT_MAX;
}

int upstream_pidfd(const struct upstream *u)
{
        return u->end;
}

void upstream_release(struct upstream *u)
{
}

void upstream_stop(struct upstream *u)
{
        assert(u->end >= 0);
}

void upstream_kill(struct upstream *u)
{
        assert(u->end >= 0);
}

int upstream_reap(struct upstream *u)
{
        return 0;
}

struct upstream *upstream_free(struct upstream *u)
{
        if (u) {
                remove_thing(&servers, u);
                close(u->exec);
                close(u->end);
        }
        free(u);
        return NULL;
}

void standin_signal_server(bool end, int code)
{
        struct upstream *u = first(&servers);

        if (!u)
                return;
        u->code = code;
        eventfd_write(end ? u->end : u->exec, 1);
}

void standin_end_servers(void)
{
        while (servers.n > 0)
                upstream_free(first(&servers));
}

/* The process that checks pictures. */

void monitor_pictures_start(struct monitor *m, const struct monitor_request *request)
{
        struct error error = {};

        error_set(&error, EIO, "no process");
        monitor_send_failed(m, request->serial, &error);
}

void monitor_pictures_done(struct monitor *m)
{
}

/* The processes that have secrets: the config has none with "to". */

int monitor_inject_start(struct monitor *m, uint32_t profile, int values,
                         monitor_inject_ended_fn *ended, int *control, struct error *err)
{
        return error_set(err, ENOSYS, "cloister-inject");
}

void monitor_inject_done(struct monitor *m)
{
}

/* The process that has the journal's key. */

void monitor_journal_start(struct monitor *m, const struct monitor_request *request)
{
        monitor_pictures_start(m, request);
}

void monitor_journal_done(struct monitor *m)
{
}

void standin_check_none(void)
{
        assert(templates.n == 0 && readers.n == 0 && jobs.n == 0 && checks.n == 0);
        assert(n_sandboxes == 0);
}
