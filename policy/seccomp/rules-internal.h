/* The lists of rules of which the tables in policy/seccomp/rules.c consist. Each ends with
 * calls == NULL. */
#pragma once

#include <errno.h>

#include "policy/seccomp/rules.h"

/* clang-format off */
#define ALLOW      SECCOMP_RET_ALLOW
#define FAIL(code) (SECCOMP_RET_ERRNO | (code))

#define RULE(names, what, ...) {.calls = (names), .action = (what), .compares = {__VA_ARGS__}}
#define END_OF_RULES           {.calls = NULL}

/* Comparisons of the 32 bits that the kernel reads of an int argument. */
#define MASKED(n, bits, want) {.argument = (n), .mask = (uint32_t)(bits), .value = (uint32_t)(want)}
#define EQUAL(n, want)        MASKED(n, UINT32_MAX, want)
#define SET(n, bit)           MASKED(n, bit, bit)
#define CLEAR(n, bits)        MASKED(n, bits, 0)

/* Pointers: all 64 bits. */
#define IS_NULL(n)  {.argument = (n), .mask = UINT64_MAX, .value = 0}
#define NOT_NULL(n) {.argument = (n), .mask = UINT64_MAX, .value = 0, .unequal = true}

#define PRCTL(option)                  RULE("prctl", ALLOW, EQUAL(0, option))
#define IOCTL(request)                 RULE("ioctl", ALLOW, EQUAL(1, request))
#define SOCKET(family, type, protocol) \
        RULE("socket", ALLOW, EQUAL(0, family), MASKED(1, 0xf, type), EQUAL(2, protocol))
/* clang-format on */

/* CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET. CLONE_NEWTIME is in the
 * bits of clone()'s exit signal, so that clone() cannot take it. */
#define CLONE_NAMESPACES 0x7e020000u

/* MSG_OOB (CVE-2025-38236) | MSG_ZEROCOPY */
#define MSG_DENIED 0x04000001u

extern const struct filter_rule filter_guest_calls[];     /* worker and template */
extern const struct filter_rule filter_guest_arguments[]; /* worker and template */
/* Mappings and memfds: one of these. */
extern const struct filter_rule filter_memory_all[];
extern const struct filter_rule filter_memory_counted[];
extern const struct filter_rule filter_worker_only[];
extern const struct filter_rule filter_template_only[];
extern const struct filter_rule filter_template_loopback[]; /* beside filter_template_only */
/* Which sockets worker and template may make: one of these. */
extern const struct filter_rule filter_sockets_unix[];
extern const struct filter_rule filter_sockets_loopback[];       /* and of the internet families */
extern const struct filter_rule filter_sockets_pairs[];          /* none with a name */
extern const struct filter_rule filter_sockets_loopback_pairs[]; /* the internet families only */
extern const struct filter_rule
        filter_socket_options[]; /* what worker, template and broker may set */
extern const struct filter_rule filter_init_all[];
extern const struct filter_rule filter_stub_all[];
extern const struct filter_rule filter_reader_all[];
extern const struct filter_rule filter_broker_calls[];
extern const struct filter_rule filter_broker_arguments[];
extern const struct filter_rule filter_broker_alone[];
extern const struct filter_rule filter_egress_calls[];
extern const struct filter_rule filter_internet[]; /* of broker and egress: sockets and connect() */
