/* A form that a browser posts: accepted when it can be read in one way. Encoded again, it is read as the same. */
#include "rpc/http/form-body.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static size_t encode(const char *text, char *to)
{
        size_t n = 0;

        for (; *text; text++)
                n += (size_t)sprintf(to + n, "%%%02X", (unsigned char)*text);
        return n;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        static char text[3 * FORM_BODY_MAX + 2 * FORM_FIELDS_MAX + 1];
        _cleanup_form_body_ struct form_body form = {};
        struct error err = {};
        size_t length = 0;

        if (form_body_read(&form, (const char *)data, n, &err) < 0) {
                assert(error_is_set(&err));
                return false;
        }
        assert(n <= FORM_BODY_MAX && form.n <= FORM_FIELDS_MAX);
        for (size_t i = 0; i < form.n; i++) {
                assert(form_body_get(&form, form.fields[i].name) == form.fields[i].value);
                length += encode(form.fields[i].name, text + length);
                text[length++] = '=';
                length += encode(form.fields[i].value, text + length);
                text[length++] = '&';
        }
        if (length > FORM_BODY_MAX)
                return true;
        _cleanup_form_body_ struct form_body again = {};
        assert(form_body_read(&again, text, length, &err) == 0);
        assert(again.n == form.n);
        for (size_t i = 0; i < form.n; i++)
                assert(strcmp(again.fields[i].name, form.fields[i].name) == 0 &&
                       strcmp(again.fields[i].value, form.fields[i].value) == 0);
        return true;
}

FUZZ_TARGET
