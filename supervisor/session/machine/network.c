/* The network of a session. */
#include "supervisor/session/machine/network.h"
#include "supervisor/session/machine/injected.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/rules/rules.h"

static int write_rules(const struct config_egress *egress, struct egress_policy *policy,
                       struct error *err)
{
        size_t n = 0;

        for (char *const *rule = egress->allow; rule && *rule; rule++) {
                n += (size_t)snprintf(policy->rules + n, sizeof(policy->rules) - n, "%s\n", *rule);
                if (n >= sizeof(policy->rules))
                        return error_errno(err, E2BIG, "network.allow");
        }
        return 0;
}

/* The rules about connections are decided where these are made. */
static int write_call_rules(const struct session *s, struct egress_policy *policy, bool *has_rules,
                            struct error *err)
{
        const struct rules *rules = s->rights->compiled_rules;
        size_t n = 0;

        for (size_t i = 0; i < rules_count(rules); i++) {
                if (!rule_is_of_network(rules_at(rules, i)))
                        continue;
                n += (size_t)snprintf(policy->call_rules + n, sizeof(policy->call_rules) - n,
                                      "%s\n", s->rights->rules[i]);
                if (n >= sizeof(policy->call_rules))
                        return error_errno(err, E2BIG, "rules about " RULES_NETWORK);
        }
        *has_rules = n > 0;
        return 0;
}

static int write_policy(int fd, struct session *s, struct error *err)
{
        _cleanup_free_ struct egress_policy *policy = calloc(1, sizeof(*policy));

        if (!policy)
                return error_errno(err, ENOMEM, "policy");
        snprintf(policy->profile, sizeof(policy->profile), "%s", s->rights->name);
        policy->principal = s->principal->number;
        policy->max_bytes = s->rights->egress.max_bytes;
        policy->rate = s->rights->egress.rate;
        int r = write_rules(&s->rights->egress, policy, err);
        if (r >= 0)
                r = write_call_rules(s, policy, &s->network.has_rules, err);
        if (r >= 0 && pwrite(fd, policy, sizeof(*policy), offsetof(struct egress_page, policy)) !=
                              sizeof(*policy))
                r = error_errno(err, errno, "memfd");
        return r;
}

