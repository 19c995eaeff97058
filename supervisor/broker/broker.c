/*
 * The process of the broker.
 *
 * Theory of operation. The broker reads its arguments and the monitor's HELLO with the config files
 * (as descriptors), then isolates itself, and only then parses the files, makes its parts and runs
 * the loop until the mode, a signal or the monitor ends it. It cleans up nothing outside itself:
 * the monitor and the kernel end sandboxes and servers. As PID 1 of its namespace it gets only
 * signals that it handles, so they are blocked until the loop handles them.
 */
#include "supervisor/broker/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "policy/config/add.h"
#include "policy/config/ask-keys.h"
#include "policy/config/rule-keys.h"
#include "policy/config/rule-test-keys.h"
#include "policy/config/server.h"
#include "supervisor/broker/control-methods.h"
#include "supervisor/broker/inject.h"
#include "supervisor/broker/isolate.h"
#include "supervisor/broker/journal-start.h"
#include "supervisor/broker/secrets.h"
#include "supervisor/hub/cache/cache.h"
#include "supervisor/service/event.h"
#include "supervisor/service/liveness.h"
#include "supervisor/session/sessions-owner.h"
#include "supervisor/trust/questions/approval.h"
#include "supervisor/trust/records/journal.h"
#include "supervisor/trust/url.h"

enum { LONG_TURN_US = 5000, TRIM_S = 5, FREE_MEMORY_MAX = 16 << 20 };

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};
static_assert(ARRAY_SIZE(ending_signals) == ARRAY_SIZE(((struct broker *)0)->signals), "one each");

int broker_ask_monitor(struct broker *broker, enum monitor_verb verb, uint32_t number)
{
        const struct monitor_request request = {.verb = verb, .number = number};

        return link_request(broker->link, &request, NULL);
}

void broker_end(struct broker *broker, int status)
{
        broker->status = status;
        event_base_loopbreak(broker->base);
}

static int ask_network(void *data, uint32_t target, const struct network_fds *fds,
                       struct error *err)
{
        struct broker *broker = data;

        return network_open(broker->network, target, fds, err);
}

static int take_seat(void *data, const char *profile, const struct inject_user *user,
                     struct inject_seat **ret, struct error *err)
{
        struct broker *broker = data;

        return injects_seat(broker->injects, profile, user, ret, err);
}

static void on_inject_lost(void *data, const char *profile)
{
        struct broker *broker = data;

        if (broker->sessions)
                sessions_inject_lost(broker->sessions, profile);
}

static void on_network_lost(void *data)
{
        struct broker *broker = data;

        if (broker->sessions)
                sessions_network_lost(broker->sessions);
}

/* ---- config files: their bytes are read first, and parsed after the isolation ---- */

struct config_text {
        char *data;
        size_t n;
};

static void free_texts(struct config_text *texts, size_t n)
{
        for (size_t i = 0; i < n; i++)
                free(take_ptr(texts[i].data));
}

/* Reads n files into n texts and closes the descriptors in any case. */
static int read_config(const struct link_config_file *files, size_t n, struct config_text *texts,
                       struct error *err)
{
        int r = 0;

        for (size_t i = 0; i < n; i++) {
                if (r >= 0)
                        r = fd_read_whole(files[i].fd, CONFIG_FILE_SIZE_MAX, &texts[i].data,
                                          &texts[i].n, err);
                if (r < 0)
                        error_context(err, "%s", files[i].path);
                close(files[i].fd);
        }
        if (r < 0)
                free_texts(texts, n);
        return r;
}

DEFINE_CLEANUP(struct config *, config_free)

static int add_config(struct config *config, const struct link_config_file *file,
                      const struct config_text *text, struct error *err)
{
        enum config_layer layer = file->code == 0 ? CONFIG_LAYER_USER
                                                  : file->code - CONFIG_TARGET_LAYER;

        if (file->code > 0 && file->code < CONFIG_TARGET_LAYER)
                return config_set_code(config, file->code - 1, text->data, text->n, err);
        if (layer >= CONFIG_LAYERS)
                return error_set(err, EPROTO, "%s: no such layer of the config", file->path);
        return config_add_layer(config, layer, file->path, text->data, text->n, err);
}

