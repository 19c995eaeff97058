/* Ids that outlive their requests, and batches. */
#include "supervisor/mcp/reply.h"

#include <errno.h>
#include <stdlib.h>

#include "supervisor/mcp/result.h"

int reply_init(struct reply *reply, yyjson_val *id, struct batch *batch)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(RESULT_MAX);

        *reply = (struct reply){.batch = batch};
        int r = json_append(&text, id);
        if (r >= 0)
                r = json_parse(buffer_bytes(&text), text.length, &reply->id_doc, NULL);
        return r;
}

void reply_done(struct reply *reply)
{
        yyjson_doc_free(reply->id_doc);
        *reply = (struct reply){};
}

struct batch *batch_new(void)
{
        struct batch *batch = calloc(1, sizeof(*batch));

        if (batch)
                buffer_init(&batch->out, RESULT_MAX);
        return batch;
}

struct batch *batch_free(struct batch *batch)
{
        if (batch)
                buffer_done(&batch->out);
        free(batch);
        return NULL;
}

int batch_add(struct batch *batch, const struct buffer *message)
{
        int r = buffer_append(&batch->out, batch->out.length == 0 ? "[" : ",", 1);

        return r < 0 ? r : buffer_append(&batch->out, buffer_bytes(message), message->length - 1);
}

int batch_close(struct batch *batch)
{
        return batch->out.length == 0 ? 0 : buffer_append(&batch->out, "]\n", 2);
}
