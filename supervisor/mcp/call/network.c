/* The network in results. */
#include "supervisor/mcp/call/network.h"

#include <stdio.h>

#include "supervisor/session/cell/receipts.h"

void network_put(struct json_out *out, const struct cell_outcome *o)
{
        if (o->n_hosts > 0)
                receipt_put_hosts(out, "network", o);
}

static bool is_refused(const struct cell_host *host)
{
        return host->sums.denied > 0 && egress_is_denial(host->why);
}

static int append_line(struct buffer *to, const char *line)
{
        int r = to->length > 0 ? buffer_append_text(to, "\n") : 0;

        return r < 0 ? r : buffer_append_text(to, line);
}

static const char *text_of_change(enum cell_network change)
{
        if (change == CELL_NETWORK_OVER)
                return "the network of this server has ended: restart Cloister";
        return "the proxy has ended and another one has taken over: connections were closed, requests can be repeated";
}

int network_append_refusals(const struct cell_outcome *o, struct buffer *to)
{
        char line[512];
        uint64_t more = 0;
        size_t n = 0;
        int r = 0;

        if (o->network_change != CELL_NETWORK_SAME)
                r = append_line(to, text_of_change(o->network_change));
        for (size_t i = 0; i < o->n_hosts && r >= 0; i++) {
                const struct cell_host *host = &o->hosts[i];
                if (!is_refused(host) || n == NETWORK_REFUSALS_MAX) {
                        more += host->sums.denied;
                        continue;
                }
                n++;
                egress_reason_print(line, sizeof(line), host->name[0] ? host->name : "a host",
                                    host->port, host->why, o->network_profile);
                r = append_line(to, line);
        }
        if (r < 0 || more == 0)
                return r;
        snprintf(line, sizeof(line),
                 "%llu more requests were refused by network.allow of profile \"%s\"",
                 (unsigned long long)more, o->network_profile);
        return append_line(to, line);
}
