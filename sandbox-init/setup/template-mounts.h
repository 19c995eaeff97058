/*
 * Mounts the host directories of a profile in its template.
 *
 * If the image has the target directory, the source is mounted on it. Otherwise the directories of
 * the target are made on a small read-only tmpfs, into which the other entries of the image are
 * bound. Targets below /workspace and /tmp are mounted on such a tmpfs too: each session copies them
 * from there to its own /workspace and /tmp (layout_is_late()).
 */
#pragma once

#include "base/error.h"
#include "rpc/sandbox-messages.h"

struct template_mounts {
        int trees[TEMPLATE_MOUNTS_MAX];    /* detached, in the order of the plan */
        int made[TEMPLATE_MOUNTS_MAX + 1]; /* tmpfs for targets, to become read-only */
        uint32_t n_made;
        int image; /* directory, when the root is a tmpfs of ours and still empty; otherwise -1 */
};

/* Before the mount namespace is ours: copies the trees behind the O_PATH descriptors. */
int mounts_clone(const struct template_plan *plan, const int *sources, struct template_mounts *ret,
                 struct error *err);

/* The image is the working directory, in our own mount namespace: returns the detached root. */
int mounts_make_root(const struct template_plan *plan, struct template_mounts *mounts,
                     struct error *err);
/* Once that is attached over /. */
int mounts_fill_root(struct template_mounts *mounts, int root, struct error *err);
int mounts_attach(const struct template_plan *plan, struct template_mounts *mounts, int root,
                  struct error *err);