/* Parses them into one config; frees the texts in any case. */
static int parse_config(const struct options *options, const struct link_config_file *files,
                        struct config_text *texts, size_t n, struct config **ret, struct error *err)
{
        _cleanup_(cleanup_config_free) struct config *config = config_new();
        int r = config ? 0 : error_errno(err, ENOMEM, "config");

        for (size_t i = 0; i < n && r >= 0; i++)
                r = add_config(config, &files[i], &texts[i], err);
        free_texts(texts, n);
        for (size_t i = 0; config && i < config->n_servers; i++)
                config_server_mask(&config->servers[i]);
        if (r >= 0)
                r = config_finish(config, err);
        if (r >= 0 && options->language)
                config_set_language(config, options->profile,
                                    (enum language)language_parse(options->language));
        if (r >= 0)
                *ret = take_ptr(config);
        return r;
}

/* Only a server that knows who sends a request has pages for questions. A running one continues without them. */
static int check_ask_pages(const struct broker *broker, struct config *config, struct error *err)
{
        const struct options *options = &broker->options;
        bool is_start = config == broker->config;

        if (!config_has_ask_page(config) ||
            (options->mode == MODE_SERVE && options->tokens_fd >= 0))
                return 0;
        if (options->mode == MODE_SERVE && is_start)
                return error_set(
                        err, EINVAL,
                        "ask.page: a page must know whose question it shows: --tokens FILE is needed (see 'cloister serve --help')");
        if (options->mode == MODE_SERVE)
                log_error("ask.page: there is no page for questions: it needs --tokens FILE");
        else
                log_write(
                        options->mode == MODE_MCP && is_start ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO,
                        "ask.page: there is no page for questions: only 'cloister serve' has one");
        config_drop_ask_pages(config);
        return 0;
}

/* ---- events of the monitor ---- */

static void to_sessions(struct broker *broker, const struct monitor_message *message)
{
        const struct monitor_event *event = &message->event;

        if (message->asked.verb == MONITOR_SESSION_CREATE)
                broker->no_sandbox = event->kind == MONITOR_FAILED &&
                                     event->error.code == MONITOR_CODE_NO_SANDBOX;
        if (event->kind == MONITOR_SESSION_ENDED)
                network_forget(broker->network, event->target);
        int r = sessions_event(broker->sessions, message);
        if (r < 0 && event->kind == MONITOR_SESSION_STARTED)
                link_request(broker->link,
                             &(struct monitor_request){.verb = MONITOR_SESSION_KILL,
                                                       .target = event->target},
                             NULL);
        else if (r < 0)
                log_debug("%s %u: no session has it", monitor_event_name(event->kind),
                          event->target);
}

static void to_servers(struct broker *broker, const struct monitor_message *message)
{
        const struct monitor_event *event = &message->event;
        uint32_t index = message->asked.target;

        if (event->kind == MONITOR_UPSTREAM_ENDED)
                hub_upstream_ended(broker->hub, event->target, event->wait_status);
        else if (event->kind == MONITOR_UPSTREAM_STARTED)
                hub_upstream_started(broker->hub, index, event->target, message->fds);
        else if (message->asked.verb == MONITOR_UPSTREAM_START)
                hub_upstream_failed(broker->hub, index, &event->error);
}

static void to_network(struct broker *broker, const struct monitor_message *message)
{
        network_listener(broker->network, message->event.target, message->fds[0]);
}

/* `cloister serve` only: what its service manager and its owner ask for. */
static void to_service(struct broker *broker, const struct monitor_message *message)
{
        const struct monitor_event *event = &message->event;

        if (event->kind == MONITOR_SERVICE_HANGUP)
                reload_begin(broker->reload, NULL);
        else if (message->asked.verb == MONITOR_SERVICE_RELOAD)
                reload_read(broker->reload, event->kind == MONITOR_FAILED ? &event->error : NULL);
}

