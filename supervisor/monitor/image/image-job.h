/*
 * The image that sessions are made of: found in the store, or built there by a process that is
 * started as an upstream server would be.
 */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "policy/image.h"
#include "policy/package-set.h"
#include "supervisor/monitor/process/children.h"
#include "supervisor/monitor/upstream/upstream.h"

struct image_job;

struct image_choice {
        char store[512];
        char python[512];
        char name[IMAGE_NAME_SIZE];
        bool is_default;               /* made when it is missing; a named one is not */
        const char *link;              /* for the build: how it is to be linked, or NULL */
        const char *rootfs;            /* a directory that it is made from, or NULL (borrowed) */
        const struct package_set *set; /* what it is to have besides, or NULL (borrowed) */
};

/* Which image: name and python may be NULL. One that is made when it is missing has its name by
 * image_refresh(). */
int image_choose(const char *name, const char *python, struct image_choice *ret, struct error *err);

/* The image that has a set of packages, on top of the default one. */
int image_choose_set(const struct package_set *set, const char *python, struct image_choice *ret,
                     struct error *err);

/* The name of an image that is made when it is missing, as of now: it has another after a build of
 * packages, or of an interpreter that was not known, or when something was upgraded. */
int image_refresh(struct image_choice *choice, struct error *err);

/* Opens an image that is there, and keeps it from being removed until this process ends. *root_fd:
 * O_PATH directory. -ENOENT when it is not there. */
int image_open(const struct image_choice *choice, struct image_info *info, int *root_fd,
               struct error *err);

/* Creates the store where it is missing, owned by whom images are built as. */
int image_store_create(const struct image_choice *choice, const struct upstream_user *user,
                       struct error *err);

/* Builds it; done is called once from the event loop (error NULL: it is there, by the name that
 * image_refresh() gives). program: path of `cloister`. */
int image_job_start(struct event_base *base, struct children *children, const char *program,
                    const struct image_choice *choice, const struct upstream_user *user, bool quiet,
                    void (*done)(void *data, const struct error *error), void *data,
                    struct image_job **ret, struct error *err);
struct image_job *image_job_free(struct image_job *job); /* kills it when it still runs */
