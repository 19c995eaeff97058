/*
 * The placeholders of all sessions of the process, and their replacement in requests. A text is searched for those of every session:
 * one of another session, one that is not for the host, or one in a place that "in" does not name is refused. Takes linear time.
 */
#pragma once

#include "base/buffer.h"
#include "supervisor/inject/settings.h"

enum { PLACEHOLDER_BUCKETS = 1024 };

struct placeholder {
        struct placeholder *next; /* of its bucket */
        const void *session;
        size_t secret;
        const char *text; /* borrowed */
};

struct placeholders {
        const struct inject_settings *settings;
        struct placeholder *buckets[PLACEHOLDER_BUCKETS];
        struct {
                size_t n;      /* bytes of each placeholder; 0: none is known */
                size_t common; /* with which all begin */
                char prefix[INJECT_PLACEHOLDER_SIZE];
        } secrets[INJECT_SECRETS_MAX];
};

/* Of a session, for the secret with this index; `item` belongs to the caller. -EINVAL: its length is not that of others. */
int placeholders_add(struct placeholders *all, struct placeholder *item, const void *session,
                     size_t secret, const char *text);
void placeholders_remove(struct placeholders *all, struct placeholder *item);

enum placeholder_encoding { ENCODE_NOT, ENCODE_PERCENT, ENCODE_JSON };

struct placeholder_use {
        const struct placeholders *all;
        const void *session;
        size_t host;
        enum inject_place place;
        enum placeholder_encoding encoding; /* of the values */
};

/* Appends the text with the values. Returns how many were put in; -EACCES: refused, and the error has a clause; -EMSGSIZE, -ENOMEM. */
int placeholders_replace(const struct placeholder_use *use, const char *text, size_t n,
                         struct buffer *to, struct error *err);
/* The value of a header; also inside of "Basic" credentials. */
int placeholders_replace_header(const struct placeholder_use *use, const char *name,
                                const char *value, struct buffer *to, struct error *err);
