/* Posted forms. */
#include "rpc/http/form-body.h"

#include <errno.h>
#include <string.h>

static int digit_of(char c)
{
        return c >= '0' && c <= '9'   ? c - '0'
               : c >= 'a' && c <= 'f' ? c - 'a' + 10
               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                      : -1;
}

/* Decodes the text in place. Returns 0 or -EINVAL. */
static int decode(char *text)
{
        char *to = text;

        for (const char *from = text; *from; from++) {
                char c = *from == '+' ? ' ' : *from;
                if (*from == '%') {
                        int high = digit_of(from[1]), low = high < 0 ? -1 : digit_of(from[2]);
                        if (low < 0 || high + low == 0)
                                return -EINVAL;
                        c = (char)(high << 4 | low);
                        from += 2;
                }
                *to++ = c;
        }
        *to = '\0';
        return 0;
}

static int add_field(struct form_body *form, char *text, struct error *err)
{
        char *value = text + strcspn(text, "=");

        if (form->n == FORM_FIELDS_MAX)
                return error_set(err, EMSGSIZE, "the form has more than %d fields",
                                 FORM_FIELDS_MAX);
        if (*value)
                *value++ = '\0';
        if (decode(text) < 0 || decode(value) < 0)
                return error_set(err, EINVAL, "the form is not encoded as browsers do");
        if (form_body_get(form, text))
                return error_set(err, EINVAL, "the form has two fields of one name");
        form->fields[form->n].name = text;
        form->fields[form->n++].value = value;
        return 0;
}

int form_body_read(struct form_body *ret, const char *bytes, size_t n, struct error *err)
{
        char *rest = ret->text;
        int r = 0;

        ret->n = 0;
        if (n > FORM_BODY_MAX)
                return error_set(err, EMSGSIZE, "the form has more than %d bytes", FORM_BODY_MAX);
        if (n > 0)
                memcpy(ret->text, bytes, n);
        ret->text[n] = '\0';
        if (strlen(ret->text) != n)
                return error_set(err, EINVAL, "the form has a NUL byte");
        for (char *field; r >= 0 && (field = strsep(&rest, "&"));)
                r = *field ? add_field(ret, field, err) : 0;
        return r;
}

const char *form_body_get(const struct form_body *form, const char *name)
{
        for (size_t i = 0; i < form->n; i++) {
                if (strcmp(form->fields[i].name, name) == 0)
                        return form->fields[i].value;
        }
        return NULL;
}

void form_body_done(struct form_body *form)
{
        explicit_bzero(form, sizeof(*form));
}