static void to_broker(struct broker *broker, const struct monitor_message *message)
{
        if (message->event.kind == MONITOR_LOG_ERRORS) {
                log_add_errors(message->event.lines);
                return;
        }
        if (message->event.kind == MONITOR_CONFIG_REFUSED) {
                struct error error = message->event.error;
                error_sanitize(&error);
                reload_refused(&error);
                return;
        }
        if (message->asked.verb == MONITOR_PING) {
                liveness_answered();
                return;
        }
        if (message->event.kind != MONITOR_LIMITS) {
                to_service(broker, message);
                return;
        }
        broker->hello.usage = message->event.target;
        sessions_set_usage(broker->sessions, (enum monitor_usage)message->event.target);
}

static void to_pictures(struct broker *broker, const struct monitor_message *message)
{
        pictures_started(broker->pictures,
                         message->event.kind == MONITOR_PICTURES_STARTED ? message->fds[0] : -1);
}

static void to_journal(struct broker *broker, const struct monitor_message *message)
{
        journal_take_start(message);
}

/* The allocator keeps memory that was freed. malloc_trim() returns the pages to the kernel. */
static void on_trim(evutil_socket_t fd, short what, void *data)
{
        if (mallinfo2().fordblks > FREE_MEMORY_MAX)
                malloc_trim(0);
}

static void on_log_wait(evutil_socket_t fd, short what, void *data)
{
        log_flush();
}

static void write_log_later(void *data)
{
        const struct broker *broker = data;
        const struct timeval in = clock_timeval_ms(LOG_WAIT_MS);

        if (!evtimer_pending(broker->log_wait, NULL))
                evtimer_add(broker->log_wait, &in);
}

static void to_secrets(struct broker *broker, const struct monitor_message *message)
{
        uint32_t index = message->event.target;

        if (index < broker->config->n_profiles && message->event.kind == MONITOR_INJECT_STARTED)
                injects_take(broker->injects, broker->config->profiles[index].name,
                             message->fds[0]);
        else if (index < broker->config->n_profiles)
                broker_secrets_take(broker->secrets, broker->config->profiles[index].name,
                                    message->fds[0]);
        else
                close(message->fds[0]);
}

static void on_event(void *data, const struct monitor_message *message)
{
        static const struct timeval later = {.tv_sec = TRIM_S};
        struct broker *broker = data;
        static void (*const owners[])(struct broker *, const struct monitor_message *) = {
                [MONITOR_FOR_SESSIONS] = to_sessions, [MONITOR_FOR_SERVERS] = to_servers,
                [MONITOR_FOR_NETWORK] = to_network,   [MONITOR_FOR_BROKER] = to_broker,
                [MONITOR_FOR_PICTURES] = to_pictures, [MONITOR_FOR_SECRETS] = to_secrets,
                [MONITOR_FOR_JOURNAL] = to_journal,
        };
        static_assert(ARRAY_SIZE(owners) == MONITOR_OWNER_MAX, "the link keeps what is its own");

        owners[monitor_message_owner(message)](broker, message);
        /* Each session that ends, and each copy after a cell, is an event. */
        if (!evtimer_pending(broker->trim, NULL))
                evtimer_add(broker->trim, &later);
}

static int on_owner_asked(void *data, struct client_ask *ask, struct error *err)
{
        struct broker *broker = data;

        if (!broker->mode->ask)
                return error_set(err, EOPNOTSUPP, "there is no client that could be asked");
        return broker->mode->ask(broker, ask, err);
}

static void on_page_done(void *data, const char *server, const char *principal, const char *id,
                         size_t n)
{
        struct broker *broker = data;

        if (broker->mode->page_done)
                broker->mode->page_done(broker, server, principal, id, n);
}

/* The exit status of `run` tells this from an exception of the code. */
static int status_of_failure(const struct broker *broker)
{
        return broker->options.mode == MODE_RUN ? EXIT_CLOISTER : 1;
}

static void on_link_closed(void *data, const struct error *error)
{
        log_error("%s", error_is_set(error) ? error->text : "the monitor closed the link");
        journal_abandon();
        broker_end(data, status_of_failure(data));
}

