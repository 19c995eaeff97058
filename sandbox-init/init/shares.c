/* The sessions of processes. */
#include "sandbox-init/init/shares.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandbox-init/init/caller.h"
#include "sandbox-init/init/init-clock.h"
#include "sandbox-init/init/rest.h"

struct list {
        pid_t ids[SHARES_MAX];
        size_t n;
};

static struct {
        bool count;
        struct list granted; /* leaders that may call setsid(), and may not have done it yet */
        bool is_new;         /* there are sessions whose weight must be lowered */
        bool is_low;         /* the sandbox's own needs no look */
        int look_ms;         /* until the next look at what the sandbox has used */
        int64_t next_ms;
} shares;

void shares_open(const struct init_hello *hello)
{
        shares.count = hello->shares != 0;
        shares.look_ms = SHARES_RETRY_MS;
        shares.next_ms = init_clock_ms() + shares.look_ms;
}

static bool has(const struct list *l, pid_t id)
{
        for (size_t i = 0; i < l->n; i++)
                if (l->ids[i] == id)
                        return true;
        return false;
}

static bool add(struct list *l, pid_t id)
{
        if (has(l, id))
                return true;
        if (l->n == SHARES_MAX)
                return false;
        l->ids[l->n++] = id;
        return true;
}

/* Returns whether there are too many. */
static size_t add_session_of(pid_t pid, void *data)
{
        pid_t id = getsid(pid);

        return id > 0 && !add(data, id);
}

static bool waits_for(pid_t leader)
{
        pid_t id = getsid(leader);

        return id > 0 && id != leader;
}

int shares_call(pid_t process)
{
        struct list all = {}, granted = {};

        if (!shares.count)
                return CALL_GOES_ON;
        /* Before the list: one that makes its session meanwhile is in it, too. */
        for (size_t i = 0; i < shares.granted.n; i++)
                if (waits_for(shares.granted.ids[i]) && add(&all, shares.granted.ids[i]))
                        add(&granted, shares.granted.ids[i]);
        if (rest_each(add_session_of, &all) > 0 || !add(&all, process))
                return -EAGAIN;
        add(&granted, process);
        shares.granted = granted;
        shares.is_new = true;
        return CALL_GOES_ON;
}

/* Lowers the weight of its session. Returns 1 if it is lowered already, -EAGAIN where the kernel allows it later, another negative
 * errno if it never does it for this process: one that has ended, or cannot be read, or the kernel has no such weights. */
static int lower(pid_t pid)
{
        char path[32], text[64];
        ssize_t n = 0;

        snprintf(path, sizeof(path), "%d/autogroup", (int)pid);
        _cleanup_close_ int in = openat(INIT_PROC_FD, path, O_RDONLY | O_CLOEXEC);
        if (in >= 0)
                n = read(in, text, sizeof(text) - 1);
        text[n < 0 ? 0 : n] = '\0';
        const char *nice = strstr(text, " nice ");
        if (nice && strtol(nice + 6, NULL, 10) >= SHARES_NICE)
                return 1;
        _cleanup_close_ int out = openat(INIT_PROC_FD, path, O_WRONLY | O_CLOEXEC);
        n = snprintf(text, sizeof(text), "%d", SHARES_NICE);
        return out < 0 || write(out, text, (size_t)n) != n ? -errno : 0;
}

struct lowering {
        bool is_done, is_more;
};

static size_t lower_session_of(pid_t pid, void *data)
{
        struct lowering *l = data;
        int r = l->is_done ? -EAGAIN : lower(pid);

        l->is_done |= r == 0 || r == -EAGAIN;
        l->is_more |= r == -EAGAIN;
        return 0;
}

/* Returns whether it has used more than its share may be without. */
static bool has_computed(void)
{
        return rest_used_ns() >= SHARES_FREE_MS * INT64_C(1000000);
}

int shares_tick(void)
{
        if (!shares.count || (shares.is_low && !shares.is_new))
                return 0;
        int64_t now = init_clock_ms();
        if (now < shares.next_ms)
                return (int)(shares.next_ms - now);
        if (!shares.is_new && !has_computed()) {
                shares.look_ms *= shares.look_ms < SHARES_LOOK_MAX_MS ? 2 : 1;
                shares.next_ms = now + shares.look_ms;
                return shares.look_ms;
        }

        struct lowering l = {};
        shares.is_low = true;
        rest_each(lower_session_of, &l);
        for (size_t i = 0; i < shares.granted.n; i++)
                l.is_more |= waits_for(shares.granted.ids[i]);
        shares.is_new = l.is_more;
        shares.next_ms = now + SHARES_RETRY_MS;
        return shares.is_new ? SHARES_RETRY_MS : 0;
}
