/* Installations of packages for sessions. */
#include "supervisor/session/calls/install.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/share.h"
#include "base/utf8.h"
#include "policy/package-set.h"
#include "rpc/frame.h"
#include "rpc/lines.h"
#include "supervisor/session/cell/session-name.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/machine/principal.h"
#include "supervisor/session/machine/queue.h"

enum {
        NAMED_MAX = 100, /* requirements of one installation */
        HAVE_MAX = 4000, /* packages that the session has */
        ANSWER_MAX = 256 * 1024,
        AGAIN_MS = 300,  /* while the maximum number of installations runs */
        GRACE_MS = 5000, /* the installer itself ends in time */
        MESSAGE_MAX = 600,
};

struct install {
        struct session *session;
        uint64_t number; /* of the QUERY */
        uint64_t cell;   /* whose time stands still; 0: none */
        uint32_t serial; /* of the request to the monitor; 0: there is none */
        uint32_t instance;
        struct buffer request; /* what the installer is sent */
        struct lines answer;
        int fds[3];
        struct event *writable, *readable, *again, *deadline;
};

static const struct install *running[PACKAGES_INSTALLERS_MAX]; /* NULL: free */

/* Several principals share the places: an index can keep an installation from ending. Returns whether it has one. */
static bool take_place(const struct install *i)
{
        const char *key = i->session->name;
        const struct install **place = NULL;
        size_t n = 0, n_own = 0;

        for (size_t k = 0; k < ARRAY_SIZE(running); k++) {
                if (running[k] == i)
                        return true;
                if (!running[k])
                        place = &running[k];
                n += running[k] != NULL;
                n_own += running[k] && session_key_is_beside(running[k]->session->name, key);
        }
        if (!place ||
            (session_key_name(key) != key && !share_allows(n_own, n, ARRAY_SIZE(running), 1)))
                return false;
        *place = i;
        return true;
}

static struct cell *cell_of(const struct install *i)
{
        struct cell *cell = session_current(i->session);

        return cell && i->cell == cell->number ? cell : NULL;
}

static void install_free(struct install *i)
{
        const struct sandbox_requests *requests;

        if (!i)
                return;
        requests = &i->session->context->requests;
        for (size_t k = 0; k < ARRAY_SIZE(running); k++)
                if (running[k] == i)
                        running[k] = NULL;
        loop_event_free(&i->writable);
        loop_event_free(&i->readable);
        loop_event_free(&i->again);
        loop_event_free(&i->deadline);
        if (i->instance)
                sandbox_request(requests, MONITOR_UPSTREAM_STOP, i->instance, 0);
        fd_close_many(i->fds, ARRAY_SIZE(i->fds));
        buffer_done(&i->request);
        lines_done(&i->answer);
        free(i);
}

/* Ends the installation: the cell's time continues. */
static void end(struct session *session)
{
        struct install *i = session->installs->now;
        struct cell *cell = cell_of(i);

        session->installs->now = NULL;
        if (cell) {
                cell_tell_step(cell, "packages", "");
                cell_release(cell);
        }
        install_free(i);
}

static void fail(struct session *session, const char *why)
{
        uint64_t number = session->installs->now->number;

        end(session);
        answer_refuse(&session->channel, number, why);
        channel_resume(&session->channel);
}

static void succeed(struct session *session, const char *line, size_t n)
{
        answer_result(&session->channel, session->installs->now->number, line, n);
        end(session);
        channel_resume(&session->channel);
}

static void show_progress(struct install *i, yyjson_val *text)
{
        struct cell *cell = cell_of(i);

        const struct log_ids ids = session_log_ids(i->session, cell);
        log_event(LOG_LEVEL_DEBUG, &ids, "packages: %s", yyjson_get_str(text));
        if (cell)
                cell_tell_step(cell, "packages", yyjson_get_str(text));
}

