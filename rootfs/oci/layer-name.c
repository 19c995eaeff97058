/* The name of an entry in a layer. */
#include "rootfs/oci/layer-name.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "rootfs/plan.h"

enum { PREFIX_LENGTH = sizeof(WHITEOUT_PREFIX) - 1 };

struct components {
        const char *rest;
        const char *name;
        size_t length;
};

/* The next component that is neither empty nor ".". */
static bool next_component(struct components *c)
{
        do {
                c->rest += strspn(c->rest, "/");
                c->name = c->rest;
                c->length = strcspn(c->rest, "/");
                c->rest += c->length;
        } while (c->length == 1 && *c->name == '.');
        return c->length > 0;
}

static bool has_prefix(const char *name)
{
        return strncmp(name, WHITEOUT_PREFIX, PREFIX_LENGTH) == 0;
}

/* Storage drivers keep files of their own below .wh..wh.NAME. */
static int whiteout(struct layer_name *name)
{
        const char *hidden = name->base + PREFIX_LENGTH;

        if (strcmp(name->base, WHITEOUT_OPAQUE) == 0) {
                *name->base = '\0';
                return LAYER_NAME_OPAQUE;
        }
        if (has_prefix(hidden))
                return LAYER_NAME_LEFT_OUT;
        if (!*hidden || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
                return -EINVAL;
        memmove(name->base, hidden, strlen(hidden) + 1);
        return LAYER_NAME_WHITEOUT;
}

static int add_to_parent(struct layer_name *ret, size_t *at)
{
        size_t n = strlen(ret->base);

        if (*at + n + 2 > sizeof(ret->parent))
                return -ENAMETOOLONG;
        if (*at > 0)
                ret->parent[(*at)++] = '/';
        memcpy(ret->parent + *at, ret->base, n + 1);
        *at += n;
        return 0;
}

int layer_name_parse(const char *name, struct layer_name *ret)
{
        struct components c = {.rest = name};
        bool left_out = false;
        size_t at = 0;
        int depth = 0;

        *ret->parent = *ret->base = '\0';
        for (; next_component(&c); depth++) {
                if (c.length == 2 && memcmp(c.name, "..", 2) == 0)
                        return -EXDEV;
                if (c.length > NAME_MAX)
                        return -ENAMETOOLONG;
                if (depth == LAYER_DEPTH_MAX)
                        return -ELOOP;
                if (depth > 0) {
                        int r = add_to_parent(ret, &at);
                        if (r < 0)
                                return r;
                        left_out |= has_prefix(ret->base) ||
                                    (depth == 1 && plan_leaves_out(ret->base));
                }
                memcpy(ret->base, c.name, c.length);
                ret->base[c.length] = '\0';
        }
        if (at == 0)
                strcpy(ret->parent, ".");
        if (depth == 0)
                return LAYER_NAME_ROOT;
        int kind = has_prefix(ret->base) ? whiteout(ret) : LAYER_NAME_ENTRY;
        if (kind < 0)
                return kind;
        return left_out || (depth == 1 && plan_leaves_out(ret->base)) ? LAYER_NAME_LEFT_OUT : kind;
}

const char *layer_name_problem(int code)
{
        switch (code) {
        case -EXDEV:
                return "it leads outside the root";
        case -EINVAL:
                return "it is a whiteout of no file";
        case -ELOOP:
                return "it is deeper than 128 directories";
        default:
                return "its path is too long";
        }
}
