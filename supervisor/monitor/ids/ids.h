/*
 * The host ids of sandboxes, and the privilege that the monitor keeps for them.
 *
 * The mode is found by trying: a child maps the chosen ids into its own user namespace. An ordinary
 * user gets subordinate ids if newuidmap writes them, else the user's own id is used for all
 * sessions. Host uid 0 is never mapped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "rpc/sandbox-messages.h"

/*
 * The default range: above systemd's container range, below its reserved end (systemd,
 * docs/UIDS-GIDS.md: 1879048192–2147352575 is unused). Each monitor takes a random slot, so that
 * two on one machine rarely share ids.
 */
enum { IDS_DEFAULT_FIRST = 0x70000000, IDS_DEFAULT_COUNT = 0x0ffe0000 };

struct ids {
        enum sandbox_mode mode;
        uid_t first;    /* of template and sessions; rootless: a subordinate one, or our euid */
        gid_t group;    /* root and capable: as first; rootless: a subordinate one, or our egid */
        uint32_t count; /* without the broker's; 1: all sessions have our own id */
        bool by_helper; /* rootless with subordinate ids: newuidmap writes the map */
        uid_t broker;   /* root and capable: the first of the range, the same in each monitor,
                         * because it owns the state directory; rootless: our own euid */
        char note[160]; /* rootless with one id: why there are no more; else "" */
};

/* Rootless: a copy in which all sessions have our own id, for sandboxes that access our files.
 * In the other modes an unchanged copy. */
struct ids ids_single(const struct ids *ids);

/* Writes both id maps of a dumpable child that waits for it: 0..count-1 inside. */
int ids_map(pid_t pid, const struct ids *ids, struct error *err);

/*
 * Chooses the mode and, in root and capable mode, a run of `needed` ids (sessions + 2) inside our
 * own uid_map and gid_map that no passwd, group, subuid or subgid entry contains. range_count 0:
 * the default range, or, where our own maps do not cover it, what they have. Call before
 * ids_drop_privilege().
 */
int ids_choose(uint32_t range_first, uint32_t range_count, uint32_t needed, struct ids *ret,
               struct error *err);

/* Names the setting to change if a user namespace cannot be made or used; code is the positive errno
 * value. */
const char *ids_namespace_hint(int code);

const char *ids_mode_name(enum sandbox_mode mode);

/* Whether our uid is 0 and the only id of our user namespace, and another one outside (unshare -r). */
bool ids_root_is_ordinary(void);

/*
 * Drops the privilege that the mode does not need, permanently. Root and capable mode keep
 * CAP_SETUID and CAP_SETGID (and CAP_CHOWN if keep_chown; root also CAP_SETFCAP, without which the kernel maps no
 * id 0) in the permitted, effective and bounding set and no supplementary groups. Rootless mode keeps no permitted capability, but CAP_SETFCAP where
 * our uid is 0; its bounding set stays, because newuidmap needs it.
 */
int ids_drop_privilege(enum sandbox_mode mode, bool keep_chown, struct error *err);

/* In a child: empties and locks every capability set, so that even an exec by uid 0 gains none.
 * Async-signal-safe. */
int ids_drop_capabilities(struct error *err);

/* The same except for the capabilities in keep (bits, 1 << CAP_…) that we have. */
int ids_keep_capabilities(uint64_t keep, struct error *err);

/* Ids [first, first + count). */
struct id_run {
        uint32_t first, count;
};

struct id_runs {
        struct id_run *items;
        size_t count, allocated;
};

int id_runs_add(struct id_runs *runs, uint32_t first, uint32_t count);
void id_runs_done(struct id_runs *runs);

/* Maps of user_namespaces(7) (the inner ids), subuid(5), and passwd(5) or group(5), whose third field is the id. */
enum id_file { ID_MAP, ID_SUB, ID_NAMES };

/* Adds the ids in a file; one that does not exist adds none. */
int id_runs_add_file(struct id_runs *runs, const char *path, enum id_file kind, struct error *err);
/* Of a subuid(5) file only the ranges of one user, given there by name or by uid. */
int id_runs_add_sub_of(struct id_runs *runs, const char *path, const char *name, uint32_t uid,
                       struct error *err);

/* Whether one run contains all ids of wanted; whether some run contains any of them. */
bool id_runs_cover(const struct id_runs *runs, struct id_run wanted);
bool id_runs_overlap(const struct id_runs *runs, struct id_run wanted);

/*
 * Chooses a run of `needed` ids in range that both maps cover and that are not taken. The range is
 * divided into slots; the first free one from slot `start` on (modulo their number) is chosen.
 * Returns 0 or -ENOSPC.
 */
int id_runs_choose(struct id_run range, uint32_t needed, uint32_t start,
                   const struct id_runs *uid_map, const struct id_runs *gid_map,
                   const struct id_runs *taken, struct id_run *ret);

/*
 * fork() into new namespaces. flags: CLONE_NEW*. Returns 0 in the child, its pid in the parent, or
 * negative errno. The child is dumpable, so that its map can be written; it must make itself
 * non-dumpable after that.
 */
pid_t userns_fork(unsigned long flags);

/*
 * Writes the id maps of a dumpable child that waits for it: inside..inside+count-1 to outside_uid…
 * and outside_gid…. Without privilege over the ids setgroups() is denied first, as the kernel
 * requires (user_namespaces(7)).
 */
int userns_map(pid_t pid, uint32_t inside, uid_t outside_uid, gid_t outside_gid, uint32_t count,
               struct error *err);

/*
 * The same without a change of ids: our own where they are, all of them if we may map them (id 0 only with CAP_SETFCAP). Without
 * privilege over ids our effective two alone; other groups then have no name, and setgroups() is denied.
 */
int userns_map_same(pid_t pid, struct error *err);

/* In such a child, before exec: makes those capabilities ambient with which it can build its root directory and become another
 * id. Returns 0 or negative errno. */
int userns_keep_capabilities(void);
