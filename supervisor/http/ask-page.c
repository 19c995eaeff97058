/* Pages of questions. */
#include "supervisor/http/ask-page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/unguessable.h"
#include "policy/config/ask-keys.h"
#include "rpc/http/form-body.h"
#include "supervisor/http/state.h"
#include "supervisor/mcp/state.h"
#include "supervisor/service/event.h"
#include "supervisor/service/metrics.h"
#include "supervisor/service/sha256.h"
#include "supervisor/trust/questions/approval.h"
#include "supervisor/trust/records/record.h"

enum { COLUMNS = 100, BODY_MAX = 8 * HTTP_ASK_TEXT_MAX };

/* No script, no frame, and no style but the one of this file. With "no-referrer" browsers would send "Origin: null" with the form. */
#define PAGE_HEADERS                                                                               \
        "Content-Security-Policy: default-src 'none'; style-src 'sha256-%.*s'; base-uri 'none'; "  \
        "form-action 'self'; "                                                                     \
        "frame-ancestors 'none'\r\nReferrer-Policy: same-origin\r\nX-Frame-Options: DENY\r\n"      \
        "Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n"

#define PAGE_STYLE                                                                                 \
        ":root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }\n"              \
        "body { max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }\n"                         \
        "h1 { font-size: 1.2rem; }\n"                                                              \
        "pre { font: 0.85rem/1.5 ui-monospace, monospace; white-space: pre-wrap; "                 \
        "overflow-wrap: anywhere; padding: 1rem; border: 1px solid #8888; "                        \
        "border-radius: 6px; }\n"                                                                  \
        "input, button { font: inherit; padding: 0.4rem 0.8rem; border: 1px solid #8888; "         \
        "border-radius: 6px; }\n"                                                                  \
        "button { cursor: pointer; }\n"                                                            \
        "form p { margin: 0.6rem 0; }\n"                                                           \
        ".answer { display: flex; gap: 0.7rem; align-items: baseline; }\n"                         \
        ".answer:last-child { margin-top: 1.8rem; }\n"

#define PAGE_BEGIN                                                                                 \
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"                  \
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"               \
        "<title>Cloister</title>\n<style>" PAGE_STYLE                                              \
        "</style>\n</head>\n<body>\n<h1>Cloister</h1>\n"
#define PAGE_END "</body>\n</html>\n"

#define TOKEN_FORM                                                                                 \
        "<form method=\"post\">\n<p><label>Your token: <input type=\"password\" name=\"token\" "   \
        "maxlength=\"256\" autocomplete=\"off\" required autofocus></label>\n"                     \
        "<button>Show the question</button></p>\n</form>\n"

static void respond_out_of_memory(struct http_connection *c)
{
        http_respond_text(c, 503, "out of memory");
}

/* Appends the digest of the style, as a policy names it. */
static int append_style_source(struct buffer *to)
{
        char digits[SHA256_TEXT_SIZE];
        unsigned char digest[SHA256_TEXT_SIZE / 2];

        sha256_text(PAGE_STYLE, sizeof(PAGE_STYLE) - 1, digits);
        for (size_t i = 0; i < sizeof(digest); i++)
                sscanf(digits + 2 * i, "%2hhx", &digest[i]);
        return base64_append(to, digest, sizeof(digest));
}

static void respond(struct http_connection *c, int status, const struct buffer *body)
{
        _cleanup_buffer_ struct buffer source = BUFFER_INIT(SHA256_TEXT_SIZE);
        char headers[sizeof(PAGE_HEADERS) + SHA256_TEXT_SIZE];

        if (append_style_source(&source) < 0) {
                respond_out_of_memory(c);
                return;
        }
        snprintf(headers, sizeof(headers), PAGE_HEADERS, (int)source.length, buffer_bytes(&source));
        http_respond(c, status, headers, "text/html; charset=utf-8", buffer_bytes(body),
                     body->length);
}

