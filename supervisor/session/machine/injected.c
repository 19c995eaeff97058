/* The secrets with "to" of a session. */
#include "supervisor/session/machine/injected.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/json.h"
#include "policy/config/secret-keys.h"
#include "policy/network-rules.h"
#include "policy/rules/rules.h"
#include "supervisor/secrets/placeholder.h"
#include "supervisor/session/machine/injected-records.h"
#include "supervisor/session/machine/machine.h"

enum { TEXT_MAX = 64 * 1024 };

void injected_init(struct session_injected *injected)
{
        *injected = (struct session_injected){.list = -1};
}

void injected_done(struct session *s)
{
        struct session_injected *injected = &s->network.injected;

        injected_records_done(s);
        if (injected->seat)
                s->context->requests.injects.leave(injected->seat);
        if (injected->list >= 0)
                close(injected->list);
        free(injected->placeholders);
        injected_init(injected);
}

void injected_inherit(struct session *to, const struct session *from)
{
        const struct inject_request *given = from->network.injected.placeholders;

        free(to->inherited_placeholders);
        to->inherited_placeholders = given ? malloc(sizeof(*given)) : NULL;
        if (to->inherited_placeholders)
                *to->inherited_placeholders = *given;
}

/* ---- the decision about a request ---- */

static void answer(struct session *s, uint32_t serial, bool is_recorded, const char *why)
{
        const struct injected_answer answer = {serial, why == NULL, is_recorded, why};

        if (s->network.injected.seat)
                s->context->requests.injects.answer(s->network.injected.seat, &answer);
}

static void on_recorded(struct session *s, uint32_t serial, bool is_recorded,
                        const struct error *err)
{
        char why[256];

        if (err)
                snprintf(why, sizeof(why), "got a request that could not be recorded: %.200s",
                         err->text);
        answer(s, serial, is_recorded, err ? why : NULL);
}

/* Returns whether the rules allow it. why: otherwise a clause. place: of the rule that has decided, or "". */
static bool ask_rules(const struct session *s, yyjson_val *arguments, const char *method,
                      char (*place)[256], char (*why)[256])
{
        struct rules_decision decision;

        if (!s->rights || !s->rights->compiled_rules)
                return true;
        const struct rules_call call = {.server = "@network",
                                        .tool = "request",
                                        .arguments = arguments,
                                        .is_network = true,
                                        .is_open = true,
                                        .seen = s->labels.seen};
        rules_decide(s->rights->compiled_rules, &call, &decision);
        if (decision.rule)
                rule_place(decision.rule, *place, sizeof(*place));
        snprintf(*why, sizeof(*why), "got a %.20s that a rule %s: %.150s", method,
                 decision.effect == RULES_ASK ? "asks about, which is a refusal for requests"
                                              : "denies",
                 decision.rule    ? *place
                 : decision.fault ? decision.fault
                                  : "");
        return decision.effect == RULES_ALLOW;
}

static void decide(void *data, const struct injected_request *request)
{
        struct session *s = data;
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(TEXT_MAX);
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct json_out out = {.to = &b};
        char place[256] = "", why[256] = "";

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "host", request->host);
        json_out_int(&out, "port", request->port);
        json_out_text(&out, "method", request->method);
        json_out_text(&out, "path", request->path);
        json_out_end(&out, '}');
        if (out.error < 0 || json_parse(buffer_bytes(&b), b.length, &doc, NULL) < 0) {
                answer(s, request->serial, false, "could not be decided about");
                return;
        }
        bool is_allowed = ask_rules(s, yyjson_doc_get_root(doc), request->method, &place, &why);
        const struct injected_call call = {.serial = request->serial,
                                           .arguments = buffer_bytes(&b),
                                           .n = b.length,
                                           .rule = *place ? place : NULL,
                                           .why = why};
        if (is_allowed) {
                injected_record_call(s, &call, on_recorded);
                return;
        }
        injected_record_denied(s, &call);
        answer(s, request->serial, false, why);
}

static void on_ended(void *data, uint32_t serial, unsigned how, uint64_t bytes)
{
        injected_record_end(data, serial, how, bytes);
}

static void on_lost(void *data)
{
        injected_records_done(data);
}

/* ---- the sandbox begins ---- */

