/* /livez and /readyz. */
#include "supervisor/http/checks.h"

#include <string.h>

#include "base/json-out.h"
#include "supervisor/http/state.h"
#include "supervisor/mcp/state.h"
#include "supervisor/service/lease.h"
#include "supervisor/service/liveness.h"
#include "supervisor/service/node.h"
#include "supervisor/service/phase.h"
#include "supervisor/session/sessions.h"

enum { BODY_MAX = 256 };

static void answer(struct http_connection *c, int code, const char *status)
{
        _cleanup_buffer_ struct buffer body = BUFFER_INIT(BODY_MAX);
        struct json_out out = {.to = &body};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "status", status);
        if (*node_name())
                json_out_text(&out, "node", node_name());
        json_out_end(&out, '}');
        int r = out.error < 0 ? out.error : buffer_append(&body, "\n", 1);
        if (r < 0)
                http_respond_text(c, 503, "out of memory");
        else
                http_respond(c, code, NULL, "application/json", buffer_bytes(&body), body.length);
}

void http_on_livez(struct http_connection *c)
{
        if (liveness_is_ok())
                answer(c, 200, "live");
        else
                answer(c, 503, "stuck");
}

/* Whether a query has this parameter. Others are ignored, as a balancer may add its own. */
static bool has_parameter(const char *query, const char *name)
{
        while (query && *query) {
                size_t n = strcspn(query, "&");
                if (strncmp(query, name, n) == 0 && strlen(name) == n)
                        return true;
                query += n + (query[n] == '&');
        }
        return false;
}

void http_on_readyz(struct http_connection *c)
{
        struct sessions *sessions = c->server->mcp->sessions;
        enum sandbox_ability ability = SANDBOX_ABILITY_YES;

        /* Another client that renewed the lease would hide that no balancer reaches this server. */
        if (has_parameter(c->reader.request.query, "lease") && !lease_note_check(&c->peer.any)) {
                http_respond_text(c, 403,
                                  "?lease is taken only from the addresses in \"node.balancers\"");
                return;
        }
        if (service_phase() == SERVICE_DRAINING) {
                answer(c, 404, "draining");
                return;
        }
        /* Before READY the server itself tries a sandbox until one has answered: no second one is made for this. */
        ability = service_phase() == SERVICE_STARTING ? sessions_starting(sessions)
                                                      : sessions_can_start(sessions);
        if (ability != SANDBOX_ABILITY_YES)
                answer(c, 503, ability == SANDBOX_ABILITY_NO ? "no-sandbox" : "starting");
        else if (has_parameter(c->reader.request.query, "new") && !sessions_have_place(sessions))
                answer(c, 503, "full");
        else
                answer(c, 200, "ready");
}