/* A page with one sentence. form: what follows it. */
static void respond_sentence(struct http_connection *c, int status, const char *sentence,
                             const char *form)
{
        _cleanup_buffer_ struct buffer body = BUFFER_INIT(BODY_MAX);

        if (buffer_printf(&body, PAGE_BEGIN "%s%s%s%s" PAGE_END, *sentence ? "<p>" : "", sentence,
                          *sentence ? "</p>\n" : "", form) < 0)
                respond_out_of_memory(c);
        else
                respond(c, status, &body);
}

/* ---- wrong tokens ---- */

struct ask_page_tries {
        struct {
                unsigned char client[8]; /* IPv4, or the network of IPv6; zeroes: not known */
                uint64_t since_us;       /* 0: the place is free */
                unsigned n;
        } clients[HTTP_ASK_CLIENTS];
};

void http_ask_free(struct ask_page_tries *tries)
{
        free(tries);
}

static void name_client(const struct http_connection *c, unsigned char to[8])
{
        memset(to, 0, 8);
        if (c->peer.any.sa_family == AF_INET)
                memcpy(to, &c->peer.v4.sin_addr, 4);
        else if (c->peer.any.sa_family == AF_INET6)
                memcpy(to, &c->peer.v6.sin6_addr, 8);
}

/* Its place, or the oldest one, which is emptied. */
static size_t find_place(struct ask_page_tries *tries, const unsigned char client[8])
{
        uint64_t now = clock_us();
        size_t oldest = 0;

        for (size_t i = 0; i < HTTP_ASK_CLIENTS; i++) {
                uint64_t since = tries->clients[i].since_us;
                if (since > 0 && now - since < HTTP_ASK_WRONG_MS * UINT64_C(1000) &&
                    memcmp(tries->clients[i].client, client, 8) == 0)
                        return i;
                if (since < tries->clients[oldest].since_us)
                        oldest = i;
        }
        memcpy(tries->clients[oldest].client, client, 8);
        tries->clients[oldest].since_us = now;
        tries->clients[oldest].n = 0;
        return oldest;
}

static bool is_blocked(const struct http_connection *c)
{
        const struct ask_page_tries *tries = c->server->ask_tries;
        unsigned char client[8];

        name_client(c, client);
        for (size_t i = 0; tries && i < HTTP_ASK_CLIENTS; i++) {
                if (tries->clients[i].since_us > 0 &&
                    memcmp(tries->clients[i].client, client, 8) == 0 &&
                    clock_us() - tries->clients[i].since_us < HTTP_ASK_WRONG_MS * UINT64_C(1000))
                        return tries->clients[i].n >= HTTP_ASK_WRONG_MAX;
        }
        return false;
}

static void count_wrong(struct http_connection *c)
{
        unsigned char client[8];

        if (!c->server->ask_tries)
                c->server->ask_tries = calloc(1, sizeof(*c->server->ask_tries));
        if (!c->server->ask_tries)
                return;
        name_client(c, client);
        c->server->ask_tries->clients[find_place(c->server->ask_tries, client)].n++;
}

/* ---- whose question it is ---- */

static struct question_view view_of(struct approvals *question)
{
        struct question_view view;
        uint64_t ignored;

        approvals_view(question, &view, &ignored);
        return view;
}

/* The value of the form that answers: only who has sent the token can make it. It ends with the token. */
static void make_key(const char *page, const char *token, char key[SHA256_TEXT_SIZE])
{
        static char secret[2 * UNGUESSABLE_LENGTH + 1];
        char text[sizeof(secret) + UNGUESSABLE_LENGTH + ACCESS_TOKEN_MAX + 1];

        if (!*secret) {
                unguessable(secret);
                unguessable(secret + UNGUESSABLE_LENGTH);
        }
        int n = snprintf(text, sizeof(text), "%s%s%s", secret, page, token);
        sha256_text(text, (size_t)n, key);
        explicit_bzero(text, sizeof(text));
}

static struct mcp_principal *find_by_token(const struct http_connection *c, const char *token)
{
        char header[sizeof("Bearer ") + ACCESS_TOKEN_MAX];

