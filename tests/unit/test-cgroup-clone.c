/* Cloning a process into a version 2 group, and which files the parent may write for that. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"
#include "supervisor/monitor/cgroup/cgroup-versions.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/ids/ids.h"
#include "tests/unit/test.h"

enum { TEMPLATE_ID = 54321 };

/* The version 2 tree; on a machine with version 1 it has no controllers. */
static struct cgroups *open_version_2(void)
{
        struct cgroups *cgroups = calloc(1, sizeof(*cgroups));
        struct cgroup_places *places = NULL;
        struct error err = {0};

        check_ok(cgroup_places_read(&places, &err));
        const struct cgroup_place *place = cgroup_place_of(places, CGROUP_UNIFIED);
        check(cgroups && place);
        cgroups->operations = &cgroup2_operations;
        cgroups->mount = -1;
        snprintf(cgroups->name, sizeof(cgroups->name), "cloister-%d-1", getpid());
        check_ok(cgroup_add_hierarchy(cgroups, CGROUP_UNIFIED, place->own, &err));
        free(places);
        return cgroups;
}

static struct cgroup *plain_leaf(struct cgroups *cgroups)
{
        struct error err = {0};
        struct cgroup *cgroup;

        check_ok(cgroup_new(cgroups, 1, NULL, &cgroup, &err));
        return cgroup;
}

/* A process of another id in `home` clones into `leaf`. Returns the pid, or negative errno. */
static pid_t clone_as_template(struct cgroup *home, int leaf)
{
        int ends[2], status;
        pid_t made = 0;

        check_eq_int(pipe2(ends, O_CLOEXEC), 0);
        pid_t template = fork();
        if (template == 0) {
                struct clone_args into = {.flags = CLONE_INTO_CGROUP | CLONE_PARENT,
                                          .cgroup = (uint64_t)leaf};
                if (cgroup_write(cgroup_dir(home), "cgroup.procs", "0") < 0 ||
                    setresgid(TEMPLATE_ID, TEMPLATE_ID, TEMPLATE_ID) < 0 ||
                    setresuid(TEMPLATE_ID, TEMPLATE_ID, TEMPLATE_ID) < 0)
                        _exit(2);
                made = (pid_t)syscall(SYS_clone3, &into, sizeof(into));
                if (made == 0)
                        _exit(pause());
                made = made < 0 ? -errno : made;
                _exit(fd_write_all(ends[1], &made, sizeof(made)) < 0);
        }
        close(ends[1]);
        check_eq_int(waitpid(template, &status, 0), template);
        check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        check_eq_int(fd_read_full(ends[0], &made, sizeof(made)), sizeof(made));
        close(ends[0]);
        return made;
}

static uid_t owner_of(int dir, const char *file)
{
        struct stat st;

        check_eq_int(fstatat(dir, file, &st, 0), 0);
        return st.st_uid;
}

static void test_version_1_lends_none(void)
{
        static const struct cgroup_operations version_1 = {.version = CGROUP_V1};
        struct cgroups cgroups = {.operations = &version_1};
        struct cgroup leaf = {.owner = &cgroups, .fds = {AT_FDCWD}};

        check_eq_int(cgroup_lend(&leaf, geteuid(), getegid()), -EOPNOTSUPP);
        check_eq_int(cgroup_dir(&leaf), -1);
        check(!cgroup_holds(&leaf, getpid()));
}

/* The template's descriptor gives access to our leaves, not to groups above, and not for
 * writing. */
static void check_lent(int lent, int leaf)
{
        static const char up[] = "../../../../../../../..";
        struct stat root, above;

        check_eq_int(stat("/", &root), 0);
        check_eq_int(fstatat(leaf, up, &above, 0), 0);
        check(above.st_dev == root.st_dev && above.st_ino == root.st_ino); /* the control */
        check_eq_int(fstatat(lent, up, &above, 0), 0);
        check(above.st_dev != root.st_dev);
        check_eq_int(fstatat(lent, "..", &root, 0), 0);
        check_eq_int(above.st_ino, root.st_ino);
        check(openat(lent, "cgroup.max.depth", O_WRONLY | O_CLOEXEC) < 0 && errno == EROFS);
        check(openat(leaf, "cgroup.max.depth", O_WRONLY | O_CLOEXEC) >= 0); /* the control */
        check(mkdirat(lent, "../x", 0755) < 0 && errno == EROFS);
}

