/*
 * A template in the monitor: its namespaces (stub), its process, its control socket, and the session
 * that it is making. Other requests wait in a queue.
 *
 * Code of the image runs in it. It is bounded like a session from its first byte, and no process but
 * stub and template may be beside its sessions (stub.h).
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "policy/image.h"
#include "policy/limits.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/children.h"
#include "supervisor/monitor/template/sandbox.h"

struct template;

/* The parts of a template; descriptors are borrowed. */
struct template_parts {
        const struct image_info *image;
        int image_fd;  /* O_PATH directory of the image's root */
        int worker_fd; /* by the image's link: cloister-worker or cloister-module */
        int init_fd;
        const struct config_profile *profile; /* preload, network and mounts; NULL: none */
        const struct limits *limits;          /* of the template itself; NULL: the default ones */
        const int *sources;                   /* O_PATH directories, in the order of its mounts */
        int packages_fd;                      /* O_PATH directory for PACKAGES_TARGET; -1: none */
        bool rlimits; /* no control group bounds it for sure: stricter filter and /dev, rlimits */
        int template_filter_fd, worker_filter_fd, init_filter_fd, stub_filter_fd;
};

struct template_host {
        struct event_base *base;
        struct children *children;
        const struct ids *ids;
        struct cgroups *const *cgroups; /* replaced once, before the first template starts */
        void *data;
        /* A session was made (error NULL) or not. The callee takes the sandbox. ESTALE: the template
         * ended before it had made it; another template may. */
        void (*made)(void *data, struct sandbox *sandbox, const struct error *error);
        /* The template has ended, or did not start. made() was called for all sessions in the
         * queue. The callee frees the template. */
        void (*ended)(void *data, const struct error *error);
        int start_seconds; /* until a template must be ready; 0: the usual time */
        /* A session has left the queue. May be NULL. */
        void (*has_room)(void *data);
};

int template_start(const struct template_host *host, const struct template_parts *parts,
                   struct template **ret, struct error *err);

/* Of one that has ended: whether another one may make the sessions that it has not made. */
bool template_may_be_replaced(const struct template *template);

/* Kills it and its sessions without waiting: when the monitor ends. */
void template_kill(const struct template *template);

/* Kills it. Its sessions live on. */
struct template *template_free(struct template *template);

/* Queues a request for a session: host->made() follows. limits are fitted. rlimits: there is no
 * control group. */
int template_make(struct template *template, struct sandbox *sandbox, const struct limits *limits,
                  bool rlimits, struct error *err);