/* Returns whether more lines may follow. */
static bool take_line(struct session *session, const char *line, size_t n)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        char why[MESSAGE_MAX];

        if (json_parse(line, n, &doc, NULL) < 0) {
                fail(session, "the installer's answer is not valid");
                return false;
        }
        yyjson_val *root = yyjson_doc_get_root(doc), *said = yyjson_obj_get(root, "progress");
        const char *error = json_string(root, "error", NULL);
        if (yyjson_is_str(said)) {
                show_progress(session->installs->now, said);
                return true;
        }
        if (error) {
                snprintf(why, sizeof(why), "%s", error);
                utf8_trim(why);
                fail(session, why);
        } else if (yyjson_is_str(yyjson_obj_get(root, "set"))) {
                succeed(session, line, n);
        } else {
                fail(session, "the installer's answer is not valid");
        }
        return false;
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct install *i = data;
        struct session *session = i->session;
        const char *line;
        size_t length;
        int r;

        ssize_t n = lines_read(&i->answer, fd);
        if (n == -EAGAIN)
                return;
        while (n > 0 && (r = lines_next(&i->answer, &line, &length)) != 0) {
                if (r < 0)
                        fail(session, "the installer's answer is too long");
                if (r < 0 || !take_line(session, line, length))
                        return;
        }
        if (n <= 0)
                fail(session, "the installer ended without an answer: the log may say why");
}

static void on_writable(evutil_socket_t fd, short what, void *data)
{
        struct install *i = data;
        int r = buffer_write_fd(&i->request, fd);

        if (r == 0)
                return;
        /* Its end is what it waits for, or it is broken: then its output ends too. */
        event_del(i->writable);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct install *i = data;

        fail(i->session,
             "the packages were not installed in time (packages.timeout in the config)");
}

/* Returns 0, or an error that is the answer. */
static int ask_monitor(struct install *i, struct error *err)
{
        const struct session_context *context = i->session->context;
        const struct sandbox_requests *requests = &context->requests;

        if (!take_place(i)) {
                struct timeval again = clock_timeval_ms(AGAIN_MS);
                evtimer_add(i->again, &again);
                return 0;
        }
        int profile = config_find_profile(context->config, i->session->profile->name, err);
        if (profile < 0)
                return profile;
        const struct session_principal *own = i->session->principal;
        const struct monitor_principal principal = principal_sums(own->all, own);
        int r = sandbox_request_new(requests, MONITOR_INSTALLER_START, (size_t)profile, &principal,
                                    &i->serial);
        return r < 0 ? error_errno(err, -r, "start the installer") : 0;
}

static void on_again(evutil_socket_t fd, short what, void *data)
{
        struct install *i = data;
        struct error error = {};

        if (ask_monitor(i, &error) < 0)
                fail(i->session, error.text);
}

bool install_failed(struct session *session, uint32_t serial, const struct error *error)
{
        struct install *i = session->installs->now;
        struct timeval again = clock_timeval_ms(AGAIN_MS);

        if (!i || i->serial != serial)
                return false;
        i->serial = 0;
        if (error->code == EAGAIN || error->code == ESTALE)
                evtimer_add(i->again, &again);
        else
                fail(session, error->text);
        return true;
}

bool install_started(struct session *session, uint32_t serial, uint32_t instance, const int fds[3])
{
        struct install *i = session->installs->now;
        struct event_base *base = session->context->base;

        if (!i || i->serial != serial)
                return false;
        i->serial = 0;
        i->instance = instance;
        memcpy(i->fds, fds, sizeof(i->fds));
        fd_set_nonblocking(fds[0], 1);
        fd_set_nonblocking(fds[1], 1);
        /* Its standard error is not read. */
        fd_close_many(&i->fds[2], 1);
        i->writable = event_new(base, fds[0], EV_WRITE | EV_PERSIST, on_writable, i);
        i->readable = event_new(base, fds[1], EV_READ | EV_PERSIST, on_readable, i);
        if (!i->writable || !i->readable || event_add(i->writable, NULL) < 0 ||
            event_add(i->readable, NULL) < 0)
                fail(session, "out of memory");
        return true;
}

static int copy_texts(struct json_out *out, yyjson_val *query, const char *key, size_t most)
{
        yyjson_val *list = yyjson_obj_get(query, key), *one;
        size_t i, n;

        if (!yyjson_is_arr(list) || yyjson_arr_size(list) > most)
                return -EBADMSG;
        json_out_begin(out, key, '[');
        yyjson_arr_foreach (list, i, n, one) {
                if (!yyjson_is_str(one))
                        return -EBADMSG;
                json_out_string(out, NULL, yyjson_get_str(one), yyjson_get_len(one));
        }
        json_out_end(out, ']');
        return 0;
}

