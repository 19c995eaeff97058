/* Pictures of a cell: their answers, and what is said of them. */
#include "supervisor/session/cell/cell-picture.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/cleanup.h"

/* How the base64 of each type begins. */
static const char *const beginnings[PICTURE_TYPE_MAX] = {
        [PICTURE_PNG] = "iVBORw0KGgo",
        [PICTURE_JPEG] = "/9j/",
        [PICTURE_GIF] = "R0lGOD",
        [PICTURE_WEBP] = "UklGR",
};

static bool begins_as(const char *base64, size_t n, unsigned type)
{
        const char *begin = type < PICTURE_TYPE_MAX ? beginnings[type] : NULL;

        return begin && n >= strlen(begin) && memcmp(base64, begin, strlen(begin)) == 0;
}

void cell_picture_done(struct cell_picture *picture)
{
        free(picture->made);
        *picture = (struct cell_picture){};
}

bool cell_picture_is(const char *mime_type, const char *base64, size_t n)
{
        for (unsigned type = PICTURE_PNG; type < PICTURE_TYPE_MAX; type++)
                if (strcmp(mime_type, picture_mime_type(type)) == 0 ||
                    (strncmp(mime_type, "image/", 6) == 0 && begins_as(base64, n, type)))
                        return true;
        return false;
}

bool cell_picture_is_named(const char *mime_type)
{
        static const char *const names[] = {"png", "jpeg", "jpg", "gif", "webp"};
        const char *type = mime_type + strspn(mime_type, " \t");

        for (size_t i = 0; i < ARRAY_SIZE(names) && strncasecmp(type, "image/", 6) == 0; i++) {
                const char *end = type + 6 + strlen(names[i]);
                if (strncasecmp(type + 6, names[i], strlen(names[i])) == 0 &&
                    (*end == '\0' || strchr("; \t", *end)))
                        return true;
        }
        return false;
}

const char *cell_picture_of_resource(yyjson_val *resource, size_t *n)
{
        const char *mime_type = json_string(resource, "mimeType", NULL);
        const char *blob = json_string(resource, "blob", n);

        if (!blob || (mime_type && cell_picture_is_named(mime_type)))
                return blob;
        return cell_picture_is(mime_type ? mime_type : "image/*", blob, *n) ? blob : NULL;
}

yyjson_val *cell_picture_resource(yyjson_val *block)
{
        bool has_one = yyjson_equals_str(yyjson_obj_get(block, "type"), "resource");

        return has_one ? yyjson_obj_get(block, "resource") : NULL;
}

const char *cell_picture_of_block(yyjson_val *block, size_t *n)
{
        yyjson_val *resource = cell_picture_resource(block);

        if (resource)
                return cell_picture_of_resource(resource, n);
        if (!yyjson_equals_str(yyjson_obj_get(block, "type"), "image"))
                return NULL;
        const char *data = json_string(block, "data", n);
        *n = data ? *n : 0;
        return data ? data : "";
}

void cell_picture_correct_resource(const struct cell_picture *picture, yyjson_val *resource)
{
        bool is_fine = picture->answer.verdict == PICTURE_FINE;

        yyjson_set_str(yyjson_obj_get(resource, "mimeType"),
                       is_fine ? cell_picture_type(picture) : "application/octet-stream");
}

void cell_picture_take(struct cell_picture *picture, const struct picture_answer *answer,
                       char *made)
{
        cell_picture_done(picture);
        picture->answer = *answer;
        if (answer->verdict != PICTURE_MADE) {
                free(made);
                return;
        }
        picture->made = made;
        if (made && begins_as(made, answer->made_length, answer->made) &&
            base64_valid(made, answer->made_length, NULL))
                return;
        cell_picture_done(picture);
        picture->answer = (struct picture_answer){.verdict = PICTURE_REFUSED,
                                                  .reason = PICTURE_REASON_ENDED};
}

