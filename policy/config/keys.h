/*
 * The table of the config's keys (keys.def) in memory.
 *
 * A place is an object in a config file, and the struct that its keys go into. The parser, the copies of
 * a config, 'cloister config show', 'cloister config schema', the tables in docs/ and the import of other
 * clients' entries all loop over these rows.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json-out.h"
#include "policy/config/types.h"

/* Each place, and its struct. The keys of the file are rows of CONFIG_TOP, and those of CONFIG_PROFILE with
 * CONFIG_AT_TOP; CONFIG_PUBLISHED is an entry of "publish". */
#define CONFIG_EACH_PLACE(PLACE)                                                                   \
        PLACE(TOP, struct config)                                                                  \
        PLACE(PROFILE, struct config_profile)                                                      \
        PLACE(LIMITS, struct limits)                                                               \
        PLACE(NETWORK, struct config_profile)                                                      \
        PLACE(MOUNT, struct config_mount)                                                          \
        PLACE(RULES, struct config_tool_rules)                                                     \
        PLACE(POOL, struct config_pool)                                                            \
        PLACE(BACKGROUND, struct config_profile)                                                   \
        PLACE(METRICS, struct config)                                                              \
        PLACE(STATE, struct config_profile)                                                        \
        PLACE(PICTURES, struct config_profile)                                                     \
        PLACE(JOURNAL, struct config_journal)                                                      \
        PLACE(PACKAGES, struct config_packages)                                                    \
        PLACE(ASK, struct config_ask)                                                              \
        PLACE(LIBRARIES, struct config_libraries)                                                  \
        PLACE(SECRETS, struct config_secret)                                                       \
        PLACE(SECRET_FROM, struct config_secret_from)                                              \
        PLACE(SECRET_ARGUMENTS, struct config_secret_argument)                                     \
        PLACE(PROGRAM, struct config_program)                                                      \
        PLACE(NODE, struct config_node)                                                            \
        PLACE(SERVER, struct config_server)                                                        \
        PLACE(TOKEN, struct config_server)                                                         \
        PLACE(OAUTH, struct config_oauth)                                                          \
        PLACE(AS, struct config_as)                                                                \
        PLACE(AS_SERVER, struct config_as)                                                         \
        PLACE(SETTING, struct config_setting)                                                      \
        PLACE(PUBLISHED, struct config_published)                                                  \
        PLACE(RUN, struct config_run)                                                              \
        PLACE(RUN_LANGUAGE, struct config_run)                                                     \
        PLACE(RUN_TIMEOUT, struct config_run_timeout)

#define CONFIG_PLACE(place, type) CONFIG_##place,
enum config_place { CONFIG_EACH_PLACE(CONFIG_PLACE) CONFIG_PLACES };
#undef CONFIG_PLACE

/* The type of a key's value, and of the member that it goes into. */
enum config_kind {
        CONFIG_NOTHING, /* no member */
        CONFIG_BOOL,
        CONFIG_WORDS, /* one of several words; the member is its index */
        CONFIG_BYTES, /* a size; 8 bytes */
        CONFIG_COUNT, /* a whole number; 2, 4 or 8 bytes */
        CONFIG_TIME,  /* milliseconds */
        CONFIG_CORES, /* thousandths */
        /* char *: */
        CONFIG_TEXT,    /* any string */
        CONFIG_WORD,    /* a string that is not empty */
        CONFIG_IMAGE,   /* the name of an image or a profile */
        CONFIG_PATH,    /* an absolute path */
        CONFIG_PYTHON,  /* the absolute path of an interpreter, or a version */
        CONFIG_USER,    /* a user's name */
        CONFIG_VISIBLE, /* printable ASCII without blanks, at most 2048 bytes */
        /* char **, NULL-terminated: */
        CONFIG_LIST, /* at most `most` strings */
        /* a struct whose rows are those of `inside`: */
        CONFIG_OBJECT,
        CONFIG_ARRAY, /* a pointer to such structs, followed by a size_t: their number */
};

enum {
        CONFIG_AT_TOP = 1,    /* of a profile's key: also a key of the file, the default of all */
        CONFIG_BY_CODE = 2,   /* the function of `code` reads the value, whatever the kind */
        CONFIG_SECRET = 4,    /* overwritten when freed */
        CONFIG_URL = 8,       /* may have a password, which is masked */
        CONFIG_ALWAYS = 16,   /* 'config show' prints it when it has no value or the default, too */
        CONFIG_SEPARATE = 32, /* of an object: a profile inherits each of its keys by itself */
        CONFIG_LISTED = 64,   /* of a published entry: clients see it in the list of its kind */
        CONFIG_REQUIRED = 128, /* an object without it is refused */
};

/* A key whose value needs code: a reader with CONFIG_BY_CODE, otherwise a check of the value that was read.
 */
enum config_code {
        CODE_NONE,
#define ROW(code, function) CODE_##code,
#include "policy/config/codes.def"
#undef ROW
        CONFIG_CODES,
};

/* When a value that was changed counts in a server that reads it again. */
enum config_takes {
        CONFIG_NEW_SESSIONS, /* for sessions that begin later */
        CONFIG_NOW,
        CONFIG_RESTART, /* at the next start */
};