/* The inherited ones hold only where the same secrets exist. */
static int make_placeholders(struct session *s, struct inject_request *to, struct error *err)
{
        const struct config_profile *profile = s->profile;
        const struct inject_request *old = s->inherited_placeholders;
        size_t n = 0;

        snprintf(to->profile, sizeof(to->profile), "%s", profile->name);
        for (size_t i = 0; i < profile->n_secrets; i++) {
                const struct config_secret *secret = &profile->secrets[i];
                if (!secret->to)
                        continue;
                char *text = to->placeholders[n].text;
                snprintf(to->placeholders[n].name, sizeof(to->placeholders[n].name), "%s",
                         secret->name);
                int r = placeholder_make(secret->like, text, INJECT_PLACEHOLDER_SIZE);
                if (r < 0)
                        return error_errno(err, -r, "placeholders");
                for (size_t k = 0; old && k < INJECT_SECRETS_MAX; k++)
                        if (strcmp(old->placeholders[k].name, secret->name) == 0 &&
                            strlen(old->placeholders[k].text) == strlen(text))
                                memcpy(text, old->placeholders[k].text, INJECT_PLACEHOLDER_SIZE);
                n++;
        }
        return 0;
}

static int make_list(struct session *s, struct error *err)
{
        const struct session_injected *injected = &s->network.injected;
        _cleanup_free_ struct inject_list *list = calloc(1, sizeof(*list));
        char *const *inspected = s->profile->egress.inspect;
        size_t n = 0, m = 0;

        if (!list)
                return error_errno(err, ENOMEM, "hosts of secrets");
        for (size_t i = 0; i < s->profile->n_secrets; i++)
                for (char *const *to = s->profile->secrets[i].to; to && *to; to++)
                        if (n < sizeof(list->hosts))
                                n += (size_t)snprintf(list->hosts + n, sizeof(list->hosts) - n,
                                                      "%s\n", *to);
        /* Of an inspected host, nothing may pass without TLS. */
        for (; inspected && *inspected && n < sizeof(list->hosts); inspected++)
                n += (size_t)snprintf(list->hosts + n, sizeof(list->hosts) - n, "%s\n%.*s:%d\n",
                                      *inspected, (int)(strrchr(*inspected, ':') - *inspected),
                                      *inspected, NETWORK_PORT_HTTP);
        for (size_t i = 0; i < INJECT_SECRETS_MAX && *injected->placeholders->placeholders[i].name;
             i++)
                m += (size_t)snprintf(list->placeholders + m, sizeof(list->placeholders) - m,
                                      "%s\n", injected->placeholders->placeholders[i].text);
        if (n >= sizeof(list->hosts))
                return error_errno(err, E2BIG, "hosts of secrets");
        return fd_sealed("hosts", list, sizeof(*list), err);
}

int injected_open(struct session *s, struct error *err)
{
        struct session_injected *injected = &s->network.injected;
        const struct inject_requests *injects = &s->context->requests.injects;
        const struct inject_user user = {s, decide, on_ended, on_lost};

        injected_init(injected);
        if (!config_has_injected(s->profile) || !injects->take)
                return 0;
        injected->placeholders = calloc(1, sizeof(*injected->placeholders));
        if (!injected->placeholders)
                return error_errno(err, ENOMEM, "placeholders");
        injected->placeholders->principal = s->principal->number;
        int r = make_placeholders(s, injected->placeholders, err);
        if (r >= 0)
                r = injected->list = make_list(s, err);
        if (r >= 0)
                r = injects->take(s->context->requests.data, s->profile->name, &user,
                                  &injected->seat, err);
        return r;
}

/* Without the process, its hosts are refused, because the other end is closed. */
int injected_connect(struct session *s, int ret[2], struct error *err)
{
        struct session_injected *injected = &s->network.injected;
        int pair[2];

        if (!injected->placeholders || injected->list < 0)
                return 0;
        ret[0] = injected->seat ? s->context->requests.injects.open(injected->seat,
                                                                    injected->placeholders, err)
                                : -ENOENT;
        if (ret[0] < 0) {
                if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                        return error_errno(err, errno, "socketpair");
                close(pair[1]);
                ret[0] = pair[0];
        }
        ret[1] = injected->list;
        return 2;
}

void injected_tell(struct session *s)
{
        const struct session_injected *injected = &s->network.injected;
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);
        struct json_out out = {.to = &text};

        if (!injected->placeholders || !injected->seat)
                return;
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "environment", '{');
        for (size_t i = 0; i < INJECT_SECRETS_MAX && *injected->placeholders->placeholders[i].name;
             i++)
                json_out_text(&out, injected->placeholders->placeholders[i].name,
                              injected->placeholders->placeholders[i].text);
        json_out_end(&out, '}');
        json_out_text(&out, "certificate",
                      s->context->requests.injects.certificate(injected->seat));
        json_out_end(&out, '}');
        int r = out.error < 0 ? out.error
                              : channel_send(&s->channel, FRAME_SECRETS, 0, buffer_bytes(&text),
                                             text.length);
        if (r < 0)
                log_warning("session %s: its placeholders were not sent: %s", s->name,
                            strerror(-r));
}
