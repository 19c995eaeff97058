/* Sessions of the proxy. */
#include "supervisor/egress/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json-out.h"
#include "base/json.h"

enum {
        TICK_MS = 20, /* while bytes wait for the rate */
        BURST_LEAST = 16 * 1024,
};

/* ---- what may be read ---- */

static void refill(struct egress_session *s)
{
        uint64_t now = clock_us(), passed = now - s->filled_us;
        uint64_t burst = s->rate > BURST_LEAST ? s->rate : BURST_LEAST;

        s->filled_us = now;
        if (passed > 1000000)
                passed = 1000000;
        s->tokens += (int64_t)((double)s->rate * (double)passed / 1e6);
        if (s->tokens > (int64_t)burst)
                s->tokens = (int64_t)burst;
}

bool egress_session_must_wait(struct egress_session *s)
{
        struct timeval after = clock_timeval_ms(TICK_MS);

        if (s->rate == 0)
                return false;
        refill(s);
        if (s->tokens > 0)
                return false;
        if (!event_pending(&s->tick, EV_TIMEOUT, NULL))
                event_add(&s->tick, &after);
        return true;
}

ssize_t egress_session_allow(struct egress_session *s, size_t most)
{
        uint64_t left = s->max_bytes > s->used ? s->max_bytes - s->used : 0;

        if (left == 0)
                return -EDQUOT;
        if (egress_session_must_wait(s))
                return 0;
        if (s->rate > 0 && left > (uint64_t)s->tokens)
                left = (uint64_t)s->tokens;
        return (ssize_t)(most < left ? most : left);
}

void egress_session_used(struct egress_session *s, size_t n)
{
        s->used += n;
        if (s->rate > 0)
                s->tokens -= (int64_t)n;
}

void egress_session_count(struct egress_session *s, ssize_t n)
{
        s->n_connections += (size_t)n;
        s->principal->n_connections += (size_t)n;
        s->egress->n_connections += (size_t)n;
}

void egress_session_left(struct egress_session *s)
{
        egress_session_count(s, -1);
        event_add(&s->accepting, NULL);
}

/* ---- the page ---- */

static int read_rules(struct egress_session *s, char *rules, struct error *err)
{
        char *rest = NULL;

        for (char *line = strtok_r(rules, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
                const char *why = s->n_rules == NETWORK_RULES_MAX
                                          ? "is one too many"
                                          : network_rule_parse(line, &s->rules[s->n_rules]);
                if (why)
                        return error_set(err, EINVAL, "network.allow: \"%.100s\" %s", line, why);
                s->n_rules++;
        }
        return 0;
}

/* The broker has read them before; what it cannot read ends the session's network. */
static int read_call_rules(struct egress_session *s, char *text, struct error *err)
{
        char *texts[RULES_MAX + 1] = {}, *rest = NULL;
        size_t n = 0;

        for (char *line = strtok_r(text, "\n", &rest); line && n < RULES_MAX;
             line = strtok_r(NULL, "\n", &rest))
                texts[n++] = line;
        return n > 0 ? rules_new(texts, NULL, 0, &s->call_rules, err) : 0;
}

bool egress_session_allows(const struct egress_session *s, const char *host, uint16_t port)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(1024);
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct json_out out = {.to = &b};
        struct rules_decision decision;

        if (!s->call_rules)
                return true;
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "host", host);
        json_out_int(&out, "port", port);
        json_out_end(&out, '}');
        if (out.error < 0 || json_parse(buffer_bytes(&b), b.length, &doc, NULL) < 0)
                return false;
        /* Which labels the session has is not known here: a rule that asks or denies for them holds. */
        const struct rules_call call = {.server = "@network",
                                        .tool = "connect",
                                        .arguments = yyjson_doc_get_root(doc),
                                        .is_network = true,
                                        .is_open = true,
                                        .seen = RULES_PRIVATE | RULES_UNTRUSTED};
        rules_decide(s->call_rules, &call, &decision);
        return decision.effect == RULES_ALLOW;
}

/* The counts of a process that had the session before. They may be anything. */
static void take_counts(struct egress_session *s)
{
        const struct egress_sums all = s->page->all;

        if (__builtin_add_overflow(all.in, all.out, &s->used))
                s->used = UINT64_MAX;
        for (size_t i = 0; i < EGRESS_HOSTS_MAX; i++)
                if (s->page->hosts[i].id > s->last_id)
                        s->last_id = s->page->hosts[i].id;
}

static int join_principal(struct egress_session *s, uint64_t id, struct error *err)
{
        struct egress_principal *p = id ? s->egress->principals : NULL;

        while (p && p->id != id)
                p = p->next;
        if (!p) {
                p = malloc(sizeof(*p));
                if (!p)
                        return error_errno(err, ENOMEM, "principal");
                *p = (struct egress_principal){.next = s->egress->principals, .id = id};
                s->egress->principals = p;
        }
        p->n_sessions++;
        s->principal = p;
        return 0;
}

static void leave_principal(struct egress_session *s)
{
        struct egress_principal **at = &s->egress->principals;

        if (!s->principal || --s->principal->n_sessions > 0)
                return;
        while (*at != s->principal)
                at = &(*at)->next;
        *at = s->principal->next;
        free(s->principal);
}

static int take_policy(struct egress_session *s, struct error *err)
{
        _cleanup_free_ struct egress_policy *policy = malloc(sizeof(*policy));

        if (!policy)
                return error_errno(err, ENOMEM, "policy");
        *policy = s->page->policy;
        policy->profile[sizeof(policy->profile) - 1] = '\0';
        policy->rules[sizeof(policy->rules) - 1] = '\0';
        policy->call_rules[sizeof(policy->call_rules) - 1] = '\0';
        snprintf(s->profile, sizeof(s->profile), "%s", policy->profile);
        s->max_bytes = policy->max_bytes;
        s->rate = policy->rate;
        take_counts(s);
        int r = join_principal(s, policy->principal, err);
        if (r >= 0)
                r = read_rules(s, policy->rules, err);
        return r < 0 ? r : read_call_rules(s, policy->call_rules, err);
}

int egress_session_map(struct egress_session *s, int fd, struct error *err)
{
        int seals = fcntl(fd, F_GET_SEALS);
        off_t size = lseek(fd, 0, SEEK_END);

        if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW) ||
            size != sizeof(struct egress_page))
                return error_set(err, EPROTO, "the page is not as agreed");
        void *page = mmap(NULL, sizeof(struct egress_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                          0);
        if (page == MAP_FAILED)
                return error_errno(err, errno, "map the page");
        s->page = page;
        return take_policy(s, err);
}

void egress_session_unmap(struct egress_session *s)
{
        s->call_rules = rules_free(s->call_rules);
        leave_principal(s);
        if (s->page)
                munmap(s->page, sizeof(*s->page));
}

/*
 * ---- counts in the page ----
 *
 * A host that is new takes an empty slot, or that of another host without connections: the one that was used longest
 * ago, first among those that were only refused, so that ten thousand refused hosts leave what was reached in the page.
 * The sums of all hosts are kept beside the slots.
 */

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
