/*
 * The params of a tools/call: `bytes`, and if there is a text (large arguments, which are not copied),
 * that and `after`.
 */
#pragma once

#include <string.h>

#include "base/buffer.h"
#include "rpc/shared-text.h"

struct call_params {
        struct buffer bytes;
        struct shared_text *text; /* a reference, or NULL */
        const char *after;        /* of a text: what closes it; at most 32 bytes */
};

static inline size_t call_params_length(const struct call_params *p)
{
        return p->bytes.length + (p->text ? p->text->n + strlen(p->after) : 0);
}

static inline void call_params_done(struct call_params *p)
{
        buffer_done(&p->bytes);
        p->text = shared_text_unref(p->text);
}