        if (!c->server->access.needs_token || strlen(token) > ACCESS_TOKEN_MAX)
                return NULL;
        snprintf(header, sizeof(header), "Bearer %s", token);
        struct mcp_principal *found = access_principal(&c->server->access, header, NULL);
        explicit_bzero(header, sizeof(header));
        return found;
}

/* The principal that the page has made the key for. */
static struct mcp_principal *find_by_key(const struct http_connection *c, const char *page,
                                         const char *key)
{
        const struct access *access = &c->server->access;
        char expected[SHA256_TEXT_SIZE];

        if (strlen(page) != UNGUESSABLE_LENGTH || strlen(key) != sizeof(expected) - 1)
                return NULL;
        for (size_t i = 0; i < access->n_tokens; i++) {
                struct access_token *t = access->tokens[i];
                if (t->removed || t->role)
                        continue;
                make_key(page, t->token, expected);
                if (unguessable_equal(key, expected, sizeof(expected)))
                        return &t->principal;
        }
        return NULL;
}

/* Who sends the form, by its token or its key. NULL: no known principal. */
static struct mcp_principal *find_sender(const struct http_connection *c, const char *page,
                                         const struct form_body *form)
{
        const char *token = form_body_get(form, "token"), *key = form_body_get(form, "key");
        struct mcp_principal *found = token ? find_by_token(c, token) : NULL;

        return found || !key ? found : find_by_key(c, page, key);
}

/* ---- what the page shows ---- */

static int append_html(struct buffer *to, const char *text, size_t n)
{
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++) {
                const char *escape = text[i] == '&'    ? "&amp;"
                                     : text[i] == '<'  ? "&lt;"
                                     : text[i] == '>'  ? "&gt;"
                                     : text[i] == '"'  ? "&quot;"
                                     : text[i] == '\'' ? "&#39;"
                                                       : NULL;
                r = escape ? buffer_append_text(to, escape) : buffer_append(to, text + i, 1);
        }
        return r;
}

static bool is_too_large(const struct question_view *view)
{
        size_t n = 0;

        for (size_t i = 0; i < view->n_calls; i++)
                n += view->calls[i]->n;
        return n > HTTP_ASK_TEXT_MAX;
}

static int append_buttons(const struct question_view *view, bool is_large, struct buffer *to)
{
        static const char *const labels[SCOPES] = {
                [SCOPE_ONCE] = "send",
                [SCOPE_CELL] =
                        "send, and do not ask again about this rule and tool until this code ends",
                [SCOPE_SESSION] =
                        "send, and do not ask again about this rule and tool until the session ends",
                [SCOPE_ALWAYS] = "as session, and propose rules for exactly these calls",
                [SCOPE_NO] = "send nothing",
        };
        char title[QUESTION_TITLE_SIZE];

        question_title(view, title);
        int r = buffer_printf(to, "<p><strong>%s</strong></p>\n", title);

        for (int i = 0; i < SCOPES && r >= 0; i++) {
                if ((is_large && i != SCOPE_NO) ||
                    (view->is_plan && i != SCOPE_ONCE && i != SCOPE_NO))
                        continue;
                const char *name = question_scope_name((enum question_scope)i);
                r = buffer_printf(
                        to,
                        "<p class=\"answer\"><button name=\"answer\" value=\"%s\">%s</button> %s</p>\n",
                        name, name,
                        view->is_plan && i == SCOPE_ONCE ? "run the code, and send these calls"
                                                         : labels[i]);
        }
        return r;
}

static int append_text(const struct question_view *view, bool is_large, struct buffer *to)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(BODY_MAX);

        if (is_large && view->lacks_terminal)
                return buffer_append_text(
                        to,
                        "<p>The question is too large for a page: it can only be denied.</p>\n");
        if (is_large)
                return buffer_printf(
                        to, "<p>The question is too large for a page: cloister approve %s</p>\n",
                        view->id);
        int r = question_whole(view, COLUMNS, &text);
        if (r >= 0)
                r = buffer_append_text(to, "<pre>");
        if (r >= 0)
                r = append_html(to, buffer_bytes(&text), text.length);
        return r < 0 ? r : buffer_append_text(to, "</pre>\n");
}