static bool is_page_served(const void *config, const char *address)
{
        return config_is_ask_page(config, address);
}

/* The monitor has accepted the same bytes, so an error here is not expected: the broker ends. */
static void on_reloaded(void *data, const struct monitor_hello *hello,
                        const struct link_config_file *files, size_t n)
{
        static struct config_text texts[CONFIG_SNAPSHOT_MAX];
        struct broker *broker = data;
        struct config *config = NULL;
        struct error err = {};

        int r = read_config(files, n, texts, &err);
        if (r >= 0)
                r = parse_config(&broker->options, files, texts, n, &config, &err);
        if (r >= 0)
                r = check_ask_pages(broker, config, &err);
        if (r >= 0)
                r = hub_reload(broker->hub, config, &err);
        if (r < 0) {
                log_error("the new config: %s", err.text);
                config_free(config);
                broker_end(broker, 1);
                return;
        }
        log_set_level((enum log_level)hello->log_level);
        reload_note(broker->reload, broker->config, config);
        sessions_reload(broker->sessions, config, hello);
        if (broker->mode->config_changed && broker->data)
                broker->mode->config_changed(broker, config);
        config_free(broker->config);
        broker->config = config;
        approvals_close_pages(approvals_of_process(), config, is_page_served);
        injects_reload(broker->injects, config);
        if (journal_use(config, broker->base, broker->link, &err) < 0)
                log_error("the new config: %s", err.text);
        event_set_code(config->log_code);
        event_reload(&(struct event_reload){"config", true, ""});
}

static int ask_monitor(void *data, const struct monitor_request *request, uint32_t *serial)
{
        struct broker *broker = data;

        return link_request(broker->link, request, serial);
}

static int ask_pictures_start(void *data)
{
        return ask_monitor(data, &(struct monitor_request){.verb = MONITOR_PICTURES_START}, NULL);
}

static void ask_upstream_start(void *data, uint32_t index)
{
        ask_monitor(data,
                    &(struct monitor_request){.verb = MONITOR_UPSTREAM_START, .target = index},
                    NULL);
}

static void ask_upstream_stop(void *data, uint32_t instance)
{
        ask_monitor(data,
                    &(struct monitor_request){.verb = MONITOR_UPSTREAM_STOP, .target = instance},
                    NULL);
}

static void on_catalogue_changed(void *data)
{
        struct broker *broker = data;

        if (broker->sessions)
                sessions_catalogue_changed(broker->sessions);
        if (broker->mode->catalogue_changed && broker->data)
                broker->mode->catalogue_changed(broker);
}

static void tell_stop(const struct broker *broker)
{
        struct sessions_count count = {};

        if (broker->sessions)
                sessions_count(broker->sessions, &count);
        event_drain(&(struct event_drain){
                .phase = "stop", .sessions = count.live, .why = "the server got SIGTERM"});
}

static void on_signal(evutil_socket_t number, short what, void *data)
{
        struct broker *broker = data;
        enum mode mode = broker->options.mode;

        if (number == SIGHUP && broker->mode->drain) {
                if (broker->reload)
                        reload_begin(broker->reload, NULL);
                return;
        }
        bool drains = number == SIGTERM && broker->mode->terminated && broker->data;
        if (number == SIGTERM && !drains)
                tell_stop(broker);
        if (number == SIGINT && broker->mode->interrupted)
                broker->mode->interrupted(broker);
        else if (drains)
                broker->mode->terminated(broker);
        else
                broker_end(broker, mode == MODE_MCP || mode == MODE_SERVE ? 0 : 128 + (int)number);
}

static sigset_t ending_set(void)
{
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ARRAY_SIZE(ending_signals); i++)
                sigaddset(&set, ending_signals[i]);
        return set;
}

static int take_signals(struct broker *broker, struct error *err)
{
        const sigset_t set = ending_set();

        for (size_t i = 0; i < ARRAY_SIZE(ending_signals); i++) {
                broker->signals[i] = evsignal_new(broker->base, ending_signals[i], on_signal,
                                                  broker);
                if (!broker->signals[i] || event_add(broker->signals[i], NULL) < 0)
                        return error_set(err, ENOMEM, "signals");
        }
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        return 0;
}

