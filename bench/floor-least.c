/*
 * The floors of a session's processor time: sandboxes that a C program makes, with our filter and our init.
 *
 *     floor-least shape|least INIT [GROUP]...
 *
 * For each line "N" of standard input it makes N sandboxes, one after the other, and then prints "{}". In each, PID 1 maps an id,
 * mounts a proc and tmpfs, forks a worker and executes INIT, which is cloister-init. Released by it, the worker writes to some pages
 * of the template's heap, loads the filter and writes a byte; then the sandbox is killed. "shape" asks the kernel for what a session
 * asks for, "least" for the least: no network and ipc namespace, one tmpfs, fewer pages, taken by one call, and a heap that is a
 * private mapping of a memfd, for which fork() copies no page tables. Each sandbox gets a control group in each of the directories
 * GROUP, as a session does as root.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "base/mount.h"
#include "bench/namespaces.h"
#include "policy/seccomp/filter.h"
#include "rpc/sandbox-messages.h"

enum {
        MIB = 1024 * 1024,
        PAGE = 4096,
        HEAP = 16 * MIB,
        STACK = 256 * 1024,
        ID_INSIDE = 1000,
        MAPPINGS = 60, /* of files, about as many as an interpreter with its extension modules */
        FDS_FROM = 64, /* above all that init expects */
        GROUP_TRIES =
                500, /* a millisecond each: an ended process stays in its group for a moment */
        GROUPS_MAX = 8,
        ANSWER_MS = 30000,
};

static const struct shape {
        const char *name;
        int namespaces;
        int n_tmpfs, n_pages;
        bool populates, is_image;
} shapes[] = {
        {"shape",
         CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWCGROUP |
                 CLONE_NEWNET | CLONE_NEWIPC,
         3, 400, false, false},
        {"least", CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWCGROUP, 1,
         150, true, true},
};

static struct {
        const struct shape *shape;
        int init, root, filters[2]; /* of worker and init */
        char *heap, *stack;
        int groups[GROUPS_MAX], n_groups;
        int gate[2], answer[2];
        int report[2], control[2], changes, syncs;
} floor_;

static _Noreturn void die(const char *what)
{
        fprintf(stderr, "floor-least: %s: %s\n", what, strerror(errno));
        _exit(1);
}

static _Noreturn void die_of(const struct error *error)
{
        fprintf(stderr, "floor-least: %s\n", error->text);
        _exit(1);
}

/* ---- the template ---- */

static void make_root(void)
{
        static const char *const places[] = {"proc", "t0", "t1", "t2"};
        struct error error = {};

        floor_.root = mount_tmpfs_new(MIB, 64, 0755, 0, &error);
        int proc = floor_.root < 0 ? -1 : mount_proc_new(MOUNT_PROC_WHOLE, &error);
        if (proc < 0)
                die_of(&error);
        for (size_t i = 0; i < ARRAY_SIZE(places); i++)
                if (mkdirat(floor_.root, places[i], 0755) < 0)
                        die(places[i]);
        if (mount_over_root(floor_.root, &error) < 0 ||
            mount_attach(proc, floor_.root, "proc", &error) < 0 ||
            mount_become_root(floor_.root, &error) < 0)
                die_of(&error);
        close(proc);
}

static void make_memory(void)
{
        int image = floor_.shape->is_image ? memfd_create("heap", MFD_CLOEXEC) : -1;
        int flags = MAP_PRIVATE | (image < 0 ? MAP_ANONYMOUS : 0);

        if (image >= 0) {
                _cleanup_free_ char *data = malloc(HEAP);
                if (!data || fd_write_all(image, memset(data, 1, HEAP), HEAP) < 0)
                        die("write the heap");
        }
        floor_.heap = mmap(NULL, HEAP, PROT_READ | PROT_WRITE, flags, image, 0);
        floor_.stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                            0);
        if (floor_.heap == MAP_FAILED || floor_.stack == MAP_FAILED)
                die("mmap");
        if (image < 0)
                memset(floor_.heap, 1, HEAP);
        for (int i = 0; i < MAPPINGS; i++) {
                const volatile char *at = mmap(NULL, 8 * PAGE,
                                               i % 3 ? PROT_READ : PROT_READ | PROT_EXEC,
                                               MAP_PRIVATE, floor_.init, 0);
                if (at == MAP_FAILED)
                        die("map a file");
                (void)*at;
        }
        fd_close_many(&image, 1);
}

