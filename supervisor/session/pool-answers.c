/* The monitor's answers about spare sandboxes. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "supervisor/session/pool-internal.h"

enum {
        MAKE_MIN_US = 500,
        MAKE_MAX_US = 100000, /* longer ones waited for an image or a template */
};

/* A template continues to import for a moment after it is able to make sessions. A sandbox
 * made before that imports the rest itself, so later ones replace it. */
static void replace_early(struct pool *p, struct spare *made)
{
        struct pool_size *size = &p->sizes[made->profile];
        struct spare *spare, *next;
        bool early = size->first_us == 0 || made->ready_us < size->first_us + POOL_EARLY_MS * 1000;

        made->state = early ? SPARE_EARLY : SPARE_READY;
        pool_size_note_first(size, made->ready_us);
        for (spare = TAILQ_FIRST(&p->spares); spare && !early; spare = next) {
                next = TAILQ_NEXT(spare, link);
                if (spare->state == SPARE_EARLY && spare->profile == made->profile)
                        spare_end(spare);
        }
}

static void note_duration(struct pool *p, const struct spare *spare)
{
        double us = (double)(spare->ready_us - spare->asked_us);

        us = us < MAKE_MIN_US ? MAKE_MIN_US : us > MAKE_MAX_US ? MAKE_MAX_US : us;
        p->make_us += (us - p->make_us) / 4;
}

static void take_made(struct spare *spare, const int fds[SESSION_FDS])
{
        struct pool *p = spare->pool;
        bool discard = spare->state == SPARE_DISCARDING;

        memcpy(spare->fds, fds, sizeof(spare->fds));
        spare->ready_us = clock_us();
        spare->state = SPARE_READY;
        spare->readable = event_new(p->base, fds[SESSION_RPC], EV_READ | EV_PERSIST,
                                    spare_on_readable, spare);
        if (discard || !spare->readable || event_add(spare->readable, NULL) < 0)
                spare_end(spare);
        else
                replace_early(p, spare);
        note_duration(p, spare);
}

static struct spare *find_requested(struct pool *p, uint32_t serial)
{
        struct spare *spare;

        TAILQ_FOREACH (spare, &p->spares, link) {
                if (spare_is_requested(spare) && spare->serial == serial)
                        return spare;
        }
        return NULL;
}

bool pool_started(struct pool *p, uint32_t serial, uint32_t target, const int fds[SESSION_FDS])
{
        struct spare *spare = find_requested(p, serial);

        if (!spare)
                return false;
        spare->target = target;
        take_made(spare, fds);
        log_debug("sandbox %u is ready", target);
        pool_request_soon(p);
        return true;
}

static void leave(struct spare *spare)
{
        struct pool *p = spare->pool;

        spare_free(spare);
        p->owner.place_free(p->owner.data);
        pool_request_soon(p);
}

bool pool_failed(struct pool *p, uint32_t serial, const struct error *error)
{
        struct spare *spare = find_requested(p, serial);

        if (!spare)
                return false;
        if (error->code != ESTALE && spare->state == SPARE_COMING) {
                p->sizes[spare->profile].suspended = true;
                log_error("%s", error->text);
        }
        leave(spare);
        return true;
}

bool pool_ended(struct pool *p, uint32_t target)
{
        struct spare *spare;

        TAILQ_FOREACH (spare, &p->spares, link) {
                if (spare_is_requested(spare) || spare->target != target)
                        continue;
                if (spare_is_ready(spare)) {
                        log_info("sandbox %u, which was ready, has ended", target);
                        spare_note_death(spare);
                }
                leave(spare);
                return true;
        }
        return false;
}