static int isolate(struct broker *broker, struct error *err)
{
        const struct options *o = &broker->options;
        struct isolation isolation = {
                .filter_fd = o->filter_fd,
                .state_path = o->state_path,
                .has_uid = o->uid >= 0,
                .uid = (uid_t)o->uid,
                .has_http = o->has_http,
        };
        int *keep = isolation.keep;

        static_assert(ARRAY_SIZE(isolation.keep) == OPTION_FDS_MAX + 3 + 2 * EGRESS_PROCESSES_MAX,
                      "all of them have a place");
        memset(keep, -1, sizeof(isolation.keep));
        keep += options_fds(o, PROGRAM_BROKER, keep);
        *keep++ = o->control_fd;
        *keep++ = o->log_fd;
        *keep++ = broker->statm_fd;
        for (size_t i = 0; i < EGRESS_PROCESSES_MAX; i++) {
                *keep++ = broker->egress[i].socket;
                *keep++ = broker->egress[i].end;
        }
        int cache = -1, r = broker_isolate(&isolation, &broker->state_dir, &cache, err);
        if (r >= 0 && cache >= 0)
                hub_cache_use_writer(cache);
        else if (r >= 0)
                fd_close_many(&broker->state_dir, 1);
        return r < 0 ? error_context(err, "isolate the broker") : 0;
}

/* Before anything of the config is read. Without it, sessions have no network, and requests fail with an error. */
static void start_egress(struct broker *broker)
{
        const struct isolation isolation = {.filter_fd = broker->options.egress_filter_fd,
                                            .has_uid = broker->options.uid >= 0,
                                            .uid = (uid_t)broker->options.uid};
        struct error error = {};

        if (isolation.filter_fd < 0)
                return;
        if (egress_processes_start(&isolation, broker->options.log_fd, broker->egress,
                                   &broker->n_egress, &error) < 0)
                log_error("%s", error.text);
        close(isolation.filter_fd);
}

/* Everything before the loop: the monitor's messages, the isolation, the config. */
static int prepare(struct broker *broker, struct error *err)
{
        static struct link_config_file files[CONFIG_SNAPSHOT_MAX];
        static struct config_text texts[CONFIG_SNAPSHOT_MAX];
        size_t n = 0;

        start_egress(broker);
        int r = link_hello(MONITOR_FD, &broker->hello, files, &n, err);
        if (r >= 0)
                r = read_config(files, n, texts, err);
        /* There is no /proc after the isolation. */
        if (r >= 0 && broker->options.mode == MODE_SERVE)
                broker->statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
        if (r >= 0)
                r = isolate(broker, err);
        if (r < 0)
                broker->status = EXIT_NO_SANDBOX;
        if (r >= 0)
                r = parse_config(&broker->options, files, texts, n, &broker->config, err);
        if (r >= 0)
                r = check_ask_pages(broker, broker->config, err);
        if (r >= 0)
                r = config_check_rule_tests(broker->config, trust_read_url, err);
        if (r >= 0)
                event_set_code(broker->config->log_code);
        return r;
}

static void start_no_server(void *data, const struct config_profile *profile,
                            enum tool_servers which)
{
}

/* ---- reloads and drains ---- */

static void check_tokens(void *data)
{
        struct broker *broker = data;

        if (broker->mode->check_tokens)
                broker->mode->check_tokens(broker);
        else
                reload_checked(broker->reload, NULL);
}

static int read_again(void *data)
{
        return broker_ask_monitor(data, MONITOR_SERVICE_RELOAD, 0);
}

static void take_tokens(void *data, bool use)
{
        struct broker *broker = data;

        if (broker->mode->take_tokens)
                broker->mode->take_tokens(broker, use);
}

static void on_reload_end(void *data)
{
        broker_ask_monitor(data, MONITOR_SERVICE_RELOADED, 0);
}

