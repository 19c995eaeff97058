/* The processes of a template's pid namespace. */
#include "supervisor/monitor/template/family.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum { NAME_SIZE = 17, LIST_SIZE = 64 * 1024 };

/* A file of a process into text (NUL-terminated, cut). Returns its length or negative errno. */
static ssize_t read_file(pid_t pid, const char *name, char *text, size_t size)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        ssize_t n = fd_read_full(fd, text, size - 1);
        text[n < 0 ? 0 : n] = '\0';
        return n;
}

static ssize_t read_children(pid_t pid, pid_t thread, char *text, size_t size)
{
        char name[32];

        snprintf(name, sizeof(name), "task/%d/children", (int)thread);
        return read_file(pid, name, text, size);
}

int family_open(pid_t stub, pid_t template, struct family *ret, struct error *err)
{
        const pid_t pids[] = {template, stub};
        char path[64];

        *ret = FAMILY_INIT;
        snprintf(path, sizeof(path), "/proc/%d/task", (int)template);
        ret->threads = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        int code = ret->threads < 0 ? errno : 0;
        for (size_t i = 0; i < ARRAY_SIZE(pids) && code == 0; i++) {
                snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pids[i],
                         (int)pids[i]);
                ret->children[i] = open(path, O_RDONLY | O_CLOEXEC);
                code = ret->children[i] < 0 ? errno : 0;
        }
        return code ? error_errno(err, code, "open %s", path) : 0;
}

void family_close(struct family *f)
{
        int fds[] = {f->threads, f->children[0], f->children[1]};

        fd_close_many(fds, ARRAY_SIZE(fds));
        *f = FAMILY_INIT;
}

static int check_children(int list, const char *whose, struct error *err)
{
        char text[32], name[NAME_SIZE] = "";

        ssize_t n = pread(list, text, sizeof(text) - 1, 0);
        if (n < 0)
                return error_errno(err, errno, "list the children of the %s", whose);
        if (n == 0)
                return 0;
        text[n] = '\0';
        ssize_t length = read_file((pid_t)strtol(text, NULL, 10), "comm", name, sizeof(name));
        if (length > 0)
                name[length - 1] = '\0';
        return error_set(
                err, EPERM,
                "code of the image has left a process (\"%s\") beside its template, which no session may run beside: the template is ended with all of its sessions",
                name);
}

/* The directory has one link for each thread, besides its own two. It has only these two when the
 * process has ended; the lists of children are empty then. */
static int check_threads(int threads, struct error *err)
{
        struct stat st;

        if (fstat(threads, &st) < 0)
                return error_errno(err, errno, "count the threads of the template");
        if (st.st_nlink == 3)
                return 0;
        if (st.st_nlink < 3)
                return error_errno(err, ESRCH, "count the threads of the template");
        return error_set(
                err, EPERM,
                "code of the image has started %d threads in its template, which no session would have: the template is ended with all of its sessions (start them in the code of a session)",
                (int)st.st_nlink - 3);
}

int family_check(const struct family *f, struct error *err)
{
        int r = check_threads(f->threads, err);

        if (r >= 0)
                r = check_children(f->children[0], "template", err);
        return r < 0 ? r : check_children(f->children[1], "stub", err);
}

/* ---- what it uses ---- */

/* Resident pages but those of files. Unlike smaps_rollup, reading this never waits for a lock that the
 * process may hold. */
static uint64_t anonymous(pid_t pid)
{
        char text[128];
        uint64_t pages = 0, of_files = 0;

        if (read_file(pid, "statm", text, sizeof(text)) <= 0 ||
            sscanf(text, "%*s %" SCNu64 " %" SCNu64, &pages, &of_files) != 2 || pages < of_files)
                return 0;
        return (pages - of_files) * (uint64_t)sysconf(_SC_PAGESIZE);
}

struct walk {
        pid_t *pids;
        uint32_t n, most;
        uint32_t n_threads; /* besides the first of each process */
        char *text;         /* LIST_SIZE */
};

static void add_children(struct walk *w, pid_t pid, pid_t thread)
{
        char *at = w->text, *end;

        if (read_children(pid, thread, w->text, LIST_SIZE) <= 0)
                return;
        for (long child; w->n < w->most && (child = strtol(at, &end, 10)) > 0 && end > at; at = end)
                w->pids[w->n++] = (pid_t)child;
}

/* Each thread has its own children. */
static void add_children_of_all(struct walk *w, pid_t pid)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
        DIR *threads = opendir(path);
        if (!threads)
                return;
        for (const struct dirent *e; w->n + w->n_threads < w->most && (e = readdir(threads));) {
                pid_t thread = (pid_t)strtol(e->d_name, NULL, 10);
                if (thread > 0)
                        add_children(w, pid, thread);
                w->n_threads += thread > 0 && thread != pid;
        }
        closedir(threads);
}

void family_measure(pid_t stub, pid_t template, uint32_t most, struct family_usage *ret)
{
        struct walk w = {.most = most + 1};
        uint64_t memory = 0;

        w.pids = calloc(w.most, sizeof(pid_t));
        w.text = malloc(LIST_SIZE);
        *ret = (struct family_usage){};
        if (w.pids && w.text) {
                w.pids[w.n++] = template;
                add_children(&w, stub, stub);
                for (uint32_t i = 0; i < w.n; i++) {
                        add_children_of_all(&w, w.pids[i]);
                        memory += anonymous(w.pids[i]);
                }
                *ret = (struct family_usage){.memory = memory, .processes = w.n + w.n_threads};
        }
        free(w.pids);
        free(w.text);
}
