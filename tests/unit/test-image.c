/* image.json, names and places of images. */
#include "policy/image.h"

#include "tests/unit/test.h"

static const struct image_info example = {
        .name = "default-0123456789ab",
        .python = "/usr/bin/python3.11",
        .libpython = "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
        .version = "3.11.2",
        .created = "2026-01-02T03:04:05Z",
        .source = "/usr/bin/python3",
        .bytes = 5000000000,
        .files = 1234,
        .base = "default-00112233aabb",
        .set = "00112233aabbccdd",
        .packages = "[{\"name\": \"six\", \"version\": \"1.17.0\", \"sha256\": \"00\"}]",
};

static void test_round_trip(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(IMAGE_JSON_MAX);
        struct image_info info = {};
        struct error err = {};

        check_eq_int(image_info_append(&b, &example), 0);
        check_ok(image_info_parse(buffer_bytes(&b), b.length, &info, &err));
        check_eq_str(info.name, example.name);
        check_eq_str(info.python, example.python);
        check_eq_str(info.libpython, example.libpython);
        check_eq_str(info.version, example.version);
        check_eq_str(info.created, example.created);
        check_eq_str(info.source, example.source);
        check_eq_int(info.bytes, example.bytes);
        check_eq_int(info.files, example.files);
        check_eq_str(info.base, example.base);
        check_eq_str(info.set, example.set);
        check_eq_int(info.n_packages, 1);
}

static void test_node(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(IMAGE_JSON_MAX);
        struct image_info info = example, again = {};
        struct error err = {};

        check_eq_int(image_info_append(&b, &info), 0);
        check(!memmem(buffer_bytes(&b), b.length, "\"node\"", 6));
        buffer_consume(&b, b.length);
        snprintf(info.node, sizeof(info.node), "/usr/bin/node");
        check_eq_int(image_info_append(&b, &info), 0);
        check_ok(image_info_parse(buffer_bytes(&b), b.length, &again, &err));
        check_eq_str(again.node, "/usr/bin/node");
        check(image_info_valid(&again));
        memset(again.node, 'x', sizeof(again.node));
        check(!image_info_valid(&again));
}

static void test_link(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(IMAGE_JSON_MAX);
        struct image_info info = example;
        struct error err = {};

        /* With the link "module" no libpython is written, even if there was one. */
        info.link = TEMPLATE_LINK_MODULE;
        check_eq_int(image_info_append(&b, &info), 0);
        check(!memmem(buffer_bytes(&b), b.length, "libpython", 9));
        check_ok(image_info_parse(buffer_bytes(&b), b.length, &info, &err));
        check_eq_int(info.link, TEMPLATE_LINK_MODULE);
        check_eq_str(info.libpython, "");

        check_eq_int(image_link_parse("embed"), TEMPLATE_LINK_EMBED);
        check_eq_int(image_link_parse("module"), TEMPLATE_LINK_MODULE);
        check_eq_int(image_link_parse("static"), -1);
        check_eq_str(image_link_name(TEMPLATE_LINK_MODULE), "module");
}

/* The example with one member replaced must be refused with this text. */
static void refuse(struct image_info info, const char *part)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(IMAGE_JSON_MAX);
        struct image_info ret = {.version = "untouched"};
        struct error err = {};

        check_eq_int(image_info_append(&b, &info), 0);
        check(image_info_parse(buffer_bytes(&b), b.length, &ret, &err) < 0);
        check_has(err.text, part);
        check_eq_str(ret.version, "untouched");
}

static void test_refused_packages(void)
{
        static const char *const lists[] = {"{}", "[1]", "[{\"name\": \"six\"}]",
                                            "[{\"name\": \"a\\u001b[2J\", \"version\": \"1\"}]"};
        struct image_info info = example;

        for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
                info.packages = lists[i];
                refuse(info, "\"packages\"");
        }
        info.packages = NULL;
        snprintf(info.base, sizeof(info.base), "..");
        refuse(info, "\"base\"");
}

