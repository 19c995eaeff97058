/* Directories by path, and the user's by the XDG Base Directory Specification. */
#include "base/path.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/test.h"

static void test_make_directories(void)
{
        char root[] = "/tmp/cloister-test-XXXXXX", path[128], file[128];
        struct stat st;

        check(mkdtemp(root));
        snprintf(path, sizeof(path), "%s/a/b/c", root);
        check_eq_int(path_make_parents(path, 0700), 0);
        check(stat(path, &st) < 0);
        check_eq_int(path_make_directories(path, 0700), 0);
        check_eq_int(path_make_directories(path, 0755), 0);
        check_eq_int(stat(path, &st), 0);
        check_eq_int(st.st_mode & 0777, 0700);
        snprintf(file, sizeof(file), "%s/file", root);
        check_eq_int(mknod(file, S_IFREG | 0600, 0), 0);
        snprintf(path, sizeof(path), "%s/below", file);
        check_eq_int(path_make_directories(path, 0700), -ENOTDIR);
        check_eq_int(path_make_directories("", 0700), -ENOENT);
        for (const char *const *p = (const char *const[]){"file", "a/b/c", "a/b", "a", NULL}; *p;
             p++) {
                snprintf(path, sizeof(path), "%s/%s", root, *p);
                check_eq_int(remove(path), 0);
        }
        check_eq_int(rmdir(root), 0);
}

static void test_in_base(void)
{
        char path[32];

        check_eq_int(path_in_base("/x", "/home/u", ".config", "c/d", path, sizeof(path)), 0);
        check_eq_str(path, "/x/c/d");
        /* A relative base is ignored. */
        check_eq_int(path_in_base("x", "/home/u", ".config", "c/d", path, sizeof(path)), 0);
        check_eq_str(path, "/home/u/.config/c/d");
        check_eq_int(path_in_base(NULL, "/home/u", ".config", "c", path, sizeof(path)), 0);
        check_eq_str(path, "/home/u/.config/c");
        check_eq_int(path_in_base(NULL, "u", ".config", "c", path, sizeof(path)), -ENOENT);
        check_eq_int(path_in_base(NULL, NULL, ".config", "c", path, sizeof(path)), -ENOENT);
        check_eq_int(path_in_base("/x", NULL, "", "c", path, 4), -ENAMETOOLONG);
}

int main(void)
{
        run(test_make_directories);
        run(test_in_base);
        return 0;
}
