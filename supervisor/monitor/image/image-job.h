/* Builds an image in the store, by a process that is started as an upstream server would be. */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/image/image-store.h"
#include "supervisor/monitor/process/children.h"
#include "supervisor/monitor/upstream/upstream-exec.h"

struct image_job;

enum { IMAGE_JOB_TOLD_MS = 1000, IMAGE_JOB_TOLD_AGAIN_MS = 5000 };

/* done is called once from the event loop (error NULL: the image exists). told gets the last line of the
 * builder, at most every IMAGE_JOB_TOLD_MS and again after IMAGE_JOB_TOLD_AGAIN_MS, and "ready"; may be NULL. program: path of
 * `cloister`, which builds images. cgroups: where there are groups, a build with packages gets one, which
 * bounds its memory; may be NULL. */
int image_job_start(struct event_base *base, struct children *children, struct cgroups *cgroups,
                    const char *program, const struct image_choice *choice,
                    const struct upstream_user *user, bool quiet,
                    void (*done)(void *data, const struct error *error),
                    void (*told)(void *data, const char *line), void *data, struct image_job **ret,
                    struct error *err);
struct image_job *image_job_free(struct image_job *job); /* kills it when it still runs */
