/*
 * The form of a result: "result" of a published tool (docs/publish.md), as parsed JSON.
 *
 * A form is a list of cases. A case has parts: a string is literal text with {field} in it, an object with "field" is
 * the value of a field with its options, and everything else in a "json" is a constant. The reader of the config checks
 * a form with result_form_check(); the broker reads it with the same functions. A value of a field is never read as a
 * form.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/error.h"
#include "base/json-out.h"

enum {
        RESULT_CASES_MAX = 16,
        RESULT_PARTS_MAX = 64,              /* of a text, of an object or of a list */
        RESULT_DEPTH_MAX = 8,               /* of a "json" */
        RESULT_FORM_MAX = 64 * 1024,        /* bytes of a form */
        RESULT_LIMIT_MAX = 8 * 1024 * 1024, /* bytes of a stream in a result */
        RESULT_DIGITS_MAX = 6,
};

/* How a call ended. "ok" includes "no output" and sys.exit(0). */
#define RESULT_EACH_END(END)                                                                       \
        END(OK, "ok")                                                                              \
        END(NO_OUTPUT, "no output")                                                                \
        END(ERROR, "error")                                                                        \
        END(EXIT, "exit")                                                                          \
        END(TIMEOUT, "timeout")                                                                    \
        END(OOM, "oom")                                                                            \
        END(KILLED, "killed")                                                                      \
        END(NO_SERVER, "no server")                                                                \
        END(REFUSED, "refused")

#define RESULT_END(end, name) RESULT_##end,
enum result_end { RESULT_EACH_END(RESULT_END) RESULT_ENDS };
#undef RESULT_END

/* Where a field may stand. */
enum result_scope {
        RESULT_IN_CASE = 1,
        RESULT_IN_CALL = 2,       /* in "item" of tool_calls */
        RESULT_IN_STRUCTURED = 4, /* in "structured", beside those of the case */
        RESULT_IN_MARKER = 8,
};

enum result_type { RESULT_TEXT, RESULT_NUMBER, RESULT_BOOL, RESULT_LIST };

#define RESULT_EACH_FIELD(FIELD)                                                                   \
        FIELD(STDOUT, "stdout", TEXT, RESULT_IN_CASE)                                              \
        FIELD(STDERR, "stderr", TEXT, RESULT_IN_CASE)                                              \
        FIELD(VALUE, "value", TEXT, RESULT_IN_CASE)                                                \
        FIELD(ERROR_LINE, "error", TEXT, RESULT_IN_CASE)                                           \
        FIELD(TRACEBACK, "traceback", TEXT, RESULT_IN_CASE)                                        \
        FIELD(NOTICE, "notice", TEXT, RESULT_IN_CASE)                                              \
        FIELD(STATUS, "status", TEXT, RESULT_IN_CASE)                                              \
        FIELD(EXIT_CODE, "exit_code", NUMBER, RESULT_IN_CASE)                                      \
        FIELD(SIGNAL, "signal", TEXT, RESULT_IN_CASE)                                              \
        FIELD(SECONDS, "seconds", NUMBER, RESULT_IN_CASE | RESULT_IN_CALL)                         \
        FIELD(MILLISECONDS, "milliseconds", NUMBER, RESULT_IN_CASE | RESULT_IN_CALL)               \
        FIELD(TIMEOUT_S, "timeout_s", NUMBER, RESULT_IN_CASE)                                      \
        FIELD(TIMEOUT_MS, "timeout_ms", NUMBER, RESULT_IN_CASE)                                    \
        FIELD(SESSION, "session", TEXT, RESULT_IN_CASE)                                            \
        FIELD(SERVER, "server", TEXT, RESULT_IN_CASE | RESULT_IN_CALL)                             \
        FIELD(TOOL, "tool", TEXT, RESULT_IN_CALL)                                                  \
        FIELD(IS_OK, "ok", BOOL, RESULT_IN_CALL)                                                   \
        FIELD(TOOL_CALLS, "tool_calls", LIST, RESULT_IN_CASE)                                      \
        FIELD(WHOLE_TEXT, "text", TEXT, RESULT_IN_STRUCTURED)                                      \
        FIELD(LIMIT, "limit", NUMBER, RESULT_IN_MARKER)                                            \
        FIELD(LIMIT_KIB, "limit_kib", NUMBER, RESULT_IN_MARKER)

#define RESULT_FIELD(field, name, type, scopes) RESULT_OF_##field,
enum result_field { RESULT_EACH_FIELD(RESULT_FIELD) RESULT_FIELDS };
#undef RESULT_FIELD

enum result_images { RESULT_IMAGES_NONE, RESULT_IMAGES_LAST, RESULT_IMAGES_ALL };

/* Values belong to the form's document. */
struct result_case {
        unsigned ends;          /* bits of enum result_end */
        yyjson_val *text;       /* a list of parts, or NULL: json is set */
        yyjson_val *json;       /* or NULL */
        yyjson_val *structured; /* the result's structuredContent, or NULL */
        yyjson_val *join;       /* a string between the parts of text, or NULL: a newline */
        bool is_compact;        /* json in one line */
        bool has_is_error;      /* false: by the end of the call */
        bool is_error;
        enum result_images images; /* before the text */
};

struct result_part {
        enum result_field field;
        bool is_stripped, is_json;  /* "as" */
        yyjson_val *before, *after; /* strings, or NULL */
        yyjson_val *empty;          /* what stands for an empty value; NULL: the part is left out */
        yyjson_val *marker;         /* a string, or NULL */
        yyjson_val *item;           /* of tool_calls: an object for each call, or NULL */
        size_t limit;               /* bytes; 0: the server's limit of characters */
        int digits;                 /* after the point; negative: as many as needed, at most 3 */
};

/* A piece of a string: literal bytes, or a field. */
struct result_piece {
        const char *literal; /* NULL: a field */
        size_t length;
        enum result_field field;
};

enum result_type result_field_type(enum result_field field);
const char *result_end_name(enum result_end end);
/* Whether the code ended without an error. */
static inline bool result_end_is_good(enum result_end end)
{
        return end == RESULT_OK || end == RESULT_NO_OUTPUT;
}

/* The next piece of a string, from *at, which is moved. scopes: bits of enum result_scope. Returns 1; 0 at the end; or
 * -EINVAL, of a brace that begins no field of these scopes. */
int result_piece_next(const char **at, const char *end, unsigned scopes, struct result_piece *ret);

/* Whether a value in a "json" or a text is a part with options. */
bool result_is_part(yyjson_val *value);

/* A checked form: the first case for an end, which exists. */
void result_form_find(yyjson_val *form, enum result_end end, struct result_case *ret);
/* A part with options, of a checked form. */
void result_part_read(yyjson_val *object, struct result_part *ret);

/* Checks a form. *structured: each case has "structured"; otherwise none has it. Returns 0, or -EINVAL, the reason, and
 * the value in *at. */
int result_form_check(yyjson_val *form, bool *structured, yyjson_val **at, struct error *err);

/* Writes the members of the form's JSON Schema. */
void result_form_schema(struct json_out *out);
