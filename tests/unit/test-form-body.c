/* Forms that a browser posts. */
#include "rpc/http/form-body.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/test.h"

static int read_form(struct form_body *form, const char *text, struct error *err)
{
        return form_body_read(form, text, strlen(text), err);
}

static void test_fields(void)
{
        struct form_body form;
        struct error err = {};

        check_ok(read_form(&form, "token=a%2Bb%2f%C3%A9+c&&answer=&lone&%6bey=1=2", &err));
        check_eq_int(form.n, 4);
        check_eq_str(form_body_get(&form, "token"), "a+b/\xc3\xa9 c");
        check_eq_str(form_body_get(&form, "answer"), "");
        check_eq_str(form_body_get(&form, "lone"), "");
        check_eq_str(form_body_get(&form, "key"), "1=2");
        check(!form_body_get(&form, "KEY") && !form_body_get(&form, ""));
        form_body_done(&form);
        for (size_t i = 0; i < sizeof(form); i++)
                check_eq_int(((const char *)&form)[i], 0); /* a token was in it */
        check_ok(form_body_read(&form, "", 0, &err));
        check_eq_int(form.n, 0);
}

static void test_refusals(void)
{
        static const struct {
                const char *text, *why;
        } cases[] = {
                {"token=a&token=b", "two fields of one name"},
                {"token=a&%74oken=b", "two fields of one name"},
                {"=a&=b", "two fields of one name"},
                {"a=%", "not encoded"},
                {"a=%4", "not encoded"},
                {"a=%g0", "not encoded"},
                {"a=%0g", "not encoded"},
                {"a=%00", "not encoded"},
                {"%00=a", "not encoded"},
                {"a=%&b=1", "not encoded"},
        };
        struct form_body form;

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct error err = {};
                check_eq_int(read_form(&form, cases[i].text, &err), -EINVAL);
                check(strstr(err.text, cases[i].why));
        }
        struct error err = {};
        check_eq_int(form_body_read(&form, "a=\0b", 4, &err), -EINVAL);
        check(strstr(err.text, "NUL"));
}

static void test_bounds(void)
{
        static char text[FORM_BODY_MAX + 2];
        struct form_body form;
        struct error err = {};
        size_t n = 0;

        memset(text, 'x', FORM_BODY_MAX + 1);
        check_ok(form_body_read(&form, text, FORM_BODY_MAX, &err));
        check_eq_int(strlen(form.fields[0].name), FORM_BODY_MAX);
        check_eq_int(form_body_read(&form, text, FORM_BODY_MAX + 1, &err), -EMSGSIZE);
        for (int i = 0; i < FORM_FIELDS_MAX; i++)
                n += (size_t)sprintf(text + n, "f%d=&", i);
        check_ok(form_body_read(&form, text, n, &err));
        check_eq_int(form.n, FORM_FIELDS_MAX);
        n += (size_t)sprintf(text + n, "last");
        check_eq_int(form_body_read(&form, text, n, &err), -EMSGSIZE);
}

int main(void)
{
        run(test_fields);
        run(test_refusals);
        run(test_bounds);
        return 0;
}
