/* The file of a branch, from the request to the end of its last cell. */
#include "supervisor/session/cell/branch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/share.h"
#include "supervisor/session/cell/session-name.h"

static struct branch *all[BRANCHES_MAX]; /* NULL: free */
static struct branch *first_in_line;

/* Several principals share the places: code can keep a branch from ending for BRANCH_MS. Returns one. */
static int find_place(const char *from, struct branch ***ret, struct error *err)
{
        size_t n = 0, n_own = 0;
        bool several = session_key_name(from) != from;

        for (size_t i = 0; i < BRANCHES_MAX; i++) {
                if (!all[i])
                        *ret = &all[i];
                n += all[i] != NULL;
                n_own += all[i] && session_key_is_beside(all[i]->from, from);
        }
        if (several ? share_allows(n_own, n, BRANCHES_MAX, 1) : n < BRANCHES_MAX)
                return 0;
        if (n_own > 0 && several)
                return error_set(err, EBUSY, "%zu of your branches are being made: try again",
                                 n_own);
        return error_set(err, EBUSY, "%d branches are being made: try again", BRANCHES_MAX);
}

/* ---- those that wait for a place ---- */

static void leave_line(const struct branch *branch)
{
        for (struct branch **at = &first_in_line; *at; at = &(*at)->next) {
                if (*at == branch) {
                        *at = branch->next;
                        break;
                }
        }
}

/* It has a place, or has waited for too long. */
static void on_turn(evutil_socket_t fd, short what, void *data)
{
        struct branch **place, *branch = data;
        struct error err = {};

        loop_event_free(&branch->turn);
        if (branch_has_place(branch)) {
                if (branch->waiting)
                        branch->placed(branch);
                return;
        }
        leave_line(branch);
        (void)find_place(branch->from, &place, &err);
        branch_fail(branch, err.text);
}

static int wait_in_line(struct branch *branch)
{
        const struct timeval in = clock_timeval_ms(BRANCH_TURN_MS);
        struct branch **at = &first_in_line;

        branch->turn = evtimer_new(branch->base, on_turn, branch);
        if (!branch->turn || event_add(branch->turn, &in) < 0) {
                loop_event_free(&branch->turn);
                return -ENOMEM;
        }
        while (*at)
                at = &(*at)->next;
        *at = branch;
        return 0;
}

/* The caller may be in the middle of something: the event loop tells the next one. */
static void give_places(void)
{
        for (struct branch **at = &first_in_line, **place; *at;) {
                struct branch *branch = *at;
                struct error err = {};
                if (find_place(branch->from, &place, &err) < 0) {
                        at = &branch->next;
                        continue;
                }
                *at = branch->next;
                *place = branch;
                event_active(branch->turn, EV_TIMEOUT, 0);
        }
}

bool branch_has_place(const struct branch *branch)
{
        for (size_t i = 0; i < BRANCHES_MAX; i++) {
                if (all[i] == branch)
                        return true;
        }
        return false;
}

int branch_new(struct branch **ret, struct event_base *base, const char *from, uint64_t copy,
               const char *checkpoint, struct error *err)
{
        struct branch **place = NULL;
        struct error busy = {};

        struct branch *branch = calloc(1, sizeof(*branch));
        if (!branch)
                return error_errno(err, ENOMEM, "branch");
        branch->refs = 1;
        branch->base = base;
        branch->copy = copy;
        snprintf(branch->checkpoint, sizeof(branch->checkpoint), "%s", checkpoint);
        branch->fd = branch->writer = branch->end = -1;
        branch->is_dumped = copy != 0; /* its process does not report the end */
        snprintf(branch->from, sizeof(branch->from), "%s", from);
        if (find_place(from, &place, &busy) >= 0) {
                *place = branch;
        } else if (wait_in_line(branch) < 0) {
                free(branch);
                return error_errno(err, ENOMEM, "branch");
        }
        *ret = branch;
        return 0;
}

struct branch *branch_ref(struct branch *branch)
{
        branch->refs++;
        return branch;
}

