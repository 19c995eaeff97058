/* Control groups: which group this process is in, and the attribute files of a directory. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"
#include "tests/unit/test.h"

static void test_places_hybrid(void)
{
        static struct cgroup_places places;

        cgroup_places_parse(
                "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
                "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
                "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
                "39 31 0:36 / /sys/fs/cgroup/a\\040b rw,relatime - cgroup cgroup rw,pids\n"
                "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n"
                "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
                "9:name=systemd:/x\n8:pids:/p\n4:memory:/m/n\n2:cpu,cpuacct:/\n0::/u\n", &places);
        check_eq_int(places.count, 4);
        check_eq_str(cgroup_place_of(&places, CGROUP_MEMORY)->own, "/sys/fs/cgroup/memory/m/n");
        check_eq_str(cgroup_place_of(&places, CGROUP_PIDS)->own, "/sys/fs/cgroup/a b/p");
        check_eq_str(cgroup_place_of(&places, CGROUP_CPU)->own, "/sys/fs/cgroup/cpu,cpuacct");
        check(cgroup_place_of(&places, CGROUP_CPU) == cgroup_place_of(&places, CGROUP_CPUACCT));
        check_eq_str(cgroup_place_of(&places, CGROUP_UNIFIED)->own, "/sys/fs/cgroup/unified/u");
        check_eq_str(cgroup_place_of(&places, CGROUP_UNIFIED)->mount, "/sys/fs/cgroup/unified");
}

static void test_places_in_a_container(void)
{
        static struct cgroup_places places;
        const char *mounts = "35 31 0:32 /docker/abc /cg/memory rw - cgroup cgroup rw,memory\n"
                             "36 31 0:33 /docker/abc /cg/pids rw - cgroup cgroup rw,pids\n";

        cgroup_places_parse(mounts, "4:memory:/docker/abc/sub\n5:pids:/docker/abcd\n", &places);
        check_eq_int(places.count, 1); /* pids: "/docker/abcd" is not below "/docker/abc" */
        check_eq_str(cgroup_place_of(&places, CGROUP_MEMORY)->own, "/cg/memory/sub");
        cgroup_places_parse("1 2 0:3 / /c rw - cgroup2 cgroup2 rw\n", "0::/../elsewhere\n",
                            &places);
        check_eq_int(places.count, 0);
        cgroup_places_parse("1 2 0:3 / /c rw - cgroup2 cgroup2 rw\n", "0::/\n", &places);
        check_eq_str(cgroup_place_of(&places, CGROUP_UNIFIED)->own, "/c");
        cgroup_places_parse("", "", &places);
        check_eq_int(places.count, 0);
        cgroup_places_parse("nonsense\n - \n1 2 3\n", "::\n:\n0\n", &places);
        check_eq_int(places.count, 0);
}

/* An incomplete escape stays as it is. No byte after the text is read: the first line is longer. */
static void test_places_with_a_cut_escape(void)
{
        static struct cgroup_places places;

        cgroup_places_parse("1 2 0:3 / /ccccccccccccccc/ddddd rw - cgroup cgroup rw,memory\n"
                            "1 2 0:4 / /a\\1 rw - cgroup2 c rw\n",
                            "4:memory:/\n0::/\n", &places);
        check_eq_int(places.count, 2);
        check_eq_str(cgroup_place_of(&places, CGROUP_UNIFIED)->mount, "/a\\1");
        cgroup_places_parse("1 2 0:4 / /a\\-12\\0401\\13x rw - cgroup2 c rw\n", "0::/\n", &places);
        check_eq_str(cgroup_place_of(&places, CGROUP_UNIFIED)->mount, "/a\\-12 1\\13x");
}

/* Paths of mountinfo may be longer than any that can be opened. */
static void test_places_with_a_long_path(void)
{
        static struct cgroup_places places;
        static char line[8192];

        snprintf(line, sizeof(line), "1 2 0:4 / /%05000d rw - cgroup2 c rw\n", 0);
        cgroup_places_parse(line, "0::/\n", &places);
        check_eq_int(places.count, 0);
}

/* The option may be anywhere among those of the super block; those of the mount itself do not count. */
static void test_nsdelegate(void)
{
        static const struct {
                const char *own, *of_tree;
                bool is_on;
        } tries[] = {
                {"rw", "rw", false},
                {"rw", "rw,nsdelegate", true},
                {"rw", "rw,nsdelegate,memory_recursiveprot", true},
                {"rw,nosuid", "rw,memory_recursiveprot,nsdelegate", true},
                {"rw,nsdelegate", "rw", false},
                {"rw", "rw,nonsdelegate,nsdelegated,nsdelegat", false},
        };

        static struct cgroup_places places;

        for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
                char line[256];
                snprintf(line, sizeof(line), "1 2 0:3 / /c %s - cgroup2 cgroup2 %s\n", tries[i].own,
                         tries[i].of_tree);
                cgroup_places_parse(line, "0::/\n", &places);
                check_eq_int(places.count, 1);
                check_eq_int(places.items[0].nsdelegate, tries[i].is_on);
        }
        cgroup_places_parse("1 2 0:3 / /c rw - cgroup cgroup rw,pids,nsdelegate\n", "5:pids:/\n",
                            &places);
        check(places.count == 1 && !places.items[0].nsdelegate);
}

static void test_attribute_files(void)
{
        char directory[] = "/tmp/test-cgroup-XXXXXX";
        char text[8];

        check(mkdtemp(directory));
        int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check(fd >= 0);
        check_eq_int(cgroup_write(fd, "memory.max", "1"), -ENOENT);
        close(openat(fd, "events", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        check_eq_int(cgroup_write(fd, "events", "low 0\noom 3\noom_kill 7\n"), 0);
        check_eq_int(cgroup_read_key(fd, "events", "oom_kill"), 7);
        check_eq_int(cgroup_read_key(fd, "events", "oom"), 3);
        check_eq_int(cgroup_read_key(fd, "events", "absent"), 0);
        check_eq_int(cgroup_read(fd, "events", text, sizeof(text)), 7);
        check_eq_int(unlinkat(fd, "events", 0), 0);
        check_eq_int(mkdirat(fd, "a", 0700), 0);
        check_eq_int(mkdirat(fd, "a/b", 0700), 0);
        check_eq_int(cgroup_tree_remove(fd, "a", 0), 0);
        check_eq_int(cgroup_tree_remove(fd, "a", 0), 0);
        close(fd);
        check_eq_int(rmdir(directory), 0);
}

int main(void)
{
        run(test_places_hybrid);
        run(test_places_in_a_container);
        run(test_places_with_a_cut_escape);
        run(test_places_with_a_long_path);
        run(test_nsdelegate);
        run(test_attribute_files);
        return 0;
}
