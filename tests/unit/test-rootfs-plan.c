/* The content of an image: paths, links and trees. */
#include "rootfs/plan.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rootfs/contents.h"
#include "rootfs/copy.h"
#include "rootfs/store.h"

#include "tests/unit/test.h"

static char base[64];
static struct error err;

static char *at(const char *name)
{
        static char paths[8][PATH_MAX];
        static unsigned next;
        char *path = paths[next++ % 8];

        snprintf(path, PATH_MAX, "%s/%s", base, name);
        return path;
}

static void make_file(const char *name, const void *data, size_t n)
{
        _cleanup_close_ int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        check(fd >= 0);
        check_eq_int(write(fd, data, n), n);
}

static void make_directory(const char *name)
{
        check_eq_int(mkdir(at(name), 0700), 0);
}

static void make_link(const char *target, const char *name)
{
        check_eq_int(symlink(target, at(name)), 0);
}

static const struct plan_entry *find(const struct plan *plan, const char *path)
{
        for (size_t i = 0; i < plan->n; i++)
                if (strcmp(plan->entries[i].path, path) == 0)
                        return &plan->entries[i];
        return NULL;
}

static void check_kind(const struct plan *plan, const char *name, enum plan_kind kind)
{
        const struct plan_entry *entry = find(plan, at(name));

        if (!entry)
                fprintf(stderr, "%s is not planned\n", name);
        check(entry);
        check_eq_int(entry->kind, kind);
}

/* Every directory comes before its content, or the copy would fail. */
static void check_order(const struct plan *plan)
{
        for (size_t i = 0; i < plan->n; i++) {
                char parent[PATH_MAX];
                snprintf(parent, sizeof(parent), "%s", plan->entries[i].path);
                *strrchr(parent, '/') = '\0';
                bool before = parent[0] == '\0';
                for (size_t k = 0; k < i && !before; k++)
                        before = strcmp(plan->entries[k].path, parent) == 0;
                check(before);
        }
}

static void test_path_with_links(void)
{
        _cleanup_plan_ struct plan *plan = plan_new();
        _cleanup_free_ char *canonical = NULL;

        make_directory("real");
        make_directory("real/deep");
        make_file("real/deep/file", "x", 1);
        make_link("real", "relative");
        make_link(at("relative/deep"), "absolute");
        make_link("../real/./deep//../deep/file", "real/up");
        check_eq_int(plan_path(plan, at("absolute/../up"), PLAN_REQUIRED, &canonical, &err), 1);
        check_eq_str(canonical, at("real/deep/file"));
        check_kind(plan, "absolute", PLAN_LINK);
        check_kind(plan, "relative", PLAN_LINK);
        check_kind(plan, "real/up", PLAN_LINK);
        check_kind(plan, "real/deep/file", PLAN_FILE);
        check_kind(plan, "real/deep", PLAN_DIRECTORY);
        check(!find(plan, at("relative/deep")));
        check_order(plan);

        size_t n = plan->n;
        check_eq_int(plan_path(plan, at("absolute/file"), 0, NULL, &err), 1);
        check_eq_int(plan->n, n);
}

static void test_broken_paths(void)
{
        _cleanup_plan_ struct plan *plan = plan_new();

        make_link("circle2", "circle");
        make_link("circle", "circle2");
        make_link("nothing", "dangling");
        check_eq_int(plan_path(plan, at("circle"), 0, NULL, &err), -ENOENT);
        check_eq_int(plan_path(plan, at("dangling"), 0, NULL, &err), -ENOENT);
        check(!error_is_set(&err));
        check_eq_int(plan->n, 0);
        check_eq_int(plan_path(plan, at("circle"), PLAN_REQUIRED, NULL, &err), -ELOOP);
        check_has(err.text, "circle");
        check_eq_int(plan_path(plan, at("real/deep/file/x"), PLAN_REQUIRED, NULL, &err), -ENOTDIR);
        check_eq_int(plan_path(plan, "/dev/null", PLAN_REQUIRED, NULL, &err), -EINVAL);
        check_has(err.text, "/dev of its own");
        err = (struct error){};
}

