/* Large texts that are not copied. */
#include "rpc/shared-text.h"

#include <stdlib.h>

#include "rpc/background.h"

struct shared_text *shared_text_new(char *bytes, size_t n)
{
        struct shared_text *text = calloc(1, sizeof(*text));

        if (!text) {
                background_free(bytes, n);
                return NULL;
        }
        text->refs = 1;
        text->bytes = bytes;
        text->n = n;
        return text;
}

struct shared_text *shared_text_unref(struct shared_text *text)
{
        if (!text || --text->refs > 0)
                return NULL;
        charge_done(&text->charge);
        background_free(text->bytes, text->n);
        free(text);
        return NULL;
}
