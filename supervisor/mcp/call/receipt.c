/* The receipt of a cell. */
#include "supervisor/mcp/call/receipt.h"

#include "supervisor/session/cell/receipts.h"

static void put_count(struct json_out *out, const char *key, uint64_t n)
{
        if (n > 0)
                json_out_int(out, key, (int64_t)n);
}

void receipt_put(struct json_out *out, const struct cell_outcome *o, uint64_t cell, size_t shown)
{
        uint64_t output = 0, seen = o->received_bytes;

        if (o->memory_peak == 0)
                return; /* there was no sandbox */
        for (int i = 0; i < CELL_STREAMS; i++)
                output += o->streams[i].bytes;
        seen += output;
        json_out_begin(out, "receipt", '{');
        put_count(out, "cell", cell);
        json_out_text(out, "peak_of", cell_peak_name(o->peak_of));
        json_out_text(out, "network", cell_network_name(o->network));
        put_count(out, "sent_bytes", o->sent_bytes);
        put_count(out, "received_bytes", o->received_bytes);
        put_count(out, "output_bytes", output);
        put_count(out, "kept_out_bytes", seen > shown ? seen - shown : 0);
        json_out_end(out, '}');
}
