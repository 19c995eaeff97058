/* Host ids: choosing free ones, the mode, dropping privilege. */
#include "supervisor/monitor/ids/ids.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/capability.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "tests/unit/test.h"

static struct id_runs one(uint32_t first, uint32_t count)
{
        struct id_runs runs = {0};

        check_eq_int(id_runs_add(&runs, first, count), 0);
        return runs;
}

static int choose(struct id_run range, uint32_t needed, uint32_t start, const struct id_runs *taken,
                  uint32_t *first)
{
        struct id_runs all = one(0, UINT32_MAX);
        struct id_run run = {0};

        int r = id_runs_choose(range, needed, start, &all, &all, taken, &run);
        *first = run.first;
        id_runs_done(&all);
        return r;
}

static void test_choose(void)
{
        struct id_runs none = {0}, some = one(100000, 65536);
        uint32_t first;

        check_eq_int(choose((struct id_run){1000, 10}, 10, 0, &none, &first), 0);
        check_eq_int(first, 1000);
        check_eq_int(choose((struct id_run){1000, 10}, 11, 0, &none, &first), -ENOSPC);
        check_eq_int(choose((struct id_run){0, 10}, 10, 0, &none, &first),
                     -ENOSPC); /* never uid 0 */
        check_eq_int(choose((struct id_run){UINT32_MAX - 5, 5}, 5, 0, &none, &first), 0);
        /* The second slot, then the first one again. */
        check_eq_int(choose((struct id_run){4096, 4096}, 1000, 1, &none, &first), 0);
        check_eq_int(first, 4096 + 1024);
        check_eq_int(choose((struct id_run){4096, 4096}, 1000, 5, &none, &first), 0);
        check_eq_int(first, 4096 + 1024);
        /* A slot that is taken. */
        check_eq_int(choose((struct id_run){100000, 2048}, 1000, 0, &some, &first), -ENOSPC);
        check_eq_int(choose((struct id_run){164512, 4096}, 1000, 0, &some, &first), 0);
        check_eq_int(first, 164512 + 1024);
        id_runs_done(&some);
}

static void test_choose_inside_the_map(void)
{
        struct id_runs map = one(0, 65536), other = one(0, 1000), none = {0};
        struct id_run run;

        check_eq_int(
                id_runs_choose((struct id_run){0x70000000, 65536}, 10, 3, &map, &map, &none, &run),
                -ENOSPC);
        check_eq_int(id_runs_choose((struct id_run){2000, 10}, 10, 0, &map, &map, &none, &run), 0);
        check_eq_int(id_runs_choose((struct id_run){2000, 10}, 10, 0, &map, &other, &none, &run),
                     -ENOSPC);
        id_runs_done(&map);
        id_runs_done(&other);
}

static void test_files(void)
{
        char path[] = "/tmp/test-ids-XXXXXX";
        const char text[] =
                "root:x:0:0:root:/root:/bin/sh\n# comment\n+::::::\nu:x:1000:1000::/:\nbroken\n";
        const char sub[] = "tester:100000:65536\n1000:200000:10\nbad:x:y\n";
        struct id_runs runs = {0};
        struct error err = {0};
        int fd = mkstemp(path);

        check(fd >= 0);
        check_eq_int(fd_write_all(fd, text, strlen(text)), 0);
        check_ok(id_runs_add_file(&runs, path, ID_NAMES, &err));
        check_eq_int(runs.count, 2);
        check(id_runs_overlap(&runs, (struct id_run){0, 1}));
        check(id_runs_overlap(&runs, (struct id_run){999, 2}));
        check(!id_runs_overlap(&runs, (struct id_run){1001, 5}));
        id_runs_done(&runs);
        check_eq_int(ftruncate(fd, 0), 0);
        check_eq_int(lseek(fd, 0, SEEK_SET), 0);
        check_eq_int(fd_write_all(fd, sub, strlen(sub)), 0);
        check_ok(id_runs_add_file(&runs, path, ID_SUB, &err));
        check(id_runs_overlap(&runs, (struct id_run){165535, 1}));
        check(!id_runs_overlap(&runs, (struct id_run){165536, 1}));
        check(id_runs_cover(&runs, (struct id_run){200000, 10}));
        check(!id_runs_cover(&runs, (struct id_run){200000, 11}));
        id_runs_done(&runs);
        check_ok(id_runs_add_sub_of(&runs, path, "test", 1000, &err));
        check_eq_int(runs.count,
                     1); /* by uid; not "tester", whose name only has the same beginning */
        check_eq_int(runs.items[0].first, 200000);
        id_runs_done(&runs);
        check_ok(id_runs_add_sub_of(&runs, path, "tester", 100, &err));
        check_eq_int(runs.count, 1);
        check_eq_int(runs.items[0].count, 65536);
        id_runs_done(&runs);
        check_ok(id_runs_add_sub_of(&runs, path, "nobody", 100, &err));
        check_eq_int(runs.count, 0);
        close(fd);
        unlink(path);
        check_ok(id_runs_add_file(&runs, path, ID_NAMES, &err));
        check_eq_int(runs.count, 0);
}

