/* The network namespaces of a template's sessions. */
#include "supervisor/monitor/template/networks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"

struct network {
        uint64_t number; /* inode: no other one has it while it exists */
        uint32_t principal;
        struct network_left left;
};

struct networks {
        unsigned holders;
        bool is_closed;
        struct network free[NETWORKS_MAX]; /* of ended sessions, the oldest first */
        size_t n_free;
        uint64_t *live; /* numbers of those of living sessions */
        size_t n_live, room;
};

int networks_new(struct networks **ret, struct error *err)
{
        struct networks *n = calloc(1, sizeof(*n));

        if (!n)
                return error_errno(err, ENOMEM, "network namespaces");
        n->holders = 1;
        *ret = n;
        return 0;
}

struct networks *networks_ref(struct networks *n)
{
        n->holders++;
        return n;
}

static void close_left(struct network_left *left)
{
        fd_close_many((int[]){left->namespace, left->sockets}, 2);
        *left = NETWORK_LEFT_NONE;
}

static void drop(struct networks *n, size_t i)
{
        close_left(&n->free[i].left);
        memmove(&n->free[i], &n->free[i + 1], (--n->n_free - i) * sizeof(n->free[0]));
}

void networks_close(struct networks *n)
{
        if (!n)
                return;
        n->is_closed = true;
        while (n->n_free > 0)
                drop(n, n->n_free - 1);
}

struct networks *networks_unref(struct networks *n)
{
        if (!n || --n->holders > 0)
                return NULL;
        networks_close(n);
        free(n->live);
        free(n);
        return NULL;
}

/* The counter is a sum over the processors, read one after the other. It is never below the number of sockets that exist,
 * because no process is left that creates one. */
static bool has_no_socket(const struct network_left *left)
{
        static const char none[] = "sockets: used 0\n";
        char text[sizeof(none) - 1];

        return pread(left->sockets, text, sizeof(text), 0) == sizeof(text) &&
               memcmp(text, none, sizeof(text)) == 0;
}

int networks_take(struct networks *n, uint32_t principal)
{
        for (size_t i = n->n_free; i-- > 0;) {
                struct network *network = &n->free[i];
                if (network->principal != principal)
                        continue;
                int fd = -1;
                if (has_no_socket(&network->left)) {
                        fd = network->left.namespace;
                        network->left.namespace = -1;
                } else {
                        log_debug("network namespace %" PRIu64
                                  ": dropped, because a socket of its last session is left",
                                  network->number);
                }
                drop(n, i);
                if (fd >= 0)
                        return fd;
        }
        return -1;
}

static bool is_known(const struct networks *n, uint64_t number)
{
        for (size_t i = 0; i < n->n_live; i++) {
                if (n->live[i] == number)
                        return true;
        }
        for (size_t i = 0; i < n->n_free; i++) {
                if (n->free[i].number == number)
                        return true;
        }
        return false;
}

int networks_enter(struct networks *n, pid_t pid, uint64_t *ret, struct error *err)
{
        char path[64];
        struct stat st;

        *ret = 0;
        snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
        if (stat(path, &st) < 0)
                return error_errno(err, errno, "read the network namespace of a session");
        if (is_known(n, st.st_ino))
                return error_set(
                        err, EPERM,
                        "the template put a session into the network namespace of another one");
        if (n->n_live == n->room) {
                size_t room = 2 * n->room + 16;
                uint64_t *live = reallocarray(n->live, room, sizeof(n->live[0]));
                if (!live)
                        return error_errno(err, ENOMEM, "network namespaces");
                n->live = live;
                n->room = room;
        }
        n->live[n->n_live++] = *ret = st.st_ino;
        return 0;
}

struct network_left networks_open(pid_t pid)
{
        struct network_left left;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
        left.namespace = open(path, O_RDONLY | O_CLOEXEC);
        snprintf(path, sizeof(path), "/proc/%d/net/sockstat", (int)pid);
        left.sockets = open(path, O_RDONLY | O_CLOEXEC);
        if (left.namespace < 0 || left.sockets < 0)
                close_left(&left);
        return left;
}

static void make_room(struct networks *n, uint32_t principal)
{
        size_t own = 0, oldest = 0;

        for (size_t i = n->n_free; i-- > 0;) {
                if (n->free[i].principal != principal)
                        continue;
                own++;
                oldest = i;
        }
        if (own == NETWORKS_PRINCIPAL_MAX)
                drop(n, oldest);
        else if (n->n_free == NETWORKS_MAX)
                drop(n, 0);
}

void networks_leave(struct networks *n, uint64_t number, uint32_t principal,
                    struct network_left *left)
{
        struct stat st;
        size_t i = 0;

        while (i < n->n_live && n->live[i] != number)
                i++;
        bool was_live = i < n->n_live;
        if (was_live)
                n->live[i] = n->live[--n->n_live];
        /* A hostile template may have moved what it calls PID 1 to another one. */
        if (!was_live || n->is_closed || left->namespace < 0 || fstat(left->namespace, &st) < 0 ||
            st.st_ino != number) {
                close_left(left);
                return;
        }
        make_room(n, principal);
        n->free[n->n_free++] = (struct network){number, principal, *left};
        *left = NETWORK_LEFT_NONE;
}
