/* The parts of an outcome that a result does not show, or not whole, are kept as resources after the call. */
#pragma once

#include "supervisor/mcp/call/call.h"
#include "supervisor/mcp/call/result.h"

/* URIs of the outputs of which the result shows a part, into uris and options. cell 0: none. */
void mcp_whole_name(const char *session, uint64_t cell, const struct cell_outcome *outcome,
                    struct resource_uri uris[CELL_STREAMS], struct result_options *options);
/* After the result was made: keeps these outputs, and the displays that it does not have, whole. */
void mcp_whole_keep(const struct mcp_call *call, const struct result_options *options,
                    struct cell_outcome *outcome);
