/* Answers to batches. */
#include "supervisor/mcp/batch.h"

#include <stdlib.h>

#include "base/log.h"
#include "supervisor/mcp/sink.h"

/* The count begins at 1, so that the batch is not sent before its last element was read. */
struct batch *batch_new(struct mcp_sink *sink)
{
        struct batch *batch = calloc(1, sizeof(*batch));

        if (batch) {
                batch->sink = mcp_sink_ref(sink);
                batch->waiting = 1;
                buffer_init(&batch->out, RESULT_MAX);
        }
        return batch;
}

void batch_expect(struct batch *batch)
{
        batch->waiting++;
        batch->has_requests = true;
}

void batch_add(struct batch *batch, const struct buffer *message)
{
        int r = buffer_append(&batch->out, batch->out.length == 0 ? "[" : ",", 1);

        if (r >= 0)
                r = buffer_append(&batch->out, buffer_bytes(message), message->length - 1);
        if (r < 0)
                log_warning("an answer of a batch was dropped: out of memory");
}

void batch_step(struct batch *batch)
{
        if (!batch || --batch->waiting > 0)
                return;
        if (batch->out.length > 0 && buffer_append(&batch->out, "]\n", 2) >= 0)
                mcp_sink_send(batch->sink, &batch->out, true, 0);
        else if (batch->has_requests)
                mcp_sink_unanswered(batch->sink);
        buffer_done(&batch->out);
        mcp_sink_unref(batch->sink);
        free(batch);
}