static void make_compiled(const char *name, uint32_t magic, const char *source)
{
        struct stat st;

        check_eq_int(stat(at(source), &st), 0);
        uint32_t head[4] = {magic, 0, (uint32_t)st.st_mtime, (uint32_t)st.st_size};
        make_file(name, head, sizeof(head));
}

static void test_tree(void)
{
        static const char *const without[] = {"tests", "*/tests", "skip-*", NULL};
        char inside[PATH_MAX];
        const char *const roots[] = {inside, NULL};
        struct plan_tree_rules rules = {
                .without = without, .roots = roots, .cache_tag = "t", .magic = 7};
        _cleanup_plan_ struct plan *plan = plan_new();

        snprintf(inside, sizeof(inside), "%s", at("tree"));
        make_directory("tree");
        make_directory("tree/a");
        make_directory("tree/a/tests");
        make_directory("tree/__pycache__");
        make_file("tree/a/tests/no", "", 0);
        make_file("tree/skip-this", "", 0);
        make_file("tree/valid.py", "1", 1);
        make_file("tree/stale.py", "1", 1);
        make_file("tree/none.py", "1", 1);
        make_compiled("tree/__pycache__/valid.t.pyc", 7, "tree/valid.py");
        make_compiled("tree/__pycache__/valid.other.pyc", 8, "tree/valid.py");
        make_compiled("tree/__pycache__/stale.t.pyc", 8, "tree/stale.py");
        make_file("tree/a/m.so", "", 0);
        make_link("a/m.so", "tree/good");
        make_link("a", "tree/folder");
        make_link("../real/deep/file", "tree/outside");
        make_link("..", "tree/above");
        make_link("missing", "tree/missing");
        check_eq_int(mkfifo(at("tree/fifo"), 0600), 0);

        check_ok(plan_tree(plan, at("tree"), &rules, &err));
        check_order(plan);
        check_kind(plan, "tree/valid.py", PLAN_FILE);
        check_kind(plan, "tree/__pycache__/valid.t.pyc", PLAN_FILE);
        check_kind(plan, "tree/good", PLAN_LINK);
        check_kind(plan, "tree/folder", PLAN_LINK);
        check(find(plan, at("tree/a/m.so"))->linked);
        check_eq_int(plan->stale, 2);
        check_eq_int(plan->left_out, 4); /* outside, above, missing, fifo */
        static const char *const absent[] = {
                "tree/a/tests",
                "tree/skip-this",
                "tree/__pycache__/valid.other.pyc",
                "tree/__pycache__/stale.t.pyc",
                "tree/outside",
                "tree/above",
                "tree/fifo",
                "real/deep/file",
        };
        for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
                check(!find(plan, at(absent[i])));
}

