/*
 * Counts in the page of a session.
 *
 * A host that is new takes an empty slot, or that of another host without connections: the one that was used longest
 * ago, first among those that were only refused, so that ten thousand refused hosts leave what was reached in the page.
 * The sums of all hosts are kept beside the slots.
 */
#include "supervisor/egress/tally.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* Empty slots first, then refused hosts, then those used longest ago. */
static bool is_better(const struct egress_session *s, int a, int b)
{
        const struct egress_count *x = &s->page->hosts[a], *y = &s->page->hosts[b];

        if ((x->id == 0) != (y->id == 0))
                return x->id == 0;
        if ((x->sums.requests == 0) != (y->sums.requests == 0))
                return x->sums.requests == 0;
        return s->used_at[a] < s->used_at[b];
}

/* -1: each has a connection. */
static int choose(const struct egress_session *s)
{
        int best = TALLY_NONE;

        for (int i = 0; i < EGRESS_HOSTS_MAX; i++)
                if (s->users[i] == 0 && (best < 0 || is_better(s, i, best)))
                        best = i;
        return best;
}

static int find(struct egress_session *s, const char *host, uint16_t port)
{
        for (int i = 0; i < EGRESS_HOSTS_MAX; i++) {
                const struct egress_count *count = &s->page->hosts[i];
                if (count->id && count->port == port &&
                    strncmp(count->host, host, sizeof(count->host)) == 0)
                        return i;
        }
        return TALLY_NONE;
}

static int slot_of(struct egress_session *s, const char *host, uint16_t port)
{
        int slot = find(s, host, port);

        if (slot < 0) {
                slot = choose(s);
                if (slot < 0)
                        return TALLY_NONE;
                s->page->hosts[slot] = (struct egress_count){.id = ++s->last_id, .port = port};
                snprintf(s->page->hosts[slot].host, sizeof(s->page->hosts[slot].host), "%s", host);
        }
        s->used_at[slot] = clock_us();
        return slot;
}

int tally_enter(struct egress_session *s, const char *host, uint16_t port)
{
        int slot = slot_of(s, host, port);

        s->page->all.requests++;
        if (slot >= 0) {
                s->users[slot]++;
                s->page->hosts[slot].sums.requests++;
        }
        return slot;
}

void tally_leave(struct egress_session *s, int slot)
{
        if (slot >= 0)
                s->users[slot]--;
}

static void add_bytes(struct egress_sums *sums, bool is_in, size_t n)
{
        if (is_in)
                sums->in += n;
        else
                sums->out += n;
}

void tally_bytes(struct egress_session *s, int slot, bool is_in, size_t n)
{
        add_bytes(&s->page->all, is_in, n);
        if (slot >= 0)
                add_bytes(&s->page->hosts[slot].sums, is_in, n);
}

void tally_refused(struct egress_session *s, const char *host, uint16_t port,
                   enum egress_reason why)
{
        int slot = slot_of(s, host, port);

        s->page->all.denied += egress_is_denial(why);
        if (slot < 0)
                return;
        s->page->hosts[slot].sums.denied += egress_is_denial(why);
        s->page->hosts[slot].why = (uint8_t)why;
}