const char *cell_picture_sent_type(const struct cell_picture *picture)
{
        const struct picture_answer *a = &picture->answer;

        if (!cell_picture_is_shown(picture))
                return NULL;
        return picture_mime_type(a->verdict == PICTURE_MADE ? a->made : a->type);
}

const char *cell_picture_type(const struct cell_picture *picture)
{
        return picture_mime_type(picture->answer.type);
}

/* ---- text ---- */

/* 1234567 as "1,234,567". */
static const char *number(uint32_t n, char to[16])
{
        char digits[12];
        int length = snprintf(digits, sizeof(digits), "%u", n), at = 0;

        for (int i = 0; i < length; i++) {
                if (i > 0 && (length - i) % 3 == 0)
                        to[at++] = ',';
                to[at++] = digits[i];
        }
        to[at] = '\0';
        return to;
}

static void describe_refusal(const struct picture_answer *a, char to[CELL_PICTURE_TEXT_MAX])
{
        static const char *const names[PICTURE_TYPE_MAX] = {"picture", "PNG", "JPEG", "GIF",
                                                            "WebP"};
        const char *type = names[a->type];
        char width[16], height[16], rows[16];

        number(a->width, width);
        number(a->height, height);
        number(a->rows, rows);
        switch (a->reason) {
        case PICTURE_REASON_EMPTY:
                snprintf(to, CELL_PICTURE_TEXT_MAX, "it has no bytes");
                break;
        case PICTURE_REASON_TYPE:
                snprintf(to, CELL_PICTURE_TEXT_MAX, "it is not a PNG, JPEG, GIF or WebP");
                break;
        case PICTURE_REASON_SIDE:
                snprintf(to, CELL_PICTURE_TEXT_MAX, "%s of %s x %s pixels", type, width, height);
                break;
        case PICTURE_REASON_PIXELS:
                snprintf(to, CELL_PICTURE_TEXT_MAX, "%s of %s x %s pixels, too many to check", type,
                         width, height);
                break;
        case PICTURE_REASON_CUT:
        case PICTURE_REASON_DAMAGED:
                snprintf(to, CELL_PICTURE_TEXT_MAX, "%s, %s", type,
                         a->reason == PICTURE_REASON_CUT ? "cut" : "damaged");
                if (a->height > 0 && a->rows < a->height)
                        snprintf(to + strlen(to), CELL_PICTURE_TEXT_MAX - strlen(to),
                                 " after %s of %s rows", rows, height);
                break;
        case PICTURE_REASON_BYTES:
                snprintf(to, CELL_PICTURE_TEXT_MAX, "%s, larger than the limit in bytes", type);
                break;
        case PICTURE_REASON_KIND:
                snprintf(to, CELL_PICTURE_TEXT_MAX, "%s of a kind that few programs read", type);
                break;
        case PICTURE_REASON_TIME:
                snprintf(to, CELL_PICTURE_TEXT_MAX, "it takes more than 0.2 s to check");
                break;
        default:
                snprintf(to, CELL_PICTURE_TEXT_MAX, "it could not be checked");
        }
}
static_assert(PICTURE_CPU_MS == 200, "the text above names 0.2 s");

bool cell_picture_describe(const struct cell_picture *picture, char to[CELL_PICTURE_TEXT_MAX])
{
        const struct picture_answer *a = &picture->answer;
        char numbers[4][16];

        to[0] = '\0';
        if (a->verdict == PICTURE_FINE)
                return false;
        if (!cell_picture_is_shown(picture)) {
                describe_refusal(a, to);
                return true;
        }
        if (a->is_animated)
                snprintf(to, CELL_PICTURE_TEXT_MAX, "as its first frame");
        if (a->made_width != a->width || a->made_height != a->height)
                snprintf(to + strlen(to), CELL_PICTURE_TEXT_MAX - strlen(to),
                         "%s%s x %s pixels instead of %s x %s", *to ? ", with " : "with ",
                         number(a->made_width, numbers[0]), number(a->made_height, numbers[1]),
                         number(a->width, numbers[2]), number(a->height, numbers[3]));
        return *to != '\0';
}
