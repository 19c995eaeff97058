/*
 * The body of a form that a browser posts, as application/x-www-form-urlencoded (WHATWG URL, 5.1). Text that two parsers could
 * read differently is refused: two fields of one name, a '%' without two hexadecimal digits, a NUL byte.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum {
        FORM_BODY_MAX = 4096, /* bytes */
        FORM_FIELDS_MAX = 16,
};

struct form_body {
        char text[FORM_BODY_MAX + 1];
        struct {
                const char *name, *value; /* decoded, in text */
        } fields[FORM_FIELDS_MAX];
        size_t n;
};

/* Returns 0, or -EINVAL or -EMSGSIZE with an error. Call form_body_done() in any case. */
int form_body_read(struct form_body *ret, const char *bytes, size_t n, struct error *err);
/* The value of a field, or NULL. */
const char *form_body_get(const struct form_body *form, const char *name);
/* A field may be a secret: overwrites all of them. */
void form_body_done(struct form_body *form);

#define _cleanup_form_body_ __attribute__((cleanup(form_body_done)))
