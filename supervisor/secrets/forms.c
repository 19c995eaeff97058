/* The forms in which a value may appear in a text. */
#include "supervisor/secrets/forms.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/percent.h"
#include "base/utf8.h"

enum { FORM_BYTES_MAX = 1024 * 1024 };

void secret_forms_done(struct secret_forms *forms)
{
        for (size_t i = 0; i < forms->n; i++) {
                explicit_bzero(forms->items[i].text, forms->items[i].n);
                free(forms->items[i].text);
        }
        forms->n = 0;
}

static int add(struct secret_forms *f, const char *text, size_t n)
{
        if (n < SECRET_NEEDLE_MIN && f->n > 0)
                return 0;
        for (size_t i = 0; i < f->n; i++)
                if (f->items[i].n == n && memcmp(f->items[i].text, text, n) == 0)
                        return 0;
        char *copy = malloc(n + 1);
        if (!copy || f->n == SECRET_FORMS_MAX) {
                free(copy);
                return -ENOMEM;
        }
        memcpy(copy, text, n);
        copy[n] = '\0';
        f->items[f->n++] = (struct secret_form){copy, n};
        return 0;
}

static void buffer_clear(struct buffer *b)
{
        if (b->length > 0)
                explicit_bzero(buffer_bytes(b), b->length);
        buffer_done(b);
}
#define _cleanup_clear_ _cleanup_(buffer_clear)

/* Both cases of the digits, and both ways to write a space. */
static int add_percent(struct secret_forms *f, const char *value)
{
        for (unsigned way = 0; way < 4; way++) {
                _cleanup_clear_ struct buffer b = BUFFER_INIT(FORM_BYTES_MAX);
                _cleanup_clear_ struct buffer c = BUFFER_INIT(FORM_BYTES_MAX);
                percent_append(&b, value, PERCENT_UNRESERVED, true);
                int r = b.error;
                const char *p = buffer_bytes(&b);
                for (size_t i = 0; i < b.length && r >= 0; i++) {
                        bool is_code = p[i] == '%' && i + 2 < b.length;
                        char code[3] = {'%', 0, 0};
                        if (is_code && way & 1 && p[i + 1] == '2' && p[i + 2] == '0') {
                                r = buffer_append(&c, "+", 1);
                        } else if (is_code) {
                                for (int k = 1; k <= 2; k++)
                                        code[k] = (char)(way & 2 ? tolower(p[i + k])
                                                                 : toupper(p[i + k]));
                                r = buffer_append(&c, code, 3);
                        } else {
                                r = buffer_append(&c, p + i, 1);
                        }
                        i += is_code ? 2 : 0;
                }
                if (r >= 0)
                        r = add(f, buffer_bytes(&c), c.length);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The characters that the value alone decides, if `offset` bytes stand before it in a group of three. */
static int add_base64(struct secret_forms *f, const char *value, size_t n, size_t offset)
{
        static const size_t skipped[] = {0, 2, 3};
        _cleanup_clear_ struct buffer bytes = BUFFER_INIT(FORM_BYTES_MAX);
        _cleanup_clear_ struct buffer text = BUFFER_INIT(FORM_BYTES_MAX);

        int r = buffer_append(&bytes, "\0\0", offset);
        if (r >= 0)
                r = buffer_append(&bytes, value, n);
        if (r >= 0)
                r = base64_append(&text, buffer_bytes(&bytes), bytes.length);
        if (r < 0)
                return r;
        char *from = buffer_bytes(&text) + skipped[offset];
        size_t length = (offset + n) * 8 / 6 - skipped[offset];
        r = add(f, from, length);
        for (size_t i = 0; i < length; i++)
                from[i] = (char)(from[i] == '+' ? '-' : from[i] == '/' ? '_' : from[i]);
        return r < 0 ? r : add(f, from, length);
}

/* Text of JSON inside a string of text. */
static int append_inner(struct buffer *to, const char *text, size_t n)
{
        _cleanup_clear_ struct buffer quoted = BUFFER_INIT(FORM_BYTES_MAX);

        int r = json_append_string(&quoted, text, n);
        return r < 0 ? r : buffer_append(to, buffer_bytes(&quoted) + 1, quoted.length - 2);
}

/* Other characters than ASCII as \uXXXX, as Python's json writes them. */
static int append_ascii(struct buffer *to, const char *json, size_t n)
{
        const unsigned char *p = (const unsigned char *)json, *stop = p + n;
        int r = 0;

        while (p < stop && r >= 0) {
                int length = utf8_next(p, (size_t)(stop - p));
                if (length <= 0)
                        return -EINVAL;
                uint32_t c = utf8_decode(p, length);
                if (c < 0x80)
                        r = buffer_append(to, p, 1);
                else if (c < 0x10000)
                        r = buffer_printf(to, "\\u%04x", c);
                else
                        r = buffer_printf(to, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10),
                                          0xdc00 + (c & 0x3ff));
                p += length;
        }
        return r;
}

int secret_forms_make(struct secret_forms *ret, const char *value, size_t n)
{
        _cleanup_clear_ struct buffer inner = BUFFER_INIT(FORM_BYTES_MAX);
        _cleanup_clear_ struct buffer ascii = BUFFER_INIT(FORM_BYTES_MAX);

        *ret = (struct secret_forms){};
        int r = add(ret, value, n);
        if (r >= 0)
                r = append_inner(&inner, value, n);
        if (r >= 0)
                r = add(ret, buffer_bytes(&inner), inner.length);
        if (r >= 0)
                r = append_ascii(&ascii, buffer_bytes(&inner), inner.length);
        if (r >= 0)
                r = add(ret, buffer_bytes(&ascii), ascii.length);
        if (r >= 0)
                r = add_percent(ret, value);
        for (size_t offset = 0; offset < 3 && r >= 0; offset++)
                r = add_base64(ret, value, n, offset);
        if (r < 0)
                secret_forms_done(ret);
        return r;
}

int secret_forms_as_json(struct secret_forms *ret, const struct secret_forms *forms)
{
        int r = 0;

        *ret = (struct secret_forms){};
        for (size_t i = 0; i < forms->n && r >= 0; i++) {
                _cleanup_clear_ struct buffer inner = BUFFER_INIT(FORM_BYTES_MAX);
                r = append_inner(&inner, forms->items[i].text, forms->items[i].n);
                if (r >= 0)
                        r = add(ret, buffer_bytes(&inner), inner.length);
        }
        if (r < 0)
                secret_forms_done(ret);
        return r;
}
