/* Questions that have ended. */
#include "supervisor/mcp/call/late.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rpc/jsonrpc.h"

struct late_ask {
        TAILQ_ENTRY(late_ask) link;
        int64_t id; /* of the request */
        void (*late)(const char *label);
        char label[];
};

void ask_name(int64_t id, char ret[ASK_NAME_SIZE])
{
        snprintf(ret, ASK_NAME_SIZE, "ask-%lld", (long long)id);
}

static void drop(struct late_asks *late, struct late_ask *ask)
{
        TAILQ_REMOVE(&late->list, ask, link);
        late->n--;
        free(ask);
}

void late_asks_keep(struct late_asks *late, int64_t id, const struct client_ask *ask)
{
        if (!ask->late)
                return;
        size_t n = strlen(ask->label);
        struct late_ask *kept = malloc(sizeof(*kept) + n + 1);
        if (!kept) {
                log_warning("a question that has ended is not kept: out of memory");
                return;
        }
        kept->id = id;
        kept->late = ask->late;
        memcpy(kept->label, ask->label, n + 1);
        if (late->n == LATE_ASKS_MAX)
                drop(late, TAILQ_FIRST(&late->list));
        if (late->n++ == 0)
                TAILQ_INIT(&late->list);
        TAILQ_INSERT_TAIL(&late->list, kept, link);
}

static bool is_named(int64_t id, yyjson_val *name)
{
        char text[ASK_NAME_SIZE];

        ask_name(id, text);
        return yyjson_equals_str(name, text);
}

static bool tell(struct late_asks *late, bool (*is)(int64_t id, yyjson_val *value),
                 yyjson_val *value)
{
        struct late_ask *ask = late->n > 0 ? TAILQ_FIRST(&late->list) : NULL;

        while (ask && !is(ask->id, value))
                ask = TAILQ_NEXT(ask, link);
        if (!ask)
                return false;
        ask->late(ask->label);
        drop(late, ask);
        return true;
}

static bool is_id(int64_t id, yyjson_val *value)
{
        return value && jsonrpc_id_is(value, id);
}

bool late_asks_response(struct late_asks *late, yyjson_val *id)
{
        return tell(late, is_id, id);
}

bool late_asks_answer(struct late_asks *late, yyjson_val *name)
{
        return tell(late, is_named, name);
}

void late_asks_answers(struct late_asks *late, yyjson_val *responses)
{
        size_t i, n;
        yyjson_val *key, *value;

        yyjson_obj_foreach (responses, i, n, key, value) {
                if (late->n == 0)
                        return;
                late_asks_answer(late, key);
        }
}

void late_asks_done(struct late_asks *late)
{
        while (late->n > 0)
                drop(late, TAILQ_FIRST(&late->list));
}
