/*
 * The floor of a session: a CPython forked into the same namespaces and mounts.
 *
 *     floor-session ROUNDS [HEAP_MIB [LIBPYTHON]]      {"ns": [N, ...]}
 *
 * A round lasts from the creation of a pipe to the byte that the child writes after it evaluated
 * `1+1`. The child is the first process of its namespaces; there is no init, monitor or broker, and
 * no check. It writes its id map, mounts a proc and three tmpfs,
 * gives up its capabilities and loads the filter of a worker on top of the template's. HEAP_MIB:
 * additional memory of the template, in Python lists.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/filter-load.h"
#include "base/mount.h"
#include "bench/libpython.h"
#include "bench/namespaces.h"
#include "policy/seccomp/filter.h"

enum { MIB = 1024 * 1024, ROUNDS_MAX = 100000, ID_INSIDE = 1000, HEAP_MAX = 16 * 1024 };

/* The modules that a template imports. */
static const char imports[] =
        "import asyncio, base64, bisect, collections, concurrent.futures, contextlib, copy,"
        "dataclasses, datetime, decimal, enum, functools, gc, hashlib, heapq, importlib.util,"
        "inspect, io, itertools, json, linecache, logging, math, operator, os, pathlib, pickle,"
        "queue, random, re, shutil, signal, string, struct, subprocess, tempfile, textwrap,"
        "threading, time, traceback, types, typing, urllib.parse, warnings\n"
        "heap = [[i] for i in range(%ld)]\n"
        "gc.collect(); gc.freeze()\n";
/* The approximate size of a list of one number and its slot in another list. */
enum { BYTES_A_LIST = 104 };

static struct {
        void (*start)(int signals);
        int (*run)(const char *code);
        void (*before_fork)(void), (*after_fork_parent)(void), (*after_fork_child)(void);
} python;

static _Noreturn void die(const char *what)
{
        fprintf(stderr, "floor-session: %s: %s\n", what, strerror(errno));
        _exit(1);
}

static _Noreturn void die_of(const struct error *error)
{
        fprintf(stderr, "floor-session: %s\n", error->text);
        _exit(1);
}

static uint64_t now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void boot(const char *path, long heap_mib)
{
        const struct libpython_symbol wanted[] = {
                {"Py_InitializeEx", &python.start},
                {"PyRun_SimpleString", &python.run},
                {"PyOS_BeforeFork", &python.before_fork},
                {"PyOS_AfterFork_Parent", &python.after_fork_parent},
                {"PyOS_AfterFork_Child", &python.after_fork_child},
        };
        char code[sizeof(imports) + 32];

        libpython_open(path, wanted, ARRAY_SIZE(wanted));
        python.start(0);
        snprintf(code, sizeof(code), imports, heap_mib * MIB / BYTES_A_LIST);
        if (python.run(code) != 0)
                die("the imports");
}

/* As few mounts as a template has, because each session copies them. */
static void make_root(void)
{
        static const char *const places[] = {"proc", "dev", "tmp", "workspace", "dev/shm"};
        struct error error = {};

        int root = mount_tmpfs_new(MIB, 64, 0755, 0, &error);
        int proc = root < 0 ? root : mount_proc_new(MOUNT_PROC_WHOLE, &error);
        if (proc < 0)
                die_of(&error);
        for (size_t i = 0; i < ARRAY_SIZE(places); i++)
                if (mkdirat(root, places[i], 0755) < 0)
                        die(places[i]);
        if (mount_over_root(root, &error) < 0 || mount_attach(proc, root, "proc", &error) < 0 ||
            mount_become_root(root, &error) < 0)
                die_of(&error);
        close(root);
        close(proc);
}

static void drop_capabilities(void)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[2] = {};

        if (syscall(SYS_setresgid, ID_INSIDE, ID_INSIDE, ID_INSIDE) < 0 ||
            syscall(SYS_setresuid, ID_INSIDE, ID_INSIDE, ID_INSIDE) < 0)
                die("become the user");
        for (int capability = 0; prctl(PR_CAPBSET_DROP, capability) == 0; capability++)
                ;
        if (syscall(SYS_capset, &header, none) < 0)
                die("capset");
}

static _Noreturn void child(int answer, int filter)
{
        static const char *const writable[] = {"tmp", "workspace", "dev/shm"};
        struct error error = {};

        namespaces_map_ids(ID_INSIDE, 0, 0);
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                die("make mounts private");
        int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        int proc = root < 0 ? root : mount_proc_new(MOUNT_PROC_OWN, &error);
        if (proc < 0 || mount_attach(proc, root, "proc", &error) < 0)
                die_of(&error);
        for (size_t i = 0; i < ARRAY_SIZE(writable); i++)
                if (mount_tmpfs_at(root, writable[i], 64 * MIB, 4096, 01777, &error) < 0)
                        die_of(&error);
        if (chdir("/workspace") < 0)
                die("enter /workspace");
        drop_capabilities();
        python.after_fork_child();
        if (filter_load(filter, &error) < 0)
                die_of(&error);
        if (python.run("assert 1+1 == 2") != 0 || write(answer, "2", 1) != 1)
                _exit(1);
        _exit(0);
}

static uint64_t one_round(int filter)
{
        struct clone_args args = {
                .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
                         CLONE_NEWUTS | CLONE_NEWCGROUP,
                .exit_signal = SIGCHLD,
        };
        uint64_t begin = now();
        int ends[2], status;
        char byte;

        if (pipe2(ends, O_CLOEXEC) < 0)
                die("pipe");
        python.before_fork();
        pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
        if (pid == 0)
                child(ends[1], filter);
        python.after_fork_parent();
        if (pid < 0)
                die("clone3");
        close(ends[1]);
        ssize_t n = read(ends[0], &byte, 1);
        uint64_t took = now() - begin;
        close(ends[0]);
        if (waitpid(pid, &status, 0) != pid || n != 1)
                die("the child failed");
        return took;
}

int main(int argc, char **argv)
{
        long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
        long heap = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
        struct error error = {};

        if (argc > 4 || rounds < 1 || rounds > ROUNDS_MAX || heap < 0 || heap > HEAP_MAX) {
                fprintf(stderr, "usage: %s ROUNDS [HEAP_MIB [LIBPYTHON]]\n", argv[0]);
                return 2;
        }
        int template_filter = filter_compile(FILTER_TEMPLATE, &error);
        int worker_filter = template_filter < 0 ? -1 : filter_compile(FILTER_WORKER, &error);
        if (worker_filter < 0)
                die_of(&error);
        namespaces_enter();
        boot(argc > 3 ? argv[3] : NULL, heap);
        make_root();
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (filter_load(template_filter, &error) < 0)
                die_of(&error);
        printf("{\"ns\": [");
        for (long i = 0; i < rounds; i++)
                printf("%s%" PRIu64, i ? ", " : "", one_round(worker_filter));
        puts("]}");
        return 0;
}
