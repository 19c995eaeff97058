/*
 * The rules of a profile, compiled: which call is allowed, asked about or denied.
 *
 * The first rule that matches decides; without one the call is allowed. A call evaluates only the rules that can match its
 * tool. A decision has a bound on its work (work.h): a call that reaches it is denied. Nothing here makes a system call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/error.h"
#include "policy/rules/condition.h"
#include "policy/rules/rule.h"

enum {
        RULES_MAX = 512,       /* of a profile, with those of the top level */
        RULES_NAME_MAX = 1024, /* bytes of "server.tool"; a longer one is denied */
};

/* A server of the config, as rules name it. */
struct rules_server {
        const char *name;
        bool trusts_hints;
        const char *labels; /* as labels_of() takes them, or NULL */
};

#define RULES_NETWORK "@network.connect" /* a connection of code: /host and /port */
#define RULES_REQUEST                                                                              \
        "@network.request" /* a request to a host of a secret: also /method and /path */

struct rules;

/*
 * Takes the texts of the rules, in order: each a JSON object {"file", "line", "number", "own", "rule"}, as
 * config_read_rules() keeps them. Refuses rules that can never match, and an "allow" by hints of a server that is not trusted. The error begins with
 * the place: `FILE: line 3: rule 2: …`. Returns 0, -EINVAL, -E2BIG or -ENOMEM.
 * servers: NULL for rules that were checked before.
 */
int rules_new(char *const *texts, const struct rules_server *servers, size_t n_servers,
              struct rules **ret, struct error *err);
struct rules *rules_free(struct rules *rules);

size_t rules_count(const struct rules *rules);
const struct rule *rules_at(const struct rules *rules, size_t index);

/* Whether a rule has "seen": the labels of results must be known. */
bool rules_use_labels(const struct rules *rules);

/* A call, or a connection of the network ("@network", "connect"). */
struct rules_call {
        const char *server;
        const char *tool;      /* or the method: resources/read, prompts/get */
        yyjson_val *arguments; /* an object: the arguments, or the params of a method; NULL: none */
        yyjson_val *annotations; /* of the tool, as its server sent them; NULL: none are known */
        bool is_method;          /* reads by the protocol's definition */
        bool is_network;         /* has no hints: a rule with hints does not match it */
        bool trusts_hints;       /* "trust_hints" of the server */
        bool is_open;            /* the tool sends to places outside (labels; @network) */
        unsigned seen;           /* labels that the session has: bits of RULES_PRIVATE… */
        rules_url_fn *url;       /* NULL: a "host" cannot be decided */
        /* How many calls that the rule covers were sent, in this cell, session or hour. NULL: none. */
        uint64_t (*sent)(void *data, const struct rule *rule, enum rules_span span);
        void *data;
};

struct rules_decision {
        enum rules_effect effect;
        const struct rule *rule; /* that decided; NULL: none matched, or there is a fault */
        const char *fault;       /* the bound that was reached: denied */
        /* Bits by index: the rules with "after" that cover the call. If it is sent, it counts for them. */
        uint64_t counted[RULES_MAX / 64];
        bool is_counted; /* any of them */
};

void rules_decide(const struct rules *rules, const struct rules_call *call,
                  struct rules_decision *ret);

/* Whether a rule can match the tool at all, its arguments and hints not regarded. */
bool rules_can_match(const struct rules *rules, const char *server, const char *tool);
/* Whether each call of the tool is denied: the first rule that can match it denies it without a condition. */
bool rules_always_deny(const struct rules *rules, const char *server, const char *tool);

/*
 * Which decisions calls of the tool can get, whatever their arguments, the labels and the counts: bits by effect. call: its
 * names, annotations, trust and is_open count.
 */
unsigned rules_effects(const struct rules *rules, const struct rules_call *call);

/* Why one rule does or does not match, for `cloister rules explain`. Of `when`: the first condition that does not hold. */
enum rules_miss {
        RULES_MATCHES,
        RULES_MISS_SELECTOR,
        RULES_MISS_HINTS,
        RULES_MISS_TRUST, /* an allow by hints of a server that is not trusted */
        RULES_MISS_SENDS,
        RULES_MISS_SEEN,
        RULES_MISS_WHEN,
        RULES_MISS_AFTER,
        RULES_MISS_FAULT, /* a bound was reached */
};
/* *when: the index in rule->when for RULES_MISS_WHEN. *fault: for RULES_MISS_FAULT. */
enum rules_miss rules_explain(const struct rule *rule, const struct rules_call *call, size_t *when,
                              const char **fault);

/*
 * Refuses arguments that programs read differently, if a rule with `when` can match the tool: members of one object whose
 * names differ only in case, and names that differ only in case from those in the rule's pointers or in the tool's schema
 * (NULL: it is not known). The error is a sentence for the code. Returns 0, -ENOTUNIQ, -E2BIG (a bound was reached) or -ENOMEM.
 */
int rules_check_names(const struct rules *rules, const char *server, const char *tool,
                      yyjson_val *arguments, yyjson_val *schema, struct error *err);

/* Whether it counts for connections. An allow that needs labels does not: the egress process does not know them, and takes all as
 * seen. */
bool rule_is_of_network(const struct rule *rule);

/* "config.json line 14": for messages. */
void rule_place(const struct rule *rule, char *to, size_t n);
