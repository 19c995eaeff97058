/* The forms in which a value may appear in a text: as it is, inside a JSON string, percent-encoded, and in base64 at each offset. */
#pragma once

#include <stddef.h>

enum { SECRET_FORMS_MAX = 16, SECRET_NEEDLE_MIN = 6 /* bytes */ };

struct secret_forms {
        size_t n;
        struct secret_form {
                char *text;
                size_t n;
        } items[SECRET_FORMS_MAX]; /* the first one is the value */
};

/* Returns 0 or -ENOMEM. Short forms, and those that are equal to others, are left out. */
int secret_forms_make(struct secret_forms *ret, const char *value, size_t n);
/* Each form as JSON writes it inside a string. */
int secret_forms_as_json(struct secret_forms *ret, const struct secret_forms *forms);
void secret_forms_done(struct secret_forms *forms);
