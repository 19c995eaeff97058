/*
 * A condition of a rule: {"prefix": "/tmp/", "max_length": 80}. All of its members must hold.
 *
 * A member that is for another type than the value has does not say "no": a rule that allows takes it as "no", one that
 * asks or denies as "yes".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/error.h"
#include "policy/rules/work.h"

enum {
        CONDITION_DEPTH_MAX = 4,         /* of "not" */
        CONDITION_TEXT_MAX = 1024,       /* bytes of a prefix or a regex */
        CONDITION_ITEMS_MAX = 256,       /* of one_of and host */
        CONDITION_VALUE_MAX = 16 * 1024, /* bytes of JSON of equals and one_of */
};

/* The host and port of a URL, in lower case, as the caller's parser of URLs reads it. */
struct rules_url {
        char host[256];
        uint16_t port;
};

/* False: it is not an http or https URL, or has a user name. */
typedef bool rules_url_fn(const char *url, size_t n, struct rules_url *ret);

enum verdict {
        VERDICT_NO,
        VERDICT_YES,
        VERDICT_OTHER,   /* the value is of another type than the condition is for */
        VERDICT_MISSING, /* there is no value, and the condition is not "absent" */
};

struct condition;

/* The error is a clause such as `unknown condition "prefx"; did you mean "prefix"?`. *at: the value that it is about.
 * Returns 0, -EINVAL or -ENOMEM. */
int condition_new(yyjson_val *value, struct condition **ret, yyjson_val **at, struct error *err);
struct condition *condition_free(struct condition *condition);

/* value: NULL if a pointer finds nothing. url: NULL if there is no parser of URLs: then "host" is not decided. */
enum verdict condition_test(const struct condition *condition, yyjson_val *value, rules_url_fn *url,
                            struct rules_work *work);

/* Why no value can have all of it ("min is above max"), or NULL. */
const char *condition_contradiction(const struct condition *condition);