/* note: one sentence before the question, or "". */
static void show_question(struct http_connection *c, int status, struct approvals *question,
                          const char *page, const char *note)
{
        _cleanup_buffer_ struct buffer body = BUFFER_INIT(BODY_MAX);
        const struct question_view view = view_of(question);
        const char *token = access_token_of(&c->server->access, view.principal);
        bool is_large = is_too_large(&view);
        char key[SHA256_TEXT_SIZE];

        make_key(page, token ? token : "", key);
        int r = buffer_printf(&body, PAGE_BEGIN "%s%s%s", *note ? "<p>" : "", note,
                              *note ? "</p>\n" : "");
        if (r >= 0)
                r = append_text(&view, is_large, &body);
        if (r >= 0)
                r = buffer_printf(
                        &body,
                        "<form method=\"post\">\n<input type=\"hidden\" name=\"key\" value=\"%s\">\n<input type=\"hidden\" name=\"sha256\" value=\"%s\">\n",
                        key, view.sha256);
        if (r >= 0)
                r = append_buttons(&view, is_large, &body);
        if (r >= 0)
                r = buffer_append_text(&body, "</form>\n" PAGE_END);
        if (r < 0)
                respond_out_of_memory(c);
        else
                respond(c, status, &body);
}

/* ---- answers ---- */

static void take_answer(struct http_connection *c, struct approvals *question, const char *page,
                        const char *word, const char *sha256)
{
        const struct question_view view = view_of(question);
        const struct approval_answer answer = {.scope = question_scope_find(word, strlen(word))};
        char id[QUESTION_ID_LENGTH + 1];
        struct error err = {};
        char sentence[128];

        snprintf(id, sizeof(id), "%s", view.id);
        int r = -EINVAL;
        if (answer.scope == SCOPE_NO || (answer.scope != SCOPES && !is_too_large(&view)))
                r = approvals_answer(approvals_of_process(), APPROVAL_BY_PAGE, id, sha256, &answer,
                                     &err);
        if (r == -EINVAL) {
                show_question(c, 400, question, page, "This is not an answer to the question.");
                return;
        }
        if (r < 0) {
                show_question(c, 409, question, page,
                              "The answer was not taken: the question is another one now.");
                return;
        }
        snprintf(sentence, sizeof(sentence), "Your answer was taken: %s. This page can be closed.",
                 question_scope_name(answer.scope));
        respond_sentence(c, 200, sentence, "");
}

/* question: NULL: there is none. */
static void refuse(struct http_connection *c, struct approvals *question,
                   const struct form_body *form)
{
        bool is_missing = !form_body_get(form, "token") && !form_body_get(form, "key");

        event_token_refused(&(struct event_token_refused){.is_missing = is_missing, .status = 403});
        metrics_add(METRIC_REFUSED, 1, "token");
        count_wrong(c);
        if (question)
                approvals_wrong_token(question);
        respond_sentence(c, 403, "This token cannot answer here, or the question has ended.",
                         TOKEN_FORM);
}

/* The sender has had this page while there was a question: only then it is recorded, so that others cannot fill the journal. */
static void refuse_late(struct http_connection *c, const struct form_body *form)
{
        const char *sha256 = form_body_get(form, "sha256");

        if (form_body_get(form, "answer") && sha256 && strlen(sha256) == QUESTION_SHA_SIZE - 1 &&
            strspn(sha256, "0123456789abcdef") == QUESTION_SHA_SIZE - 1)
                record_refused_answer("page", "", sha256,
                                      "no question has this page, or it has ended");
        respond_sentence(
                c, 409,
                "The answer was not taken: the question was answered before, has ended, or its page is closed.",
                "");
}

