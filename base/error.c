/* Errors of fixed size that carry context. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 0))) static int set(struct error *err, int code,
                                                     const char *format, va_list args)
{
        if (code <= 0)
                code = EIO;
        if (err) {
                err->code = code;
                vsnprintf(err->text, sizeof(err->text), format, args);
        }
        return -code;
}

int error_set(struct error *err, int code, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        int r = set(err, code, format, args);
        va_end(args);
        return r;
}

int error_errno(struct error *err, int code, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        int r = set(err, code, format, args);
        va_end(args);
        if (err) {
                size_t used = strlen(err->text);
                /* Not strerror(): it may allocate and looks at the locale. */
                const char *why = strerrordesc_np(-r);

                snprintf(err->text + used, sizeof(err->text) - used, ": %s",
                         why ? why : "unknown error");
        }
        return r;
}

int error_context(struct error *err, const char *format, ...)
{
        if (!err)
                return -EIO;

        char before[sizeof(err->text)];
        char after[sizeof(err->text)];
        va_list args;

        va_start(args, format);
        vsnprintf(before, sizeof(before), format, args);
        va_end(args);
        memcpy(after, err->text, sizeof(after));
        int n = snprintf(err->text, sizeof(err->text), "%s: ", before);
        if (n > 0 && (size_t)n < sizeof(err->text))
                snprintf(err->text + n, sizeof(err->text) - (size_t)n, "%s", after);
        if (err->code == 0)
                err->code = EIO;
        return -err->code;
}

void error_sanitize(struct error *err)
{
        err->text[sizeof(err->text) - 1] = '\0';
        if (err->code < 0 || err->code > 4095)
                err->code = EIO;
        for (char *c = err->text; *c; c++) {
                if ((unsigned char)*c < 0x20 || *c == 0x7f)
                        *c = '?';
        }
}