/* ---- a sandbox ---- */

static _Noreturn void be_worker(int release)
{
        const struct shape *shape = floor_.shape;
        const struct init_hello hello = {.memory = HEAP};
        struct error error = {};
        char byte;

        if (filter_load(floor_.filters[0], &error) < 0)
                die_of(&error);
        if (fd_write_all(release, &hello, sizeof(hello)) < 0 || read(release, &byte, 1) != 1)
                die("the release");
        if (shape->populates)
                madvise(floor_.heap, (size_t)shape->n_pages * PAGE, MADV_POPULATE_WRITE);
        size_t step = shape->populates ? PAGE : HEAP / (size_t)shape->n_pages / PAGE * PAGE;
        for (size_t i = 0; i < (size_t)shape->n_pages; i++)
                floor_.heap[i * step]++;
        if (write(floor_.answer[1], "2", 1) != 1)
                _exit(1);
        for (;;)
                pause();
}

static _Noreturn void become_init(int release, int proc, int workspace)
{
        const struct {
                int from, to;
        } list[] = {
                {floor_.report[1], INIT_REPORT_FD},
                {release, INIT_RELEASE_FD},
                {floor_.control[1], INIT_CONTROL_FD},
                {floor_.filters[1], INIT_FILTER_FD},
                {floor_.changes, INIT_CHANGES_FD},
                {workspace, INIT_WORKSPACE_FD},
                {proc, INIT_PROC_FD},
                {floor_.changes, INIT_LOCKS_FD},
                {floor_.syncs, INIT_SYNCS_FD},
        };

        static char name[] = "init";
        char *const arguments[] = {name, NULL}, *const environment[] = {NULL};

        for (size_t i = 0; i < ARRAY_SIZE(list); i++)
                if (dup2(list[i].from, list[i].to) < 0)
                        die("place init's descriptors");
        execveat(floor_.init, "", arguments, environment, AT_EMPTY_PATH);
        die("exec init");
}

