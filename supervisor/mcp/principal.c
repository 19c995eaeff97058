/* The data of a principal. */
#include "supervisor/mcp/principal.h"

#include "supervisor/mcp/tasks/task-reply.h"

void mcp_principal_done(struct mcp_principal *principal)
{
        resource_store_done(&principal->store);
        request_states_done(&principal->states);
        tasks_done(&principal->tasks);
}