static void test_mode(void)
{
        struct error err = {0};
        struct ids ids;

        check_ok(ids_choose(0, 0, 130, &ids, &err));
        if (geteuid() != 0) {
                check_eq_int(ids.mode, SANDBOX_ROOTLESS);
                check_eq_int(ids_single(&ids).first, geteuid());
                check_eq_int(ids_single(&ids).count, 1);
                check_eq_int(ids.by_helper, ids.count > 1);
                check(ids.by_helper ? ids.first != geteuid() : ids.first == geteuid());
                check(ids.by_helper || ids.note[0]);
                return;
        }
        check_eq_int(ids.mode, SANDBOX_ROOT);
        check_eq_int(ids.count, 129);
        check_eq_int(ids.group, ids.first);
        check_eq_int(ids.broker, IDS_DEFAULT_FIRST);
        check(ids.first > ids.broker);
        check_ok(ids_choose(3000000, 500, 130, &ids, &err));
        check_eq_int(ids.broker, 3000000);
        check_eq_int(ids.first, 3000001);
        check(ids_choose(0, 65536, 65536, &ids, &err) < 0); /* it contains root, daemon, … */
        check_has(err.text, "id_range 0+65536");
        check(ids_choose(3000000, 100, 130, &ids, &err) < 0);
}

/* Runs fn in a child and returns its exit status. */
static int in_child(int (*fn)(void))
{
        int status;
        pid_t pid = fork();

        check(pid >= 0);
        if (pid == 0)
                _exit(fn());
        check_eq_int(waitpid(pid, &status, 0), pid);
        check(WIFEXITED(status));
        return WEXITSTATUS(status);
}

static int has(cap_value_t value)
{
        cap_flag_value_t flag = CAP_CLEAR;
        cap_t now = cap_get_proc();

        cap_get_flag(now, value, CAP_EFFECTIVE, &flag);
        cap_free(now);
        return flag == CAP_SET;
}

static int drop_as_root(void)
{
        struct error err = {0};

        if (ids_drop_privilege(SANDBOX_ROOT, false, &err) < 0)
                return 1;
        if (!has(CAP_SETUID) || !has(CAP_SETGID) || has(CAP_CHOWN) || has(CAP_SYS_ADMIN) ||
            has(CAP_KILL) || getgroups(0, NULL) != 0)
                return 2;
        /* The remaining capabilities are enough to create sandboxes with their own ids. */
        struct ids ids;
        if (ids_choose(0, 0, 20, &ids, &err) < 0 || ids.mode != SANDBOX_ROOT)
                return 3;
        /* An exec by uid 0 does not restore any capability. */
        return system("grep -q '^CapEff:.0000000000000000$' /proc/self/status") == 0 ? 0 : 4;
}

static int drop_with_chown(void)
{
        struct error err = {0};

        return ids_drop_privilege(SANDBOX_ROOT, true, &err) < 0 || !has(CAP_CHOWN) || has(CAP_KILL);
}

static int drop_all(void)
{
        struct error err = {0};

        if (ids_drop_capabilities(&err) < 0 || has(CAP_SETUID))
                return 1;
        return system("grep -q '^CapEff:.0000000000000000$' /proc/self/status") == 0 ? 0 : 2;
}

static int drop_nothing(void)
{
        return system("grep -q '^CapEff:.0000000000000000$' /proc/self/status") == 0 ? 1 : 0;
}

static int drop_rootless(void)
{
        struct error err = {0};

        return ids_drop_privilege(SANDBOX_ROOTLESS, false, &err) < 0 || has(CAP_SYS_ADMIN);
}

static void test_privilege(void)
{
        check_eq_int(in_child(drop_rootless), 0);
        check_eq_int(in_child(drop_all), 0);
        if (geteuid() != 0)
                return;
        check_eq_int(in_child(drop_nothing), 0);
        check_eq_int(in_child(drop_as_root), 0);
        check_eq_int(in_child(drop_with_chown), 0);
}

/* Root of a container with its own id map, as in rootless container engines. */
static int in_container(void)
{
        struct error err = {0};
        struct ids ids;
        char byte;

        if (fd_read_full(STDIN_FILENO, &byte, 1) != 1 || setresgid(0, 0, 0) < 0 ||
            setresuid(0, 0, 0) < 0)
                return 1;
        if (ids_choose(0, 0, 130, &ids, &err) < 0 || ids.mode != SANDBOX_ROOT)
                return 2;
        return ids.broker > 0 && ids.first > ids.broker && ids.first + ids.count <= 65536 ? 0 : 3;
}

static void test_container(void)
{
        int ends[2], status;
        struct error err = {0};

        if (geteuid() != 0)
                return;
        check_eq_int(pipe2(ends, O_CLOEXEC), 0);
        pid_t pid = userns_fork(CLONE_NEWUSER);
        if (pid == 0) {
                dup2(ends[0], STDIN_FILENO);
                _exit(in_container());
        }
        check_ok(userns_map(pid, 0, 1000000, 1000000, 65536, &err));
        check_eq_int(fd_write_all(ends[1], "", 1), 0);
        check_eq_int(waitpid(pid, &status, 0), pid);
        check_eq_int(status, 0);
        close(ends[0]);
        close(ends[1]);
}

static void test_names(void)
{
        check_eq_str(ids_mode_name(SANDBOX_CAPABLE), "capable");
        check_eq_str(ids_mode_name(SANDBOX_MODE_MAX), "unknown");
        check(strlen(ids_namespace_hint(EPERM)) > 20);
}

int main(void)
{
        run(test_choose);
        run(test_choose_inside_the_map);
        run(test_files);
        run(test_names);
        run(test_mode);
        run(test_container);
        run(test_privilege);
        return 0;
}