static int be_first(void *data)
{
        static const char *const tmpfs[] = {"t0", "t1", "t2"};
        struct error error = {};
        int release[2];
        char byte;

        (void)data;
        namespaces_map_ids(ID_INSIDE, 0, 0);
        if (read(floor_.gate[0], &byte, 1) != 1 ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                die("make mounts private");
        int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        int proc = root < 0 ? root : mount_proc_new(MOUNT_PROC_OWN, &error);
        if (proc < 0 || mount_attach(proc, root, "proc", &error) < 0)
                die_of(&error);
        for (int i = 0; i < floor_.shape->n_tmpfs; i++)
                if (mount_tmpfs_at(root, tmpfs[i], 64 * MIB, 4096, 01777, &error) < 0)
                        die_of(&error);
        int workspace = openat(root, tmpfs[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, release) < 0)
                die("socketpair");
        pid_t worker = fork();
        if (worker < 0)
                die("fork the worker");
        if (worker == 0)
                be_worker(release[0]);
        become_init(fcntl(release[1], F_DUPFD_CLOEXEC, FDS_FROM),
                    fcntl(proc, F_DUPFD_CLOEXEC, FDS_FROM),
                    fcntl(workspace, F_DUPFD_CLOEXEC, FDS_FROM));
}

/* ---- control groups ---- */

static void add_to_groups(long number, pid_t pid)
{
        char path[64], text[16];

        snprintf(text, sizeof(text), "%d", (int)pid);
        for (int i = 0; i < floor_.n_groups; i++) {
                snprintf(path, sizeof(path), "floor-%ld", number);
                if (mkdirat(floor_.groups[i], path, 0755) < 0)
                        die("make a group");
                snprintf(path, sizeof(path), "floor-%ld/cgroup.procs", number);
                namespaces_write(floor_.groups[i], path, text);
        }
}

static void remove_groups(long number)
{
        char name[32];

        snprintf(name, sizeof(name), "floor-%ld", number);
        for (int i = 0; i < floor_.n_groups; i++)
                for (int n = 0;
                     unlinkat(floor_.groups[i], name, AT_REMOVEDIR) < 0 && n < GROUP_TRIES; n++)
                        usleep(1000);
}

/* CLONE_VFORK would keep the template from moving PID 1, which waits at the gate meanwhile. */
static void make_one(long number)
{
        int flags = CLONE_VM | SIGCHLD | floor_.shape->namespaces;
        char byte;

        if (floor_.n_groups == 0 && write(floor_.gate[1], "g", 1) != 1)
                die("the gate");
        pid_t pid = clone(be_first, floor_.stack + STACK,
                          flags | (floor_.n_groups == 0 ? CLONE_VFORK : 0), NULL);
        if (pid < 0)
                die("clone");
        add_to_groups(number, pid);
        if (floor_.n_groups > 0 && write(floor_.gate[1], "g", 1) != 1)
                die("the gate");
        struct pollfd answered = {.fd = floor_.answer[0], .events = POLLIN};
        if (poll(&answered, 1, ANSWER_MS) != 1 || read(floor_.answer[0], &byte, 1) != 1)
                die("the answer");
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        remove_groups(number);
}

/* ---- the program ---- */

static int above(int fd)
{
        int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FDS_FROM);

        if (moved < 0)
                die("a descriptor");
        close(fd);
        return moved;
}

static void open_all(int argc, char **argv)
{
        int *pipes[] = {floor_.gate, floor_.answer, floor_.report};
        struct error error = {};

        floor_.init = above(open(argv[2], O_RDONLY | O_CLOEXEC));
        for (int i = 3; i < argc && floor_.n_groups < GROUPS_MAX; i++)
                floor_.groups[floor_.n_groups++] = above(
                        open(argv[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        floor_.filters[0] = above(filter_compile(FILTER_WORKER, &error));
        floor_.filters[1] = above(filter_compile(FILTER_INIT, &error));
        floor_.changes = above(open("/dev/null", O_RDWR | O_CLOEXEC));
        floor_.syncs = above(memfd_create("syncs", MFD_CLOEXEC));
        if (ftruncate(floor_.syncs, SYNCS_SIZE) < 0 ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, floor_.control) < 0)
                die("what init expects");
        for (size_t i = 0; i < 3; i++)
                if (pipe2(pipes[i], O_CLOEXEC) < 0)
                        die("pipe");
        for (size_t i = 0; i < 2; i++) {
                floor_.gate[i] = above(floor_.gate[i]);
                floor_.answer[i] = above(floor_.answer[i]);
                floor_.report[i] = above(floor_.report[i]);
                floor_.control[i] = above(floor_.control[i]);
        }
}

int main(int argc, char **argv)
{
        char line[32];
        long made = 0;

        for (size_t i = 0; argc >= 3 && i < ARRAY_SIZE(shapes); i++)
                if (strcmp(argv[1], shapes[i].name) == 0)
                        floor_.shape = &shapes[i];
        if (!floor_.shape) {
                fprintf(stderr, "usage: %s shape|least INIT [GROUP]...\n", argv[0]);
                return 2;
        }
        open_all(argc, argv);
        namespaces_enter();
        make_root();
        floor_.root = above(floor_.root);
        make_memory();
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        while (fgets(line, sizeof(line), stdin)) {
                for (long n = strtol(line, NULL, 10); n > 0; n--)
                        make_one(made++);
                puts("{}");
                fflush(stdout);
        }
        return 0;
}