static void test_refused_members(void)
{
        static const char *const paths[] = {
                "usr/bin/python3",    "/usr/../../bin/python3",
                "/usr/./bin/python3", "//usr/bin/python3",
                "/usr/bin/",          "/..",
                "/usr/bin/\npython3",
        };
        struct image_info info;

        for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
                info = example;
                snprintf(info.python, sizeof(info.python), "%s", paths[i]);
                refuse(info, "\"python\"");
                info = example;
                snprintf(info.libpython, sizeof(info.libpython), "%s", paths[i]);
                refuse(info, "\"libpython\"");
        }
        info = example;
        snprintf(info.name, sizeof(info.name), "%s", "../evil");
        refuse(info, "\"name\"");
        info = example;
        info.version[0] = '\0';
        refuse(info, "\"version\"");
        info = example;
        info.bytes = UINT64_MAX;
        refuse(info, "\"bytes\"");
}

static void test_refused_documents(void)
{
        static const char *const documents[] = {
                "",
                "[]",
                "{",
                "null",
                "{}",
                "{\"format\": 2}",
                "{\"format\": \"1\"}",
                "{\"format\": 1, \"name\": 5}",
                "{\"format\": 1, \"name\": \"a\"}",
        };
        static char large[IMAGE_JSON_MAX + 1];
        struct image_info info = {};
        struct error err = {};

        for (size_t i = 0; i < ARRAY_SIZE(documents); i++)
                check(image_info_parse(documents[i], strlen(documents[i]), &info, &err) < 0);
        memset(large, ' ', sizeof(large));
        check_eq_int(image_info_parse(large, sizeof(large), &info, &err), -EFBIG);
}

static void test_names(void)
{
        char longest[IMAGE_NAME_SIZE + 1];

        check(image_name_valid("a"));
        check(image_name_valid("default-0123456789ab"));
        check(image_name_valid("My_image.v2"));
        check(!image_name_valid(""));
        check(!image_name_valid("."));
        check(!image_name_valid(".."));
        check(!image_name_valid(".hidden"));
        check(!image_name_valid("a/b"));
        check(!image_name_valid("a b"));
        check(!image_name_valid("caf\xc3\xa9"));
        memset(longest, 'x', sizeof(longest));
        longest[IMAGE_NAME_SIZE] = '\0';
        check(!image_name_valid(longest));
        longest[IMAGE_NAME_SIZE - 1] = '\0';
        check(image_name_valid(longest));
}

/* A host with one interpreter, one venv and the packages whose times the tests move. */
static int64_t packages_time, system_packages_time;

static int look(const char *path, struct image_stamp *ret)
{
        *ret = (struct image_stamp){.inode = 1, .size = 2, .mtime_ns = 3};
        if (strcmp(path, "/home/u/venv/lib/python3.11/site-packages") == 0)
                ret->mtime_ns = packages_time;
        else if (strcmp(path, "/usr/lib/python3.11/site-packages") == 0)
                ret->mtime_ns = system_packages_time;
        else if (strcmp(path, "/usr/bin/python3") != 0 &&
                 strcmp(path, "/home/u/venv/bin/python") != 0)
                return -ENOENT;
        return 0;
}

static void test_default_name(void)
{
        char a[IMAGE_NAME_SIZE], b[IMAGE_NAME_SIZE];
        struct error err = {};

        check_ok(image_default_name(NULL, NULL, look, a, &err));
        check_ok(image_default_name("/usr/bin/python3", NULL, look, b, &err));
        check_eq_str(a, b);
        check(image_name_valid(a));
        check_eq_int(strlen(a), strlen("default-0123456789ab"));
        system_packages_time = 9;
        check_ok(image_default_name(NULL, NULL, look, b, &err));
        check_eq_str(a, b);

        check_ok(image_default_name("/home/u/venv/bin/python", NULL, look, b, &err));
        check(strcmp(a, b) != 0);
        packages_time = 10;
        check_ok(image_default_name("/home/u/venv/bin/python", NULL, look, a, &err));
        check(strcmp(a, b) != 0);

        check_eq_int(image_default_name("/no/python", NULL, look, a, &err), -ENOENT);
        check_has(err.text, "/no/python");
        check_eq_int(image_default_name("python3", NULL, look, a, &err), -EINVAL);
}

