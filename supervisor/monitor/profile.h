/*
 * What the monitor has of a profile: its image, its template while one lives, and the requests that
 * wait for one.
 *
 * Theory of operation. A request waits in line until there is a template; a template needs an
 * image. Both are made when the first request comes; those of the profile that this process was
 * started for, a little after the start when nobody asks: the client's handshake goes first. What
 * fails is told to everybody in that line, and the next request tries again. A template that has
 * died is made anew, a few times over, for whom it has not made a session for. One that nobody has
 * used for as long as an idle session lives is ended, and so is the one unused longest when there
 * are too many; sessions do not notice.
 *
 * A reload keeps the profiles whose sandboxes are to be as before. The others finish what they were
 * asked for.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/config.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/image/image-job.h"
#include "supervisor/monitor/image/image-reader.h"
#include "supervisor/monitor/template/sandbox.h"
#include "supervisor/monitor/template/template.h"

struct monitor;

enum {
        PROFILE_TEMPLATES_MAX = 4, /* that live at once, those at work aside */
};

struct profile {
        struct monitor *monitor;
        struct profile *next;  /* of those that a reload retired */
        struct config *config; /* holds the settings */
        const struct config_profile *settings;
        struct limits limits; /* fitted */
        struct ids ids;       /* of its sandboxes: one where they are to reach host directories */
        struct image_choice image;
        struct error problem;           /* why it has no image to look for */
        int sources[CONFIG_MOUNTS_MAX]; /* opened while we may; -1: at the template's start */
        struct error source_problem;    /* why one of them could not be */
        bool is_early;                  /* made before it is asked for, and kept */
        struct image_reader *image_reader;
        struct image_job *image_job;
        struct template_host template_host;
        struct template *template;
        bool network_checked;         /* of the present template */
        unsigned int template_deaths; /* since a session was last made */
        uint32_t *waiting;            /* serials, at most sessions_max */
        size_t n_waiting;
        size_t n_making; /* in the template's line */
        uint64_t used;   /* when last, seconds of the monotonic clock */
};

/* The profiles of a config, at the start or after a reload, in place of those that there are; the
 * config is referenced. On failure they stay. */
int profiles_load(struct monitor *m, struct config *config, struct error *err);
void profiles_done(struct monitor *m);

/* Image and template, if they are not there or under way. */
void profile_prepare(struct profile *profile);
/* The same, and the sessions of who waits. */
void profile_go_on(struct profile *profile);

/* Queues a request for a session. */
void profile_request(struct profile *profile, uint32_t serial);
