/* Whole outputs of calls. */
#include "supervisor/mcp/call/whole.h"

#include <string.h>

#include "supervisor/mcp/call/result-content.h"
#include "supervisor/mcp/resources/resource-keep.h"

void mcp_whole_name(const char *session, uint64_t cell, const struct cell_outcome *outcome,
                    struct resource_uri uris[CELL_STREAMS], struct result_options *options)
{
        for (int i = 0; i < CELL_STREAMS; i++) {
                uris[i] = (struct resource_uri){
                        .kind = RESOURCE_OUTPUT, .cell = cell, .stream = (enum cell_stream)i};
                memcpy(uris[i].session, session, sizeof(uris[i].session));
                if ((options->was_cut[i] || outcome->streams[i].characters > options->max_output) &&
                    cell != 0)
                        options->whole[i] = &uris[i];
        }
        options->cell = cell;
}

static void keep_displays(const struct mcp_call *call, const struct result_options *options,
                          struct cell_outcome *outcome)
{
        const struct result_view view = {.session = options->session,
                                         .cell = options->cell,
                                         .most = options->max_output,
                                         .kinds = options->kinds};
        size_t n = outcome->n_displays;
        bool linked[CELL_DISPLAYS_MAX];

        for (size_t i = 0; i < n; i++)
                linked[i] = result_content_is_linked(outcome, i, &view);
        for (size_t i = 0; i < n; i++) {
                const struct resource_uri uri = result_content_uri(i, &view);
                if (linked[i])
                        resource_keep_display(call->server, call->principal, &uri,
                                              &outcome->displays[i]);
        }
}

void mcp_whole_keep(const struct mcp_call *call, const struct result_options *options,
                    struct cell_outcome *outcome)
{
        for (int i = 0; i < CELL_STREAMS; i++) {
                if (options->whole[i])
                        resource_keep(call->server, call->principal, options->whole[i],
                                      &outcome->streams[i]);
        }
        keep_displays(call, options, outcome);
        resource_keep_names(call->server, call->principal, call->session, outcome);
}