/* Upgrade of a library: the time of a part changes, or the part is removed. */
static void test_parts(void)
{
        static const char parts[] = "/usr/lib/python3.11/site-packages\n/usr/lib/gone.so\n";
        char none[IMAGE_NAME_SIZE], a[IMAGE_NAME_SIZE], b[IMAGE_NAME_SIZE];
        struct error err = {};

        check_ok(image_default_name(NULL, NULL, look, none, &err));
        check_ok(image_default_name(NULL, parts, look, a, &err));
        check(strcmp(none, a) != 0);
        check_ok(image_default_name(NULL, parts, look, b, &err));
        check_eq_str(a, b);
        system_packages_time++;
        check_ok(image_default_name(NULL, parts, look, b, &err));
        check(strcmp(a, b) != 0);
        check_ok(image_default_name(NULL, "/usr/lib/python3.11/site-packages\n/usr/bin/python3",
                                    look, a, &err));
        check(strcmp(a, b) != 0);
        check_ok(image_default_name(NULL, "relative\n\n", look, b, &err));
        check_eq_str(none, b);
}

static void test_name_with_node(void)
{
        static const char parts[] = "/usr/lib/python3.11/site-packages\n";
        char none[IMAGE_NAME_SIZE], a[IMAGE_NAME_SIZE], b[IMAGE_NAME_SIZE];
        struct error err = {};

        check_ok(image_default_name(NULL, NULL, look, none, &err));
        memcpy(a, none, sizeof(a));
        check_ok(image_name_add_node(a, NULL, NULL, look, &err));
        check_ok(image_name_add_node(a, "", "/usr/lib/x", look, &err));
        check_eq_str(a, none);
        /* Any file that exists is a program to it. */
        check_ok(image_name_add_node(a, "/home/u/venv/bin/python", NULL, look, &err));
        check_eq_int(strlen(a), strlen("node-0123456789ab"));
        check(image_name_valid(a) && image_name_is_default(a) && image_name_is_default(none));
        check(!image_name_is_default("numbers"));
        memcpy(b, none, sizeof(b));
        check_ok(image_name_add_node(b, "/usr/bin/python3", NULL, look, &err));
        check(strcmp(a, b) != 0);
        check_eq_int(image_name_add_node(b, "/no/node", NULL, look, &err), -ENOENT);
        check_has(err.text, "/no/node");
        /* A library that it uses, which is upgraded. */
        memcpy(b, none, sizeof(b));
        check_ok(image_name_add_node(b, "/home/u/venv/bin/python", parts, look, &err));
        check(strcmp(a, b) != 0);
        system_packages_time++;
        memcpy(a, none, sizeof(a));
        check_ok(image_name_add_node(a, "/home/u/venv/bin/python", parts, look, &err));
        check(strcmp(a, b) != 0);
}

static void check_store(uid_t uid, struct image_store_env env, const char *expected)
{
        char path[64];
        struct error err = {};

        int r = image_store_path(uid, &env, path, sizeof(path), &err);
        if (!expected) {
                check(r < 0);
                return;
        }
        check_eq_int(r, 0);
        check_eq_str(path, expected);
}

static void test_store(void)
{
        char longer[80];

        memset(longer, 'x', sizeof(longer));
        longer[0] = '/';
        longer[sizeof(longer) - 1] = '\0';
        check_store(0, (struct image_store_env){.home = "/root"}, "/var/lib/cloister/images");
        check_store(0, (struct image_store_env){.store = "/s"}, "/s");
        check_store(1, (struct image_store_env){.home = "/h"}, "/h/.local/share/cloister/images");
        check_store(1, (struct image_store_env){.data_home = "/d", .home = "/h"},
                    "/d/cloister/images");
        check_store(1, (struct image_store_env){.store = "s", .data_home = "d", .home = "/h"},
                    "/h/.local/share/cloister/images");
        check_store(1, (struct image_store_env){.data_home = "", .home = ""}, NULL);
        check_store(1, (struct image_store_env){.home = longer}, NULL);
}

int main(void)
{
        run(test_round_trip);
        run(test_node);
        run(test_link);
        run(test_refused_members);
        run(test_refused_packages);
        run(test_refused_documents);
        run(test_names);
        run(test_default_name);
        run(test_parts);
        run(test_name_with_node);
        run(test_store);
        return 0;
}
