/*
 * Which host ids sandboxes run as, and what privilege the monitor keeps for that.
 *
 * The mode is found by trying: a child maps the ids that were chosen into a user namespace of its
 * own. An ordinary user's are subordinate ids where newuidmap gives them, else his own for all
 * sessions. Host uid 0 is never mapped.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "rpc/sandbox-messages.h"

/*
 * Where ids come from by default: above systemd's container range, below its reserved end (systemd,
 * docs/UIDS-GIDS.md: 1879048192–2147352575 is unused). Each monitor takes a slot at random, so that
 * two on one machine do not share ids.
 */
enum { IDS_DEFAULT_FIRST = 0x70000000, IDS_DEFAULT_COUNT = 0x0ffe0000 };

struct ids {
        enum sandbox_mode mode;
        uid_t first; /* of the template and its sessions; rootless: a subordinate one, or our euid
                      */
        gid_t group; /* root and capable: as first; rootless: a subordinate one, or our egid */
        uint32_t count; /* as asked for less the broker's; 1: all sessions have the same, our own */
        bool by_helper; /* rootless, and the ids are subordinate ones: newuidmap writes the map */
        uid_t broker; /* root and capable: the first of the range, the same for every broker, since
                         it owns the state directory; rootless: our own euid */
        char note[160]; /* rootless with one id: why there are not more; else "" */
};

/* Rootless: the same with our own id for all sessions, for what has to reach our files. Else as it
 * is. */
struct ids ids_single(const struct ids *ids);

/* Writes both maps of a child that is dumpable and waits: 0..count-1 inside. */
int ids_map(pid_t pid, const struct ids *ids, struct error *err);

/*
 * Chooses the mode and, in root and capable mode, `needed` ids (sessions + 2) in a row, inside our
 * own uid_map and gid_map, free of passwd, group, subuid and subgid entries. range_count 0: the
 * default range, or what our own maps leave where that is not inside them. Must run before
 * ids_drop_privilege().
 */
int ids_choose(uint32_t range_first, uint32_t range_count, uint32_t needed, struct ids *ret,
               struct error *err);

/* Why a user namespace could not be made or used, as what to change; code is the positive errno
 * value. */
const char *ids_namespace_hint(int code);

const char *ids_mode_name(enum sandbox_mode mode);

/*
 * Gives up what the mode does not need, for good: root and capable keep CAP_SETUID and CAP_SETGID
 * (and CAP_CHOWN where keep_chown), permitted and effective, nothing inheritable or ambient, a
 * bounding set of the same, and no supplementary groups. Rootless: nothing permitted; the bounding
 * set stays, newuidmap needs it.
 */
int ids_drop_privilege(enum sandbox_mode mode, bool keep_chown, struct error *err);

/* In a child: every capability set emptied and locked, so that even an exec by uid 0 gains none.
 * Async-signal-safe. */
int ids_drop_capabilities(struct error *err);

/* The same but for the capabilities in keep (bits, 1 << CAP_…), as far as we have them. */
int ids_keep_capabilities(uint64_t keep, struct error *err);