static int clone_into_leaves(struct cgroups *cgroups)
{
        struct error err = {0};
        struct cgroup *home = plain_leaf(cgroups), *leaf = plain_leaf(cgroups);
        int parent = cgroups->items[0].fd;

        check_ok(ids_drop_privilege(SANDBOX_ROOT, true, &err)); /* as in the monitor */
        /* The control: no access was given. */
        check_eq_int(clone_as_template(home, cgroup_dir(leaf)), -EACCES);

        int lent = cgroup_lend(leaf, TEMPLATE_ID, TEMPLATE_ID);
        check(lent >= 0);
        check_lent(lent, cgroup_dir(leaf));
        check_eq_int(owner_of(parent, "cgroup.procs"), TEMPLATE_ID);
        check_eq_int(owner_of(cgroup_dir(leaf), "cgroup.procs"), TEMPLATE_ID);
        check_eq_int(owner_of(parent, "cgroup.subtree_control"), 0);
        check_eq_int(owner_of(cgroup_dir(leaf), "cgroup.subtree_control"), 0);
        pid_t pid = clone_as_template(home, lent);
        check(pid > 0);
        check(cgroup_holds(leaf, pid));
        check(!cgroup_holds(home, pid));
        check(!cgroup_holds(leaf, getpid()));
        /* A leaf without access is refused. */
        struct cgroup *other = plain_leaf(cgroups);
        check_eq_int(clone_as_template(home, cgroup_dir(other)), -EACCES);

        /* While the template has access we cannot write the file. Moving a process works: it takes
         * the access back. */
        check(cgroup_lend(other, TEMPLATE_ID, TEMPLATE_ID) >= 0);
        check(cgroup_write(cgroup_dir(other), "cgroup.procs", "0") == -EACCES);
        check_ok(cgroup_add(other, pid, &err));
        check(cgroup_holds(other, pid) && !cgroup_holds(leaf, pid));
        check_eq_int(owner_of(parent, "cgroup.procs"), 0);
        check_eq_int(clone_as_template(home, cgroup_dir(other)), -EACCES);
        check_eq_int(cgroup_kill(other), 0);
        check_eq_int(waitpid(pid, NULL, 0), pid);
        cgroup_free(other);
        cgroup_free(leaf);
        cgroup_free(home);
        return 0;
}

static pid_t start_sleeper(void)
{
        pid_t pid = fork();

        if (pid == 0)
                _exit(pause());
        check(pid > 0);
        return pid;
}

static void free_with(struct cgroup *leaf, pid_t pid)
{
        check_eq_int(cgroup_kill(leaf), 0);
        check_eq_int(waitpid(pid, NULL, 0), pid);
        cgroup_free(leaf);
}

/* A process is added to a leaf while templates have access to others: for example the writer of a branch's file. */
static int add_while_lent(struct cgroups *cgroups)
{
        struct error err = {0};
        struct cgroup *home = plain_leaf(cgroups), *first = plain_leaf(cgroups),
                      *second = plain_leaf(cgroups), *beside = plain_leaf(cgroups);
        int parent = cgroups->items[0].fd;

        check_ok(ids_drop_privilege(SANDBOX_ROOT, true, &err)); /* as in the monitor */
        pid_t writer = start_sleeper(), refused = start_sleeper(), also = start_sleeper();
        int lent = cgroup_lend(first, TEMPLATE_ID, TEMPLATE_ID);
        check(lent >= 0);
        check_ok(cgroup_add(beside, writer, &err));
        pid_t pid = clone_as_template(home, lent);
        check(pid > 0 && cgroup_holds(first, pid));
        close(lent);
        struct cgroup *third = plain_leaf(cgroups);
        /* Two templates, both refused. Their sessions are added, and nothing is lent then. */
        check(cgroup_lend(second, TEMPLATE_ID, TEMPLATE_ID) >= 0);
        check(cgroup_lend(third, TEMPLATE_ID + 1, TEMPLATE_ID + 1) >= 0);
        check_ok(cgroup_add(second, refused, &err));
        check_ok(cgroup_add(third, also, &err));
        check_eq_int(owner_of(parent, "cgroup.procs"), 0);
        check_eq_int(owner_of(cgroup_dir(third), "cgroup.procs"), 0);
        free_with(first, pid);
        free_with(second, refused);
        free_with(third, also);
        free_with(beside, writer);
        cgroup_free(home);
        return 0;
}

/* Foreign ids, without CAP_CHOWN. */
static int lend_without_privilege(struct cgroups *cgroups)
{
        struct error err = {0};
        struct cgroup *leaf = plain_leaf(cgroups);

        check_ok(ids_drop_privilege(SANDBOX_ROOT, false, &err));
        check_eq_int(cgroup_lend(leaf, TEMPLATE_ID, TEMPLATE_ID), -EPERM);
        check(cgroup_lend(leaf, geteuid(), getegid()) >= 0);
        cgroup_free(leaf);
        return 0;
}

/* In a child, which drops its privileges; the parent keeps enough to remove the parent directory. */
static void in_child(int (*fn)(struct cgroups *cgroups))
{
        struct cgroups *cgroups = open_version_2();
        int status;
        pid_t pid = fork();

        if (pid == 0)
                _exit(fn(cgroups));
        check_eq_int(waitpid(pid, &status, 0), pid);
        cgroups_free(cgroups);
        check_eq_int(status, 0);
}

static void test_cloned_into_a_leaf(void)
{
        in_child(clone_into_leaves);
}

static void test_added_while_another_is_lent(void)
{
        in_child(add_while_lent);
}

static void test_without_privilege(void)
{
        in_child(lend_without_privilege);
}

int main(void)
{
        /* An ordinary user's tree must be delegated: tests/vm has delegated trees. */
        if (geteuid() != 0) {
                run(test_version_1_lends_none);
                return 0;
        }
        run(test_version_1_lends_none);
        run(test_cloned_into_a_leaf);
        run(test_added_while_another_is_lent);
        run(test_without_privilege);
        return 0;
}
