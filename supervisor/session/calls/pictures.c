/* Checks of the pictures of a cell. */
#include "supervisor/session/calls/pictures.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "supervisor/session/cell/cell-result.h"

enum { EARLY_MAX = CELL_DISPLAYS_MAX };

static struct cell *its_cell(const struct session *s)
{
        struct cell *cell = session_current(s);

        return cell && cell->number == s->pictures->cell ? cell : NULL;
}

bool pictures_are_checked(const struct session *s)
{
        return s->pictures->is_pending && its_cell(s);
}

/* ---- the pictures of an outcome: of its displays, then of its result ---- */

static struct cell_picture *nth_picture(const struct cell_outcome *o, size_t i)
{
        if (i < o->n_displays)
                return o->displays[i].is_picture ? &o->displays[i].picture : NULL;
        return &o->images[i - o->n_displays].picture;
}

/* Its number, or -1. */
static ssize_t find(const struct cell_outcome *o, uint64_t token)
{
        for (size_t i = 0; i < o->n_displays + o->n_images; i++) {
                const struct cell_picture *picture = nth_picture(o, i);
                if (picture && picture->token == token)
                        return (ssize_t)i;
        }
        return -1;
}

/* One without an answer, or NULL. */
static struct cell_picture *find_unchecked(const struct cell_outcome *o)
{
        for (size_t i = 0; i < o->n_displays + o->n_images; i++) {
                struct cell_picture *picture = nth_picture(o, i);
                if (picture && picture->answer.verdict == PICTURE_UNCHECKED)
                        return picture;
        }
        return NULL;
}

static int seal(const char *text, size_t n, uint32_t *length)
{
        if (!text || n > PICTURE_INPUT_MAX)
                return -EMSGSIZE;
        *length = (uint32_t)n;
        return fd_sealed("picture", text, n, NULL);
}

/* The block is kept as text. */
static int seal_block(const struct cell_display *display, uint32_t *length)
{
        yyjson_doc *doc = NULL;
        size_t n = 0;

        if (json_parse(buffer_bytes(&display->data), display->data.length, &doc, NULL) < 0)
                return -EBADMSG;
        const char *data = cell_picture_of_block(yyjson_doc_get_root(doc), &n);
        int r = seal(data, n, length);
        yyjson_doc_free(doc);
        return r;
}

static int open_picture(struct picture_check *check, uint32_t *length)
{
        struct session *s = check->data;
        const struct cell *cell = its_cell(s);
        ssize_t i = cell ? find(&cell->outcome, s->pictures->token) : -1;
        size_t n = 0;

        if (i < 0)
                return -ENOENT;
        const struct cell_outcome *o = &cell->outcome;
        if ((size_t)i >= o->n_displays) {
                yyjson_val *block = o->images[(size_t)i - o->n_displays].block;
                const char *data = cell_picture_of_block(block, &n);
                if (!data)
                        data = cell_picture_of_resource(block, &n);
                return seal(data, n, length);
        }
        const struct cell_display *display = &o->displays[i];
        return display->is_block
                       ? seal_block(display, length)
                       : seal(display->data.length > 0 ? buffer_bytes(&display->data) : "",
                              display->data.length, length);
}

/* ---- checks ---- */

static void go_on(struct session *s);

/* The type that the bytes have, if it is known. */
static void correct_type(struct cell_display *display)
{
        const char *type = cell_picture_type(&display->picture);

        if (type && !display->is_block)
                snprintf(display->mime_type, sizeof(display->mime_type), "%s", type);
}

static void on_done(struct picture_check *check, const struct picture_answer *answer, char *made)
{
        struct session *s = check->data;
        struct cell *cell = its_cell(s);
        ssize_t i = cell ? find(&cell->outcome, s->pictures->token) : -1;

        s->pictures->is_pending = false;
        if (i < 0 || (made && !charge_fits(&cell->outcome.kept, answer->made_length))) {
                free(made);
                made = NULL;
        }
        if (i >= 0) {
                cell_picture_take(nth_picture(&cell->outcome, (size_t)i), answer, made);
                if ((size_t)i < cell->outcome.n_displays)
                        correct_type(&cell->outcome.displays[i]);
                cell_outcome_charge(&cell->outcome);
        }
        go_on(s);
}

static void ask(struct session *s, struct cell_picture *picture)
{
        const struct picture_provider *provider = &s->context->pictures;
        const struct config_profile *profile = s->profile ? s->profile : &s->context->config->top;
        struct session_pictures *p = s->pictures;

        p->token = picture->token = ++p->last_token;
        p->is_pending = true;
        p->check = (struct picture_check){
                .principal = s->principal,
                .limits = {.side = profile->picture_side,
                           .bytes = (uint32_t)profile->picture_bytes},
                .open = open_picture,
                .done = on_done,
                .data = s,
        };
        provider->ask(provider->data, &p->check);
}

/* The next picture, or what waits for the last one. */
static void go_on(struct session *s)
{
        struct session_pictures *p = s->pictures;
        struct cell *cell = its_cell(s);
        struct cell_picture *next = cell ? find_unchecked(&cell->outcome) : NULL;

        bool is_due = p->has_result || p->n_early < EARLY_MAX;

        if (next && is_due && s->context->pictures.ask && !s->channel.draining) {
                p->n_early++;
                ask(s, next);
                return;
        }
        bool has_result = p->has_result && cell;
        p->has_result = false;
        if (has_result)
                session_dispatch(s, EVENT_RESULT, NULL);
        channel_resume(&s->channel);
}

static void cancel(struct session *s)
{
        if (s->pictures->is_pending)
                s->context->pictures.cancel(s->context->pictures.data, &s->pictures->check);
        s->pictures->is_pending = false;
}

/* A check for an earlier cell is of no use. */
static void begin(struct session *s)
{
        if (!its_cell(s)) {
                cancel(s);
                s->pictures->has_result = false;
                s->pictures->n_early = 0;
                s->pictures->cell = session_current(s)->number;
        }
}

void pictures_take_display(struct session *s)
{
        begin(s);
        if (!s->pictures->is_pending && find_unchecked(&session_current(s)->outcome))
                go_on(s);
}

void pictures_take_result(struct session *s)
{
        begin(s);
        s->pictures->has_result = true;
        if (!s->pictures->is_pending)
                go_on(s);
}

void pictures_give_up(struct session *s)
{
        bool has_result = s->pictures->has_result && its_cell(s);

        cancel(s);
        s->pictures->has_result = false;
        if (has_result)
                session_dispatch(s, EVENT_RESULT, NULL);
}

void pictures_forget(struct session *s)
{
        cancel(s);
        s->pictures->has_result = false;
}