/* Returns a descriptor. */
static int make_page(struct session *s, struct error *err)
{
        _cleanup_close_ int fd = memfd_create("network", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0 || ftruncate(fd, sizeof(struct egress_page)) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
                return error_errno(err, errno, "memfd");
        int r = write_policy(fd, s, err);
        return r < 0 ? r : take_fd(fd);
}

/* Gives the page to the process that has the network, with the other end of a new pipe. */
static int connect_page(struct session *s, struct error *err)
{
        const struct sandbox_requests *requests = &s->context->requests;
        int ends[2];

        struct network_fds fds = {.page = s->network.page, .inject = {-1, -1}};
        int r = injected_connect(s, fds.inject, err);
        if (r < 0)
                return r;
        if (pipe2(ends, O_CLOEXEC) < 0) {
                r = error_errno(err, errno, "pipe");
                fd_close_many(fds.inject, 1);
                return r;
        }
        fds.leash = ends[0];
        r = requests->network ? requests->network(requests->data, s->target, &fds, err)
                              : error_errno(err, EOPNOTSUPP, "network");
        close(ends[0]);
        fd_close_many(fds.inject, 1);
        if (r < 0)
                close(ends[1]);
        else
                s->network.lifetime_fd = ends[1];
        return r;
}

static void log_none(const struct session *s, const struct error *err)
{
        const struct log_ids ids = session_log_ids(s, NULL);

        log_event(LOG_LEVEL_ERROR, &ids, "the session has no network: %s", err->text);
}

/* That no process is left was logged at its end. */
static void connect_or_log(struct session *s)
{
        struct error err = {};

        int r = connect_page(s, &err);
        if (r == -ENETDOWN)
                s->network.change = CELL_NETWORK_OVER;
        else if (r < 0)
                log_none(s, &err);
}

void session_network_init(struct session_network *n)
{
        *n = (struct session_network){.page = -1, .lifetime_fd = -1};
        injected_init(&n->injected);
}

void session_network_open(struct session *s)
{
        struct error err = {};

        session_network_init(&s->network);
        if (!s->profile || s->profile->network != CONFIG_NETWORK_ALLOW)
                return;
        if (injected_open(s, &err) < 0) {
                log_none(s, &err);
                err = (struct error){};
        }
        s->network.page = make_page(s, &err);
        if (s->network.page < 0)
                log_none(s, &err);
        else
                connect_or_log(s);
}

void session_network_lost(struct session *s)
{
        if (s->network.page < 0)
                return;
        fd_close_many(&s->network.lifetime_fd, 1);
        s->network.change = CELL_NETWORK_AGAIN;
        connect_or_log(s);
}

void session_network_reload(struct session *s)
{
        struct error err = {};

        if (s->network.page < 0)
                return;
        fd_close_many(&s->network.lifetime_fd, 1);
        s->network.change = CELL_NETWORK_RULES;
        if (write_policy(s->network.page, s, &err) < 0)
                log_none(s, &err);
        else
                connect_or_log(s);
}

void session_network_close(struct session_network *n)
{
        int fds[] = {n->page, n->lifetime_fd};

        fd_close_many(fds, ARRAY_SIZE(fds));
        session_network_init(n);
}

/* ---- counts ---- */

static struct egress_sums difference(const struct egress_sums *now,
                                     const struct egress_sums *before)
{
        return (struct egress_sums){.in = now->in - before->in,
                                    .out = now->out - before->out,
                                    .requests = now->requests - before->requests,
                                    .denied = now->denied - before->denied};
}

static bool is_empty(const struct egress_sums *sums)
{
        return sums->in == 0 && sums->out == 0 && sums->requests == 0 && sums->denied == 0;
}

/* The other process has written it: the name must be one. */
static void add_host(struct cell_outcome *o, const struct egress_count *count,
                     const struct egress_sums *sums)
{
        struct cell_host *host = &o->hosts[o->n_hosts++];

        *host = (struct cell_host){.port = count->port,
                                   .why = count->why < EGRESS_REASON_MAX
                                                  ? (enum egress_reason)count->why
                                                  : EGRESS_FINE,
                                   .sums = *sums};
        for (size_t i = 0; i < sizeof(host->name) - 1 && count->host[i]; i++) {
                char c = count->host[i];
                bool is_fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                               strchr("-._:", c);
                host->name[i] = (char)(is_fine ? c : '?');
        }
}

static void take_host(struct session_network *n, size_t i, const struct egress_count *count,
                      struct egress_sums *others, struct cell_outcome *o)
{
        struct egress_sums before = {};

        if (count->id == 0)
                return;
        if (n->reported[i].id == count->id)
                before = n->reported[i].sums;
        struct egress_sums sums = difference(&count->sums, &before);
        bool failed = n->reported[i].id != count->id && count->why != EGRESS_FINE;
        n->reported[i].id = count->id;
        n->reported[i].sums = count->sums;
        if (is_empty(&sums) && !failed)
                return;
        *others = difference(others, &sums);
        add_host(o, count, &sums);
}

void session_network_take(struct session *s, struct cell_outcome *o)
{
        struct session_network *n = &s->network;

        if (n->page < 0 || o->hosts)
                return;
        o->network_change = n->change;
        if (n->change != CELL_NETWORK_OVER)
                n->change = CELL_NETWORK_SAME;
        _cleanup_free_ struct egress_page *page = malloc(sizeof(*page));
        o->hosts = calloc(EGRESS_HOSTS_MAX + 1, sizeof(*o->hosts));
        if (!page || !o->hosts || pread(n->page, page, sizeof(*page), 0) != sizeof(*page)) {
                free(take_ptr(o->hosts));
                return;
        }
        struct egress_sums others = difference(&page->all, &n->all);
        n->all = page->all;
        for (size_t i = 0; i < EGRESS_HOSTS_MAX; i++)
                take_host(n, i, &page->hosts[i], &others, o);
        snprintf(o->network_profile, sizeof(o->network_profile), "%s", s->profile->name);
        /* Hosts whose slots others have got. */
        if (!is_empty(&others))
                add_host(o, &(struct egress_count){}, &others);
        if (o->n_hosts == 0)
                free(take_ptr(o->hosts));
}
