/*
 * The template as the monitor holds it: its outer namespaces (stub), its process, its control
 * socket, and the one session that is being made. Others wait in line.
 */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "policy/config.h"
#include "policy/image.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/children.h"
#include "supervisor/monitor/template/sandbox.h"

struct template;

/* What the template is made of; descriptors are borrowed. */
struct template_parts {
        const struct image_info *image;
        int image_fd;  /* O_PATH directory of the image's root */
        int worker_fd; /* by the image's link: cloister-worker or cloister-module */
        int init_fd;
        const struct config_profile *profile; /* preload, network and mounts; NULL: none */
        const int *sources;                   /* O_PATH directories, in the order of its mounts */
        int template_filter_fd, worker_filter_fd, init_filter_fd, stub_filter_fd;
};

struct template_host {
        struct event_base *base;
        struct children *children;
        const struct ids *ids;
        struct cgroups *const *cgroups; /* there may be others until the first template starts */
        void *data;
        /* A session is made (error NULL) or not; the sandbox is the callee's from then on. ESTALE:
         * the template ended before it was made, or was killed as it started; another one may
         * make it. */
        void (*made)(void *data, struct sandbox *sandbox, const struct error *error);
        /* The template has ended or never started; what it could not make has been told. Free it.
         */
        void (*ended)(void *data, const struct error *error);
};

int template_start(const struct template_host *host, const struct template_parts *parts,
                   struct template **ret, struct error *err);

/* Ends it and the sessions made from it, without waiting: at the end of everything. */
void template_kill(const struct template *template);

/* Ends it; the sessions made from it live on. */
struct template *template_free(struct template *template);

/* Asks for a session: host->made follows. limits are fitted; rlimits: nothing else bounds memory
 * and pids. */
int template_make(struct template *template, struct sandbox *sandbox, const struct limits *limits,
                  bool rlimits, struct error *err);
