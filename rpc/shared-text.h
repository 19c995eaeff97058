/*
 * A large text that several hold, so that it is not copied: the arguments of a call, which its session
 * sent, which wait to be written, and which its server may ask for again. For the loop's thread only.
 */
#pragma once

#include <stddef.h>

#include "rpc/memory-account.h"

struct shared_text {
        unsigned refs;
        char *bytes; /* owned, of malloc() */
        size_t n;
        struct charge charge; /* of its length, to the account of its sender */
};

/* Takes the bytes in any case. Returns NULL when out of memory. */
struct shared_text *shared_text_new(char *bytes, size_t n);

static inline struct shared_text *shared_text_ref(struct shared_text *text)
{
        text->refs++;
        return text;
}

/* NULL is allowed. Returns NULL. */
struct shared_text *shared_text_unref(struct shared_text *text);
