/* Names of entries in layers, and the bounds of an import. */
#include "rootfs/oci/layer-name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "rootfs/oci/budget.h"
#include "tests/unit/test.h"

static void test_names(void)
{
        static const struct {
                const char *name;
                int kind;
                const char *parent, *base;
        } cases[] = {
                {"a", LAYER_NAME_ENTRY, ".", "a"},
                {"./a/b/", LAYER_NAME_ENTRY, "a", "b"},
                {"/a//./b/c", LAYER_NAME_ENTRY, "a/b", "c"},
                {"..a/...", LAYER_NAME_ENTRY, "..a", "..."},
                {"", LAYER_NAME_ROOT, ".", ""},
                {"./", LAYER_NAME_ROOT, ".", ""},
                {"/", LAYER_NAME_ROOT, ".", ""},
                {"a/.wh.b", LAYER_NAME_WHITEOUT, "a", "b"},
                {".wh.a", LAYER_NAME_WHITEOUT, ".", "a"},
                {".wh....", LAYER_NAME_WHITEOUT, ".", "..."},
                {"a/.wh..wh..opq", LAYER_NAME_OPAQUE, "a", ""},
                {".wh..wh..opq", LAYER_NAME_OPAQUE, ".", ""},
                {".wh..wh.plnk", LAYER_NAME_LEFT_OUT, ".", NULL},
                {"a/.wh.b/c", LAYER_NAME_LEFT_OUT, "a/.wh.b", "c"},
                {"dev", LAYER_NAME_LEFT_OUT, ".", "dev"},
                {"./dev/null", LAYER_NAME_LEFT_OUT, "dev", "null"},
                {"/tmp/a/b", LAYER_NAME_LEFT_OUT, "tmp/a", "b"},
                {"a/dev/b", LAYER_NAME_ENTRY, "a/dev", "b"},
                {"device", LAYER_NAME_ENTRY, ".", "device"},
                {"..", -EXDEV, NULL, NULL},
                {"a/..", -EXDEV, NULL, NULL},
                {"a/../b", -EXDEV, NULL, NULL},
                {"/../a", -EXDEV, NULL, NULL},
                {"dev/../a", -EXDEV, NULL, NULL},
                {".wh...", -EINVAL, NULL, NULL},
                {".wh..", -EINVAL, NULL, NULL},
                {"a/.wh.", -EINVAL, NULL, NULL},
        };
        struct layer_name name;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                check_eq_int(layer_name_parse(cases[i].name, &name), cases[i].kind);
                if (cases[i].parent)
                        check_eq_str(name.parent, cases[i].parent);
                if (cases[i].base)
                        check_eq_str(name.base, cases[i].base);
                if (cases[i].kind < 0)
                        check(*layer_name_problem(cases[i].kind));
        }
}

static void test_lengths(void)
{
        char text[3 * PATH_MAX] = "";
        struct layer_name name;

        memset(text, 'x', NAME_MAX);
        check_eq_int(layer_name_parse(text, &name), LAYER_NAME_ENTRY);
        memset(text, 'x', NAME_MAX + 1);
        check_eq_int(layer_name_parse(text, &name), -ENAMETOOLONG);

        for (int depth = 1; depth <= LAYER_DEPTH_MAX + 1; depth++) {
                memset(text, 0, sizeof(text));
                for (int i = 0; i < depth; i++)
                        strcat(text, "d/");
                check_eq_int(layer_name_parse(text, &name),
                             depth <= LAYER_DEPTH_MAX ? LAYER_NAME_ENTRY : -ELOOP);
        }

        /* Below the bound of the depth, a path may still be too long. */
        memset(text, 0, sizeof(text));
        for (int i = 0; i < 40; i++)
                snprintf(text + strlen(text), 130, "%0128d/", i);
        check_eq_int(layer_name_parse(text, &name), -ENAMETOOLONG);
}

static void test_bounds(void)
{
        struct budget b = {.bytes_max = 1000};
        struct error err = {};

        check_eq_int(budget_write(&b, 1000, &err), 0);
        check_eq_int(budget_write(&b, 1, &err), -EFBIG);
        check_eq_int(budget_write(&b, UINT64_MAX, NULL), -EFBIG);
        check_eq_int(budget_read(&b, 1000, 1000, 1, &err), 0);
        check_eq_int(budget_read(&b, 1, 1001, 1, &err), -EFBIG);

        b = (struct budget){.bytes_max = UINT64_MAX};
        uint64_t much = BUDGET_RATIO_FROM + 1;
        check_eq_int(budget_read(&b, 1, much, much / BUDGET_RATIO_MAX, &err), 0);
        check_eq_int(budget_read(&b, 1, much, much / BUDGET_RATIO_MAX - 1, &err), -EFBIG);
        check_eq_int(budget_read(&b, 1, BUDGET_RATIO_FROM, 1, &err), 0);

        for (int i = 0; i < BUDGET_ENTRIES_MAX; i++)
                check_eq_int(budget_entry(&b, &err), 0);
        check_eq_int(budget_entry(&b, &err), -E2BIG);
}

int main(void)
{
        run(test_names);
        run(test_lengths);
        run(test_bounds);
        return 0;
}