struct config_key {
        const char *name; /* NULL: a member of the struct that no key sets */
        enum config_place place;
        enum config_kind kind;
        size_t offset, size;      /* of the member */
        uint64_t least, most;     /* of a number, both included; most also of a list */
        uint64_t initial;         /* the default of a number, a boolean or a word */
        enum config_place inside; /* of CONFIG_OBJECT and CONFIG_ARRAY */
        const char *const
                *words; /* NULL-terminated; of CONFIG_TIME: one word, for CONFIG_UNLIMITED */
        enum config_code code;
        enum config_takes takes;
        const char *part_of; /* of a member without a key: the key of CODE_… that sets it */
        unsigned flags;
        unsigned
                published; /* bits of enum config_published_kind: the entries that may have it; 0: all */
        const char *
                schema; /* members of its JSON Schema that the other columns do not give, or NULL */
        const char *fallback; /* what holds without it, where `initial` does not tell; or NULL */
        const char *text;     /* one line for people */
};

/* How another client's value differs from that of our key. */
enum config_form {
        CONFIG_SAME,
        CONFIG_INVERTED,     /* true means false */
        CONFIG_MILLISECONDS, /* a number is one of milliseconds */
        CONFIG_VARIABLES,    /* the values are names of variables */
        CONFIG_BEARER,       /* the value names the variable of a bearer token */
        CONFIG_ELSEWHERE,    /* not read: the warning names our key */
        CONFIG_FOREIGN,      /* only the other client uses it: ignored */
};

struct config_alias {
        const char *name;
        enum config_place place;
        const char *of; /* the name of our key; NULL for CONFIG_FOREIGN */
        enum config_form form;
};

/* The rows of a place, in the order of keys.def. Call with NULL for the first; NULL after the last. At the
 * top level the profile's rows with CONFIG_AT_TOP follow the own ones. Rows without a name are included. */
const struct config_key *config_next_key(enum config_place place, const struct config_key *before);
/* Iterates as config_next_key() over all keys that set members of struct config: those of the file, then those of its parts. */
const struct config_key *config_next_own_key(const struct config_key *before);

/* The row of a name or of an alias. *form is CONFIG_SAME for a name. NULL if there is none; *form is
 * CONFIG_FOREIGN if the name is ignored. */
const struct config_key *config_find_key(enum config_place place, const char *name,
                                         enum config_form *form);
/* The key of a place that a wrong name may mean, or NULL. */
const char *config_nearest_key(enum config_place place, const char *name);

/* The aliases of a place, in the same way. */
const struct config_alias *config_next_alias(enum config_place place,
                                             const struct config_alias *before);

/* The bit in config_profile.said of a row of CONFIG_PROFILE or CONFIG_LIMITS. */
uint64_t config_key_bit(const struct config_key *key);

/* The value of a number, a boolean or a word, in a struct of the key's place. */
uint64_t config_number(const struct config_key *key, const void *in);
void config_set_number(const struct config_key *key, void *in, uint64_t value);
/* The member itself. */
static inline void *config_member(const struct config_key *key, const void *in)
{
        return (char *)(uintptr_t)in + key->offset;
}
static inline bool config_is_number(const struct config_key *key)
{
        return key->kind >= CONFIG_BOOL && key->kind <= CONFIG_CORES;
}
static inline bool config_is_text(const struct config_key *key)
{
        return key->kind >= CONFIG_TEXT && key->kind <= CONFIG_VISIBLE;
}

/* Writes a number of KiB with the largest unit: "512M". */
void config_print_bytes(char *to, size_t n, uint64_t bytes);

/* Bytes of the struct of a place. */
size_t config_place_size(enum config_place place);
/* Sets the members of a struct to the defaults, those of objects in it too. */
void config_defaults(enum config_place place, void *in);
/* Frees what the struct owns and sets it to zero. */
void config_done(enum config_place place, void *in);
/* Copies the struct. Returns 0 or -ENOMEM; *to is zero then. */
int config_copy(enum config_place place, const void *from, void *to);
/* Frees the value of a key, and sets the keys of an object to their defaults. */
void config_reset(const struct config_key *key, void *in);
/* Moves the member of one struct to another, freeing the value there. */
void config_move(const struct config_key *key, void *from, void *to);

/* --- texts and lists --- */

/* strdup() into *to, freeing the old text. Returns 0 or -ENOMEM. */
int config_set_text(char **to, const char *text);
/* Lists end with NULL, and may be NULL. */
char **config_list_free(char **list);
/* Grows *array (*count items of size) by n items of more, which are moved: *n becomes 0. */
int config_append_items(void *array, size_t *count, void *more, size_t *n, size_t size);

/* Writes the schema of a config file. */
void config_schema(struct json_out *out);

/* Writes a number, a boolean or a word as it is written in a config: 1.5, "512M", true, "never". name: of
 * the member, or NULL. */
void config_put_number(struct json_out *out, const char *name, const struct config_key *key,
                       uint64_t value);

/* "tool", "prompt", … */
const char *config_published_kind_name(enum config_published_kind kind);

enum { CONFIG_CHANGED_MAX = 256 };
/* The names of the keys that differ and count at a restart only, such as "user, id_range". Returns how many there are. */
size_t config_changed_at_restart(const struct config *before, const struct config *now,
                                 char ret[CONFIG_CHANGED_MAX]);