static void test_copy(void)
{
        _cleanup_plan_ struct plan *plan = plan_new();
        static char large[300 * 1000];
        struct progress progress = {.quiet = true};
        char path[2 * PATH_MAX];
        struct stat st, source;

        memset(large, 'x', sizeof(large));
        make_file("large", large, sizeof(large));
        make_directory("target");
        check_eq_int(chmod(at("large"), 06711), 0);
        check_eq_int(plan_path(plan, at("large"), PLAN_REQUIRED, NULL, &err), 1);
        make_file("gone", "", 0);
        check_eq_int(plan_path(plan, at("gone"), 0, NULL, &err), 1);
        unlink(at("gone"));
        check_ok(plan_text(plan, "/etc/motd", "hello\n", false, &err));
        check_ok(plan_link(plan, "/bin/sh", "dash", &err));

        _cleanup_close_ int root = open(at("target"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        umask(022);
        check_ok(copy_plan(root, plan, &progress, &err));
        snprintf(path, sizeof(path), "%s%s", at("target"), at("large"));
        check_eq_int(stat(path, &st), 0);
        check_eq_int(stat(at("large"), &source), 0);
        check_eq_int(st.st_size, sizeof(large));
        check_eq_int(st.st_mode & 07777, 0755);
        check_eq_int(st.st_mtim.tv_nsec, source.st_mtim.tv_nsec);
        check(st.st_ino != source.st_ino);
        check_eq_int(fstatat(root, "etc/motd", &st, 0), 0);
        check_eq_int(st.st_size, 6);
        check_eq_int(st.st_mode & 07777, 0644);

        /* One that must be there is an error. */
        make_file("gone2", "", 0);
        _cleanup_plan_ struct plan *strict = plan_new();
        check_eq_int(plan_path(strict, at("gone2"), PLAN_REQUIRED, NULL, &err), 1);
        unlink(at("gone2"));
        check_eq_int(copy_plan(root, strict, &progress, &err), -ENOENT);
        check_has(err.text, "gone2");
        err = (struct error){};
}

/* Files that the readers of the image may not read are left out, counted and named; a required file is an error. */
static void test_private(void)
{
        static const struct {
                const char *name;
                mode_t mode;
                bool group,
                        all; /* whether it is planned if the group, or all, can enter the store */
        } files[] = {
                {"public/open.py", 0644, true, true},
                {"public/group", 0640, true, false},
                {"public/not-group", 0604, false, false},
                {"public/mine", 0600, false, false},
                {"public/below/key", 0644, false, false},
                {"public/only-enter/key", 0644, false, false},
        };
        char root[PATH_MAX];
        const char *const roots[] = {root, NULL};
        const struct plan_tree_rules rules = {.roots = roots, .cache_tag = "t", .magic = 7};
        static const mode_t readers[] = {0, S_IRGRP, S_IRGRP | S_IROTH};

        check_eq_int(chmod(base, 0755), 0);
        snprintf(root, sizeof(root), "%s", at("public"));
        make_directory("public");
        make_directory("public/below");
        make_directory("public/only-enter");
        check_eq_int(chmod(root, 0755), 0);
        check_eq_int(chmod(at("public/only-enter"), 0711), 0);
        for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
                make_file(files[i].name, "x", 1);
                check_eq_int(chmod(at(files[i].name), files[i].mode), 0);
        }
        make_link("mine", "public/link");
        for (size_t k = 0; k < ARRAY_SIZE(readers); k++) {
                _cleanup_plan_ struct plan *plan = plan_new();
                plan->readers = readers[k];
                check_ok(plan_tree(plan, root, &rules, &err));
                for (size_t i = 0; i < ARRAY_SIZE(files); i++)
                        check_eq_int(!!find(plan, at(files[i].name)), k == 0   ? true
                                                                      : k == 1 ? files[i].group
                                                                               : files[i].all);
                check_eq_int(!!find(plan, at("public/link")), k == 0);
                check_eq_int(plan->private.n, k == 0 ? 0 : k == 1 ? 5 : 6);
        }
        _cleanup_plan_ struct plan *plan = plan_new();
        plan->readers = S_IRGRP | S_IROTH;
        check_eq_int(plan_path(plan, at("public/mine"), 0, NULL, &err), -ENOENT);
        check_eq_int(plan_path(plan, at("public/below/key"), 0, NULL, &err), -ENOENT);
        check_has(plan->private.named[1], "public/below/key");
        check_eq_int(plan_path(plan, at("public/only-enter/key"), 0, NULL, &err), 1);
        check(!error_is_set(&err));
        check_eq_int(plan_path(plan, at("public/mine"), PLAN_REQUIRED, NULL, &err), -EPERM);
        check_has(err.text, "public/mine: other users of this machine may not read it");
        err = (struct error){};
        check_eq_int(chmod(base, 0700), 0);
        check_eq_int(plan_tree(plan, root, &rules, &err), -EPERM);
        err = (struct error){};
        check_eq_int(chmod(base, 0755), 0);

        /* A file that lost the permission after it was planned is not copied. */
        _cleanup_close_ int target = open(at("target"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct progress progress = {.quiet = true};
        char copied[2 * PATH_MAX];
        check_eq_int(plan_path(plan, at("public/open.py"), 0, NULL, &err), 1);
        check_eq_int(chmod(at("public/open.py"), 0600), 0);
        check_ok(copy_plan(target, plan, &progress, &err));
        snprintf(copied, sizeof(copied), "%s%s", at("target"), at("public/only-enter/key"));
        check_eq_int(access(copied, F_OK), 0);
        snprintf(copied, sizeof(copied), "%s%s", at("target"), at("public/open.py"));
        check_eq_int(access(copied, F_OK), -1);
}

/* A process that an index has taken over names them. The readers of the store are its owner alone, which may read all. */
static void test_libraries_of_packages(void)
{
        static const char *const refused[] = {"/etc/hostname",
                                              "out/key",
                                              "prefix/lib/key.so",
                                              "prefix/lib/closed.so",
                                              "prefix/lib/sub",
                                              "prefix/lib/gone.so",
                                              "prefix/lib/../../out/key",
                                              "prefix/lib/../lib/good.so",
                                              "prefix/lib/far/key",
                                              "out/into.so"};
        _cleanup_plan_ struct plan *plan = plan_new();
        _cleanup_free_ char *prefix = strdup(at("prefix"));
        const struct interpreter in = {.base_prefix = prefix};

        plan->readers = 0;
        make_directory("prefix");
        make_directory("prefix/lib");
        make_directory("prefix/lib/sub");
        check_eq_int(chmod(at("prefix/lib/sub"), 0755), 0);
        make_directory("out");
        make_file("out/key", "secret", 6);
        check_eq_int(chmod(at("out/key"), 0644), 0);
        make_file("prefix/lib/good.so", "x", 1);
        check_eq_int(chmod(at("prefix/lib/good.so"), 0644), 0);
        make_link("good.so", "prefix/lib/alias.so");
        make_file("prefix/lib/closed.so", "x", 1);
        make_link(at("out/key"), "prefix/lib/key.so");
        make_link(at("out"), "prefix/lib/far");
        make_link(at("prefix/lib/good.so"), "out/into.so");
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
                check_ok(contents_plan_library(
                        plan, &in, *refused[i] == '/' ? refused[i] : at(refused[i]), &err));
        check_eq_int(plan->n, 0);
        check_ok(contents_plan_library(plan, &in, at("prefix/lib/alias.so"),
                                       &err)); /* the control */
        check_kind(plan, "prefix/lib/alias.so", PLAN_LINK);
        check_kind(plan, "prefix/lib/good.so", PLAN_FILE);
}

/* Who can enter the store decides what must be left out. */
static void test_store_readers(void)
{
        static const struct {
                mode_t above, store, readers;
        } rows[] = {
                {0755, 0755, S_IRGRP | S_IROTH},
                {0755, 0711, S_IRGRP | S_IROTH},
                {0755, 0750, S_IRGRP | S_IROTH},
                {0750, 0755, S_IRGRP | S_IROTH},
                {0755, 0700, 0},
                {0700, 0755, 0},
                {0744, 0755, 0},
        };

        make_directory("above");
        make_directory("above/store");
        make_link("above/store", "store-link");
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                check_eq_int(chmod(at("above"), rows[i].above), 0);
                check_eq_int(chmod(at("above/store"), rows[i].store), 0);
                check_eq_int(store_readers(at("above/store")), rows[i].readers);
                check_eq_int(store_readers(at("store-link")), rows[i].readers);
        }
        check_eq_int(store_readers(at("no-such-store")), S_IRGRP | S_IROTH);
}

static void test_loader(void)
{
        char *loader = NULL;
        unsigned char head[256] = "\177ELF";

        check_ok(libraries_loader("/usr/bin/env", &loader, &err));
        check_eq_int(loader[0], '/');
        free(take_ptr(loader));
        make_file("not-elf", "#!/bin/sh\n", 10);
        check_eq_int(libraries_loader(at("not-elf"), &loader, &err), -ENOEXEC);
        make_file("short", head, 20);
        check_eq_int(libraries_loader(at("short"), &loader, &err), -ENOEXEC);
        head[4] = 2; /* 64 bits; program headers beyond the end */
        head[33] = 0xff;
        head[54] = 56;
        head[56] = 0xff;
        make_file("beyond", head, sizeof(head));
        check_eq_int(libraries_loader(at("beyond"), &loader, &err), -ENOEXEC);
        check(!loader);
}

int main(void)
{
        char command[128];

        /* Not below /tmp, which images do not have. */
        snprintf(base, sizeof(base), "/var/tmp/cloister-test-XXXXXX");
        check(mkdtemp(base));
        run(test_path_with_links);
        run(test_broken_paths);
        run(test_tree);
        run(test_copy);
        run(test_private);
        run(test_libraries_of_packages);
        run(test_store_readers);
        run(test_loader);
        snprintf(command, sizeof(command), "rm -r '%s'", base);
        return system(command);
}
