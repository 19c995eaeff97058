/* The words that the tables of rules are written in. */
#pragma once

#include <linux/seccomp.h>
#include <stdint.h>

#include "base/filter-load.h"
#include "policy/seccomp/rule.h"

/* clang-format off */
#define ALLOW      SECCOMP_RET_ALLOW
#define FAIL(code) (SECCOMP_RET_ERRNO | (code))
#define ASK_INIT   SECCOMP_RET_USER_NOTIF /* ENOSYS where no init listens */
#define ASK_OR_ALLOW FILTER_ASK_OR_ALLOW  /* allowed where no init answers */

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

#define VALUES(...) .values = (const uint32_t[]){__VA_ARGS__, 0}
#define PRCTL(...)  {"prctl", ALLOW, {EQUAL(0, 0)}, VALUES(__VA_ARGS__)}
#define IOCTL(...)  {"ioctl", ALLOW, {EQUAL(1, 0)}, VALUES(__VA_ARGS__)}
#define SOCKET(family, type, protocol) \
        RULE("socket", ALLOW, EQUAL(0, family), MASKED(1, 0xf, type), EQUAL(2, protocol))
/* TCP and UDP of an internet family. */
#define INTERNET(family) \
        SOCKET(family, SOCK_STREAM, 0), \
        SOCKET(family, SOCK_STREAM, IPPROTO_TCP), \
        SOCKET(family, SOCK_DGRAM, 0), \
        SOCKET(family, SOCK_DGRAM, IPPROTO_UDP)
/* clang-format on */

/* CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET. CLONE_NEWTIME is in the
 * bits of clone()'s exit signal, so that clone() cannot take it. */
#define CLONE_NAMESPACES 0x7e020000u

/* MSG_OOB (CVE-2025-38236) | MSG_ZEROCOPY */
#define MSG_DENIED 0x04000001u