static void close_end(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

static void stop(struct branch *branch)
{
        loop_event_free(&branch->over);
        loop_event_free(&branch->late);
        loop_event_free(&branch->turn);
        close_end(&branch->writer);
        close_end(&branch->end);
}

/* Nothing of it is needed any more but its name and reason. */
static void release(struct branch *branch)
{
        stop(branch);
        close_end(&branch->fd);
        branch->file = branch_file_unref(branch->file);
        for (size_t i = 0; i < BRANCHES_MAX; i++)
                if (all[i] == branch)
                        all[i] = NULL;
        leave_line(branch);
        give_places();
}

struct branch *branch_unref(struct branch *branch)
{
        if (!branch || --branch->refs > 0)
                return NULL;
        release(branch);
        free(branch);
        return NULL;
}

/* ---- the cells that load it ---- */

void branch_expect(struct branch *branch, struct branch_load *load)
{
        load->is_unsent = true;
        branch->unsent++;
}

void branch_wait(struct branch *branch, struct branch_load *load)
{
        load->next = branch->waiting;
        branch->waiting = load;
}

void branch_forget(struct branch *branch, struct branch_load *load)
{
        for (struct branch_load **at = &branch->waiting; *at; at = &(*at)->next) {
                if (*at == load) {
                        *at = load->next;
                        break;
                }
        }
        if (!load->is_unsent)
                return;
        load->is_unsent = false;
        if (--branch->unsent == 0)
                release(branch);
}

/* ---- its phases ---- */

static void settle(struct branch *branch, enum branch_phase phase)
{
        branch->phase = phase;
        stop(branch);
        branch_ref(branch);
        branch->settled(branch);
        branch_unref(branch);
}

void branch_fail(struct branch *branch, const char *why)
{
        if (branch->phase >= BRANCH_WHOLE)
                return;
        snprintf(branch->why, sizeof(branch->why), "%s", why);
        settle(branch, BRANCH_FAILED);
}

static void settle_if_whole(struct branch *branch)
{
        if (branch->phase == BRANCH_WRITING && branch->is_dumped && branch->is_sealed)
                settle(branch, BRANCH_WHOLE);
}

void branch_dumped(struct branch *branch)
{
        branch->is_dumped = true;
        settle_if_whole(branch);
}

void branch_writer_sent(struct branch *branch)
{
        close_end(&branch->writer);
}

static void on_late(evutil_socket_t fd, short what, void *data)
{
        struct branch *branch = data;

        branch->was_late = true;
        branch_fail(branch, "it took longer than 30 s");
}
_Static_assert(BRANCH_MS == 30000, "on_late() says so");

int branch_asked(struct branch *branch, uint32_t serial, struct error *err)
{
        const struct timeval in = clock_timeval_ms(BRANCH_MS);

        branch->phase = BRANCH_ASKED;
        branch->serial = serial;
        branch->late = evtimer_new(branch->base, on_late, branch);
        if (!branch->late || event_add(branch->late, &in) < 0)
                return error_errno(err, ENOMEM, "branch");
        return 0;
}

struct branch *branch_find_asked(uint32_t serial)
{
        for (size_t i = 0; i < BRANCHES_MAX; i++) {
                if (all[i] && all[i]->phase == BRANCH_ASKED && all[i]->serial == serial)
                        return all[i];
        }
        return NULL;
}

/* The monitor's child has ended. */
static void on_over(evutil_socket_t fd, short what, void *data)
{
        const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
        struct branch *branch = data;

        loop_event_free(&branch->over);
        branch->is_sealed = (fcntl(branch->fd, F_GET_SEALS) & seals) == seals;
        if (!branch->is_sealed)
                branch_fail(branch, "it is larger than its limits allow");
        else
                settle_if_whole(branch);
}

int branch_started(struct branch *branch, struct branch_file *file, const int fds[3],
                   struct error *err)
{
        branch->phase = BRANCH_WRITING;
        branch->file = file;
        branch->fd = fds[0];
        branch->writer = fds[1];
        branch->end = fds[2];
        branch->over = event_new(branch->base, branch->end, EV_READ, on_over, branch);
        if (!branch->over || event_add(branch->over, NULL) < 0)
                return error_errno(err, ENOMEM, "branch");
        return 0;
}

/* ---- the file ---- */

struct branch_file *branch_file_new(uint32_t handle, void (*drop)(void *data, uint32_t handle),
                                    void *data)
{
        struct branch_file *file = calloc(1, sizeof(*file));

        if (file)
                *file = (struct branch_file){1, handle, drop, data};
        return file;
}

struct branch_file *branch_file_ref(struct branch_file *file)
{
        if (file)
                file->refs++;
        return file;
}

struct branch_file *branch_file_unref(struct branch_file *file)
{
        if (file && --file->refs == 0) {
                file->drop(file->data, file->handle);
                free(file);
        }
        return NULL;
}
