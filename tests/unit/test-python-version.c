/* Versions of Python are read strictly, and compared by number. */
#include "policy/python-version.h"

#include "tests/unit/test.h"

static void test_read(void)
{
        struct python_version version;
        struct error err = {};

        check_ok(python_version_parse("3.13", &version, &err));
        check_eq_int(version.minor, 13);
        check_eq_int(version.patch, PYTHON_PATCH_ANY);
        check_ok(python_version_parse("3.9.0", &version, &err));
        check_eq_int(version.minor, 9);
        check_eq_int(version.patch, 0);
        check_ok(python_version_parse("3.99.999", &version, &err));
        check_eq_int(version.patch, 999);
}

static void test_refused(void)
{
        static const char *const texts[] = {
                "",       "3",       "3.",      "3.8",       "3.08",
                "3.013",  "3.13.",   "3.13.02", "3.13.1000", "3.100",
                "3.13t",  "3.13rc1", " 3.13",   "3.13 ",     "3.13.2.1",
                "4.0",    "2.7",     "03.13",   "3.13; rm",  "3.-1",
                "3.13\n", "../3",    "3.13/x",  "3,13",      "3.99999999999999999999",
        };

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                struct python_version version = {-7, -7};
                struct error err = {};
                check(python_version_parse(texts[i], &version, &err) < 0);
                check_has(err.text, "not a version such as \"3.13\"");
                check_eq_int(version.minor, -7);
        }
}

static void test_meant(void)
{
        check(python_version_is_meant("3.13"));
        check(python_version_is_meant("3"));
        check(!python_version_is_meant("3.13/bin/python"));
        check(!python_version_is_meant("/3.13"));
        check(!python_version_is_meant("./3.13"));
        check(!python_version_is_meant("python3.13"));
        check(!python_version_is_meant(""));
        check(!python_version_is_meant(NULL));
}

static void test_fits(void)
{
        const struct python_version any = {13, PYTHON_PATCH_ANY}, one = {13, 2}, three = {3, 1};

        check(python_version_fits(&any, "3.13.10"));
        check(!python_version_fits(&any, "3.1.3"));
        check(python_version_fits(&one, "3.13.2"));
        check(!python_version_fits(&one, "3.13.20"));
        check(!python_version_fits(&three, "3.31"));
        check(!python_version_fits(&any, "3.13.x"));
}

static void test_newer(void)
{
        const struct python_version a = {13, 9}, b = {13, 10}, c = {9, 30};

        check(python_version_is_newer(&b, &a));
        check(!python_version_is_newer(&a, &b));
        check(!python_version_is_newer(&a, &a));
        check(python_version_is_newer(&a, &c));
}

int main(void)
{
        run(test_read);
        run(test_refused);
        run(test_meant);
        run(test_fits);
        run(test_newer);
        return 0;
}
