/*
 * Texts that the monitor reads about control groups, ids and processes. Other programs choose the
 * names of processes and of mount points; a file can be shorter than expected. The
 * first byte says which parser; where it takes several texts, a byte 0xff separates them.
 *
 *     p   mountinfo, then /proc/self/cgroup: accepted when a group of ours was found
 *     g   every file of a control group: accepted when one has a number
 *     m   statm, status, smaps_rollup and stat of each process: accepted when memory was counted
 *     i   subuid and passwd: accepted when ids are left
 *     s   the name of a control socket: accepted when it has a pid
 */
#include <assert.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/control-path.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"
#include "supervisor/monitor/cgroup/cgroup-versions.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/process-memory.h"
#include "tests/fuzz/fuzz.h"

enum { TEXTS = 4 };

static char folder[64];
static int group = -1, proc = -1;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
        return remove(path);
}

static void remove_all(void)
{
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int make_directory(int below, const char *name)
{
        assert(mkdirat(below, name, 0755) == 0);
        int fd = openat(below, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert(fd >= 0);
        return fd;
}

/* Two processes. The second has a thread, which is looked at where the process shows nothing. */
static void make_folder(void)
{
        snprintf(folder, sizeof(folder), "/dev/shm/fuzz-proc-XXXXXX");
        assert(mkdtemp(folder));
        atexit(remove_all);
        _cleanup_close_ int top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        group = make_directory(top, "group");
        proc = make_directory(top, "proc");
        _cleanup_close_ int two = make_directory(proc, "2");
        _cleanup_close_ int task = make_directory(two, "task");
        close(make_directory(task, "3"));
        close(make_directory(proc, "1"));
}

static void put(int dir, const char *name, const char *text)
{
        _cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        assert(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0);
}

/* ---- each parser ---- */

static bool parse_places(const char *texts[TEXTS])
{
        static struct cgroup_places places;

        cgroup_places_parse(texts[0], texts[1], &places);
        assert(places.count <= CGROUP_PLACES_MAX);
        for (size_t i = 0; i < places.count; i++) {
                const struct cgroup_place *p = &places.items[i];
                assert(memchr(p->mount, '\0', sizeof(p->mount)));
                assert(memchr(p->own, '\0', sizeof(p->own)));
                assert(strncmp(p->own, p->mount, strlen(p->mount)) == 0);
                assert(p->controllers != 0 && strlen(p->mount) <= strlen(texts[0]));
        }
        return places.count > 0;
}

static bool read_group(const char *texts[TEXTS])
{
        static const char *const files[] = {"cgroup.procs",         "memory.events",
                                            "pids.events",          "cpu.stat",
                                            "memory.peak",          "memory.oom_control",
                                            "cpuacct.usage",        "memory.max_usage_in_bytes",
                                            "memory.usage_in_bytes"};
        const struct cgroup_operations *const versions[] = {&cgroup1_operations,
                                                            &cgroup2_operations};
        bool found = false;

        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
                put(group, files[i], texts[0]);
        for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
                struct cgroups owner = {.operations = versions[i], .count = 1, .mount = -1};
                struct cgroup leaf = {.owner = &owner, .fds = {group}};
                owner.items[0].controllers = ~0U;
                found |= cgroup_holds(&leaf, 77);
                found |= cgroup_oom_kills(&leaf) > 0;
                found |= cgroup_pids_refused(&leaf) > 0;
                found |= cgroup_cpu_usec(&leaf) > 0;
                found |= cgroup_memory_peak(&leaf) > 0;
        }
        return found;
}

static bool count_memory(const char *texts[TEXTS])
{
        static const char *const files[TEXTS] = {"statm", "status", "smaps_rollup", "stat"};
        static const char *const processes[] = {"1", "2", "2/task/3"};

        for (size_t i = 0; i < ARRAY_SIZE(processes); i++) {
                char path[32];
                for (size_t k = 0; k < TEXTS; k++) {
                        snprintf(path, sizeof(path), "%s/%s", processes[i], files[k]);
                        put(proc, path, texts[k]);
                }
        }
        static struct process_growth growth;
        uint64_t bound = process_memory_bound(proc, &growth).bytes;
        assert(process_memory_grown(proc, &growth) <= growth.bytes);
        uint64_t exact = process_memory_exact(proc, UINT64_MAX).bytes;
        return bound > 0 && exact > 0;
}

/* The chosen ids are delegated and not taken. */
static bool choose_ids(const char *texts[TEXTS])
{
        struct id_runs given = {}, of_user = {}, taken = {};
        struct id_run range = {1000, 1 << 20}, chosen;
        char path[96];

        snprintf(path, sizeof(path), "%s/group/ids", folder);
        put(group, "ids", texts[0]);
        assert(id_runs_add_file(&given, path, ID_SUB, NULL) >= 0 &&
               id_runs_add_file(&given, path, ID_MAP, NULL) >= 0);
        assert(id_runs_add_sub_of(&of_user, path, "me", 1000, NULL) >= 0);
        put(group, "ids", texts[1]);
        assert(id_runs_add_file(&taken, path, ID_NAMES, NULL) >= 0);
        bool found = id_runs_choose(range, 5000, 7, &given, &given, &taken, &chosen) == 0;
        if (found) {
                assert(chosen.count == 5000 && chosen.first >= range.first);
                assert(id_runs_cover(&given, chosen) && !id_runs_overlap(&taken, chosen));
        }
        id_runs_done(&given);
        id_runs_done(&of_user);
        id_runs_done(&taken);
        return found;
}

static bool parse_socket(const char *texts[TEXTS])
{
        char path[CONTROL_PATH_SIZE], *name = NULL;
        pid_t pid = control_pid_of(texts[0]);

        control_path("", pid, path);
        name = path + 1;
        /* The name is exactly that of the pid: leading zeros are refused. */
        assert(pid == 0 || strcmp(name, texts[0]) == 0);
        return pid > 0;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        const char *texts[TEXTS] = {"", "", "", ""};

        if (n < 1)
                return false;
        if (!*folder)
                make_folder();
        _cleanup_free_ char *all = strndup((const char *)data + 1, n - 1);
        assert(all);
        char *rest = all;
        for (int i = 0; i < TEXTS && rest; i++)
                texts[i] = strsep(&rest, "\xff");
        switch (data[0]) {
        case 'p':
                return parse_places(texts);
        case 'g':
                return read_group(texts);
        case 'm':
                return count_memory(texts);
        case 'i':
                return choose_ids(texts);
        case 's':
                return parse_socket(texts);
        default:
                return false;
        }
}

FUZZ_TARGET