static const struct reload_actions reload_actions = {check_tokens, read_again, take_tokens,
                                                     on_reload_end};

static void reload(void *data, struct reload_waiter *waiter)
{
        reload_begin(((struct broker *)data)->reload, waiter);
}

static void forget_reload(void *data, struct reload_waiter *waiter)
{
        reload_forget(((struct broker *)data)->reload, waiter);
}

static int drain(void *data, uint64_t deadline_ms, struct error *err)
{
        struct broker *broker = data;

        return broker->mode->drain(broker, deadline_ms, err);
}

static int undo_drain(void *data, struct error *err)
{
        struct broker *broker = data;

        return broker->mode->undo_drain(broker, err);
}

static int make_control(struct broker *broker, struct error *err)
{
        const struct options *o = &broker->options;

        broker->service = (struct control_service){broker, reload, forget_reload, drain,
                                                   undo_drain};
        const struct control_context context = {
                .base = broker->base,
                .sessions = broker->sessions,
                .network = broker->network,
                .hub = broker->hub,
                .mode = options_mode_name(o->mode),
                .service = broker->mode->drain ? &broker->service : NULL,
        };
        int r = reload_new(&broker->reload, broker->base, &reload_actions, broker, err);
        if (r >= 0 && o->control_fd >= 0)
                r = control_new(&broker->control, o->control_fd, &context, control_methods, err);
        return r;
}

static int make_parts(struct broker *broker, struct error *err)
{
        const struct link_owner owner = {broker, on_event, on_reloaded, on_link_closed};
        broker->base = loop_new();
        if (!broker->base)
                return error_set(err, ENOMEM, "event loop");
        int r = broker_secrets_new(&broker->secrets, broker->base, err);
        if (r < 0)
                return r;
        const struct hub_host hub_host = {broker,
                                          ask_upstream_start,
                                          ask_upstream_stop,
                                          on_catalogue_changed,
                                          on_owner_asked,
                                          on_page_done,
                                          broker_secrets_mask(broker->secrets)};
        r = injects_new(&broker->injects, broker->base, on_inject_lost, broker, err);
        if (r < 0)
                return r;
        const struct inject_requests injects = {take_seat, inject_seat_open,
                                                inject_seat_certificate, inject_seat_leave,
                                                inject_seat_answer};
        const struct sandbox_requests requests = {broker, ask_monitor, ask_network, injects};

        /* malloc_trim() does not take the end of the heap of a thread. */
        mallopt(M_ARENA_MAX, 1);
        broker->trim = evtimer_new(broker->base, on_trim, NULL);
        broker->log_wait = evtimer_new(broker->base, on_log_wait, NULL);
        if (!broker->trim || !broker->log_wait)
                return error_set(err, ENOMEM, "event");
        log_set_later(write_log_later, broker);
        r = take_signals(broker, err);
        if (r >= 0)
                r = link_new(&broker->link, broker->base, MONITOR_FD, broker->hello.generation,
                             &owner, err);
        if (r >= 0)
                r = network_new(&broker->network, broker->base, broker->egress, broker->n_egress,
                                broker->options.egress_filter_fd >= 0,
                                &(struct network_owner){broker, on_network_lost}, err);
        if (r >= 0)
                r = hub_new(&broker->hub, broker->base, broker->config, broker->state_dir,
                            &hub_host, err);
        broker->tool_parts = (struct tool_parts){broker->hub, broker->secrets};
        struct tool_provider tools = tool_parts_provider(&broker->tool_parts);
        if (broker->options.no_tools)
                tools.start = start_no_server;
        if (r >= 0)
                r = sessions_new(&broker->sessions, broker->base, broker->config, &broker->hello,
                                 &tools, &requests, err);
        if (r >= 0)
                r = pictures_new(&broker->pictures, broker->base, ask_pictures_start, broker, err);
        const struct picture_provider pictures = pictures_provider(broker->pictures);
        if (r >= 0)
                sessions_set_pictures(broker->sessions, &pictures);
        if (r >= 0)
                r = journal_use(broker->config, broker->base, broker->link, err);
        if (r >= 0)
                r = make_control(broker, err);
        return r < 0 ? r : broker->mode->start(broker, err);
}