static void on_post(struct http_connection *c, const char *page)
{
        const struct buffer *body = &c->reader.request.body;
        struct approvals *question = approvals_find_page(approvals_of_process(), page);
        _cleanup_form_body_ struct form_body form = {};
        struct error err = {};

        if (form_body_read(&form, body->length > 0 ? buffer_bytes(body) : "", body->length, &err) <
            0) {
                http_respond_text(c, 400, err.text);
                return;
        }
        const struct mcp_principal *sender = find_sender(c, page, &form);
        const char *key = form_body_get(&form, "key");
        if (!question && sender && key && !form_body_get(&form, "token")) {
                refuse_late(c, &form);
                return;
        }
        if (!question || !sender || strcmp(sender->key, view_of(question).principal) != 0) {
                refuse(c, question, &form);
                return;
        }
        const char *word = form_body_get(&form, "answer"), *sha256 = form_body_get(&form, "sha256");
        if (word && sha256 && key)
                take_answer(c, question, page, word, sha256);
        else
                show_question(c, 200, question, page, "");
}

/* ---- requests ---- */

bool http_is_ask(const struct http_connection *c)
{
        const char *path = c->reader.request.path;

        return strncmp(path, APPROVAL_PAGE_PATH, strlen(APPROVAL_PAGE_PATH)) == 0 && !c->admin;
}

/* The config may have lost the key while a person reads a page. */
static bool has_pages(struct http_connection *c)
{
        if (c->server->access.needs_token && config_has_ask_page(c->server->mcp->config))
                return true;
        http_respond_text(c, 404, "questions are not answered on pages here (ask.page)");
        return false;
}

static const char *page_of(const struct http_connection *c)
{
        return c->reader.request.path + strlen(APPROVAL_PAGE_PATH);
}

static bool is_form(const char *type)
{
        static const char name[] = "application/x-www-form-urlencoded";
        size_t n = sizeof(name) - 1;

        return type && strncasecmp(type, name, n) == 0 && (!type[n] || strchr("; \t", type[n]));
}

bool http_ask_check(struct http_connection *c)
{
        const char *origin = http_request_header(&c->reader, "origin");
        static const char only[] = "method not allowed\n";

        if (!has_pages(c))
                return false;
        switch (c->reader.request.method) {
        case HTTP_METHOD_GET:
        case HTTP_METHOD_HEAD:
                c->reader.body_max = 0;
                return true;
        case HTTP_METHOD_POST:
                c->reader.body_max = FORM_BODY_MAX;
                break;
        default:
                http_respond(c, 405, "Allow: GET, HEAD, POST\r\n", "text/plain", only,
                             sizeof(only) - 1);
                return false;
        }
        /* A form on another site must not answer. */
        if (!origin || !config_is_ask_page(c->server->mcp->config, origin))
                http_refuse(c, 403, "origin", "the form must come from this page (ask.page)");
        else if (!is_form(http_request_header(&c->reader, "content-type")))
                http_respond_text(c, 415,
                                  "Content-Type: application/x-www-form-urlencoded is needed");
        else if (is_blocked(c))
                http_refuse(c, 429, "token",
                            "too many wrong tokens came from your address: wait a minute");
        else
                return true;
        return false;
}

struct mcp_principal *http_ask_sender(struct http_connection *c)
{
        const struct buffer *body = &c->reader.request.body;
        _cleanup_form_body_ struct form_body form = {};
        struct error ignored = {};

        if (c->reader.request.method != HTTP_METHOD_POST || body->length == 0 ||
            form_body_read(&form, buffer_bytes(body), body->length, &ignored) < 0)
                return NULL;
        return find_sender(c, page_of(c), &form);
}

void http_on_ask(struct http_connection *c)
{
        if (!has_pages(c))
                return;
        if (c->reader.request.method == HTTP_METHOD_POST)
                on_post(c, page_of(c));
        else
                respond_sentence(c, 200, "", TOKEN_FORM);
}