/* The installer checks all of it again: this keeps one line one line. */
static int write_request(struct install *i, yyjson_val *query)
{
        static const char *const texts[] = {"python", "platform"};
        struct json_out out = {.to = &i->request};

        json_out_begin(&out, NULL, '{');
        int r = copy_texts(&out, query, "requirements", NAMED_MAX);
        if (r >= 0)
                r = copy_texts(&out, query, "have", HAVE_MAX);
        for (size_t k = 0; k < ARRAY_SIZE(texts) && r >= 0; k++) {
                yyjson_val *value = yyjson_obj_get(query, texts[k]);
                if (!yyjson_is_str(value))
                        return -EBADMSG;
                json_out_string(&out, texts[k], yyjson_get_str(value), yyjson_get_len(value));
        }
        json_out_end(&out, '}');
        if (r >= 0)
                r = out.error;
        return r < 0 ? r : buffer_append(&i->request, "\n", 1);
}

/* Why a session may have nothing installed, or "". */
static void refusal(const struct session *session, yyjson_val *query, char why[MESSAGE_MAX])
{
        const struct config_profile *profile = session->rights;

        why[0] = '\0';
        if (!profile || !profile->packages.install)
                snprintf(
                        why, MESSAGE_MAX,
                        "nothing can be installed here: packages.install of profile \"%s\" is \"never\" in the config",
                        profile ? profile->name : "default");
        else if (session->installs->now)
                snprintf(why, MESSAGE_MAX, "another installation is running in this session");
        else if (session->installs->n >= INSTALLS_MAX)
                snprintf(why, MESSAGE_MAX,
                         "this session has asked for packages %d times already: reset it",
                         INSTALLS_MAX);
        else if (yyjson_arr_size(yyjson_obj_get(query, "requirements")) > NAMED_MAX)
                snprintf(why, MESSAGE_MAX, "at most %d packages can be named at once", NAMED_MAX);
}

static int install_new(struct session *session, uint64_t number, struct install **ret)
{
        struct event_base *base = session->context->base;
        struct install *i = calloc(1, sizeof(*i));

        if (!i)
                return -ENOMEM;
        *i = (struct install){.session = session,
                              .number = number,
                              .request = BUFFER_INIT(2 * FRAME_SMALL_MAX),
                              .fds = {-1, -1, -1}};
        lines_init(&i->answer, ANSWER_MAX);
        i->again = evtimer_new(base, on_again, i);
        i->deadline = evtimer_new(base, on_deadline, i);
        if (!i->again || !i->deadline) {
                install_free(i);
                return -ENOMEM;
        }
        *ret = i;
        return 0;
}

int install_begin(struct session *session, uint64_t number, yyjson_val *query, struct error *err)
{
        struct error error = {};
        char why[MESSAGE_MAX];
        struct install *i;

        refusal(session, query, why);
        if (*why) {
                answer_refuse(&session->channel, number, why);
                return 0;
        }
        int r = install_new(session, number, &i);
        if (r < 0)
                return error_errno(err, -r, "install");
        r = write_request(i, query);
        if (r < 0) {
                install_free(i);
                return error_set(err, -r, "QUERY to install without a list of packages");
        }
        session->installs->n++;
        session->installs->now = i;
        struct cell *cell = session_current(session);
        struct timeval deadline = clock_timeval_ms(session->profile->packages.timeout_ms +
                                                   GRACE_MS);
        evtimer_add(i->deadline, &deadline);
        if (cell) {
                i->cell = cell->number;
                cell_hold(cell);
        }
        if (ask_monitor(i, &error) < 0) {
                end(session);
                answer_refuse(&session->channel, number, error.text);
        }
        return 0;
}

void install_drop(struct session *session, uint64_t number)
{
        if (session->installs->now && session->installs->now->number == number)
                end(session);
}

void install_drop_all(struct session *session)
{
        install_free(take_ptr(session->installs->now));
}