static void broker_done(struct broker *broker)
{
        log_set_later(NULL, NULL);
        broker->sessions = sessions_free(broker->sessions);
        journal_finish();
        broker->control = control_free(broker->control);
        reload_free(broker->reload);
        network_free(broker->network);
        pictures_free(broker->pictures);
        if (broker->mode)
                broker->mode->free(broker);
        hub_free(broker->hub);
        hub_cache_finish();
        broker_secrets_free(broker->secrets);
        injects_free(broker->injects);
        link_free(broker->link);
        for (size_t i = 0; i < ARRAY_SIZE(broker->signals); i++) {
                if (broker->signals[i])
                        event_free(broker->signals[i]);
        }
        if (broker->trim)
                event_free(broker->trim);
        if (broker->log_wait)
                event_free(broker->log_wait);
        if (broker->base)
                event_base_free(broker->base);
        config_free(broker->config);
        if (broker->state_dir >= 0)
                close(broker->state_dir);
        if (broker->statm_fd >= 0)
                close(broker->statm_fd);
}

static uint64_t processor_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Runs the loop. At level debug, a turn that takes long is logged: it delays all clients. */
static int run_loop(struct broker *broker)
{
        uint64_t before = processor_us();
        int r;

        if (log_get_level() < LOG_LEVEL_DEBUG)
                return loop_run(broker->base);
        while ((r = loop_turn(broker->base)) > 0) {
                uint64_t now = processor_us();
                if (now - before >= LONG_TURN_US)
                        log_debug("a turn of the loop took %llu us of processor time",
                                  (unsigned long long)(now - before));
                before = now;
        }
        return r;
}

static int take_options(const struct broker_mode *const *modes, char *const *argv,
                        struct options *o, struct error *err)
{
        options_init(o);
        o->code_name = "<code>";
        o->mode = options_mode(argv[0]);
        if (o->mode >= MODE_MAX || !modes[o->mode])
                return error_set(err, EINVAL, "broker: mcp, serve, run or tools is needed");
        if (options_parse(argv + 1, PROGRAM_BROKER, o, err) < 0)
                return error_context(err, "broker");
        if (o->mode == MODE_RUN && o->code_fd < 0)
                return error_set(err, EINVAL, "broker: run needs --code-fd");
        if (o->mode == MODE_SERVE && o->n_listen_fds == 0 && o->helper_fd < 0)
                return error_set(err, EINVAL, "broker: serve needs --listen-fd");
        return 0;
}

static int run(struct broker *broker, const struct broker_mode *const *modes, char *const *argv,
               struct error *err)
{
        const struct options *o = &broker->options;
        int r = take_options(modes, argv, &broker->options, err);

        if (r < 0)
                return r;
        if (o->log_level >= 0)
                log_set_level((enum log_level)o->log_level);
        log_to(o->log_fd < 0 ? STDERR_FILENO : o->log_fd,
               o->log_format < 0 ? LOG_FORMAT_TEXT : (enum log_format)o->log_format);
        broker->mode = modes[o->mode];
        r = prepare(broker, err);
        if (r >= 0)
                r = make_parts(broker, err);
        if (r < 0)
                return r;
        r = run_loop(broker);
        broker->mode->stop(broker);
        return r < 0 ? error_set(err, EIO, "the broker cannot run without its event loop") : 0;
}

int broker_main(const struct broker_mode *const modes[MODE_MAX], int argc, char **argv)
{
        struct broker broker = {.state_dir = -1,
                                .statm_fd = -1,
                                .egress = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}}};
        const sigset_t held = ending_set();
        struct error err = {};

        sigprocmask(SIG_BLOCK, &held, NULL);
        signal(SIGPIPE, SIG_IGN);
        if (run(&broker, modes, argv + (argc > 0), &err) < 0) {
                log_error("%s", err.text);
                broker.status = broker.status ? broker.status : status_of_failure(&broker);
        }
        broker_done(&broker);
        return broker.status;
}
