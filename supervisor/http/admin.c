/* Metrics, the page of the live view, and who gets them. */
#include "supervisor/http/admin.h"

#include <string.h>

#include "supervisor/http/state.h"
#include "supervisor/http/view.h"
#include "supervisor/service/metrics.h"

/* ---- /metrics ---- */

/* OpenMetrics, unless the client accepts only the older format. */
static enum metrics_format format_for(const struct http_connection *c)
{
        const char *list = http_request_header(&c->reader, "accept");

        return list && http_list_has(list, "text/plain") &&
                               !http_list_has(list, "application/openmetrics-text")
                       ? METRICS_TEXT
                       : METRICS_OPEN;
}

static void on_metrics(struct http_connection *c)
{
        _cleanup_buffer_ struct buffer body = BUFFER_INIT(METRICS_BYTES_MAX);
        const struct http_server *server = c->server;
        enum metrics_format format = format_for(c);

        metrics_clear(METRIC_MEMORY);
        metrics_set(METRIC_MEMORY, (double)server->held, "http");
        if (server->collect)
                server->collect(server->data);
        if (metrics_append(format, &body) < 0)
                http_respond_text(c, 503, "the metrics are too large, or there is no memory");
        else
                http_respond(c, 200, NULL, metrics_content_type(format), buffer_bytes(&body),
                             body.length);
}

/* ---- the page ---- */

/* Scripts and styles come from this server, and data goes to it only. */
#define PAGE_HEADERS                                                                               \
        "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; "       \
        "frame-ancestors 'none'\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n"

static const unsigned char view_html[] = {
#include "supervisor/http/ui/view.html.inc"
};
static const unsigned char view_js[] = {
#include "supervisor/http/ui/view.js.inc"
};
static const unsigned char view_css[] = {
#include "supervisor/http/ui/view.css.inc"
};

/* n: with the NUL byte that ends each file. */
static void send_page(struct http_connection *c, const char *type, const unsigned char *bytes,
                      size_t n)
{
        http_respond(c, 200, PAGE_HEADERS, type, (const char *)bytes, n - 1);
}

static void on_page(struct http_connection *c)
{
        send_page(c, "text/html; charset=utf-8", view_html, sizeof(view_html));
}

static void on_script(struct http_connection *c)
{
        send_page(c, "text/javascript; charset=utf-8", view_js, sizeof(view_js));
}

static void on_style(struct http_connection *c)
{
        send_page(c, "text/css; charset=utf-8", view_css, sizeof(view_css));
}

/* ---- who ---- */

static const struct admin_route routes[] = {
        {"/metrics", false, ACCESS_ROLE_METRICS, on_metrics},
        {"/ui", true, ACCESS_ROLE_NONE, on_page},
        {"/ui/view.js", true, ACCESS_ROLE_NONE, on_script},
        {"/ui/view.css", true, ACCESS_ROLE_NONE, on_style},
        {"/ui/events", true, ACCESS_ROLE_VIEW, http_on_view},
};

const struct admin_route *http_admin_route(const char *path)
{
        for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
                if (strcmp(routes[i].path, path) == 0)
                        return &routes[i];
        }
        return NULL;
}

static bool check_role(struct http_connection *c, enum access_role least)
{
        static const char text[] = "a bearer token with role=metrics or role=view is needed\n";
        const struct access *access = &c->server->access;
        const char *authorization = http_request_header(&c->reader, "authorization");

        if (access_role(access, authorization) >= least)
                return true;
        if (access_is_known(access, authorization)) {
                http_refuse(c, 403, "role",
                            least == ACCESS_ROLE_VIEW
                                    ? "this token lacks role=view"
                                    : "this token lacks role=metrics or role=view");
                return false;
        }
        metrics_add(METRIC_REFUSED, 1, "token");
        http_respond(c, 401, "WWW-Authenticate: Bearer realm=\"cloister admin\"\r\n", "text/plain",
                     text, sizeof(text) - 1);
        return false;
}

bool http_admin_check(struct http_connection *c)
{
        const struct http_request *request = &c->reader.request;
        const struct admin_route *route = http_admin_route(request->path);
        static const char only[] = "method not allowed\n";

        if (!route) {
                http_respond_text(c, 404, "there is only /metrics and /ui");
                return false;
        }
        if (c->server->access.needs_token) {
                if (!check_role(c, route->role))
                        return false;
        } else if (route->is_view && !c->server->admin_view) {
                http_refuse(
                        c, 403, "role",
                        "the live view shows what all clients run: it needs --tokens FILE with a token that has role=view, or --admin unix:PATH");
                return false;
        }
        if (request->method == HTTP_METHOD_GET || request->method == HTTP_METHOD_HEAD) {
                c->reader.body_max = 0;
                return true;
        }
        http_respond(c, 405, "Allow: GET, HEAD\r\n", "text/plain", only, sizeof(only) - 1);
        return false;
}
