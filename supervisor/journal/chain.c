/* Checks of records. */
#include "supervisor/journal/chain.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "supervisor/journal/hash.h"

enum { RECORD_VALUES_MAX = 4096, KIND_MAX = 32 };

void chain_begin(struct chain *chain)
{
        chain->n = 0;
        memcpy(chain->head, JOURNAL_HASH_NONE, sizeof(chain->head));
}

void chain_begin_at(struct chain *chain, const char *line, size_t n)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        int64_t number = 0;
        size_t length = 0;

        chain_begin(chain);
        if (json_parse(line, n, &doc, NULL) < 0)
                return;
        yyjson_val *root = yyjson_doc_get_root(doc);
        const char *prev = json_string(root, "prev", &length);
        if (json_int64(yyjson_obj_get(root, "n"), &number) < 0 || number < 1 || !prev ||
            length != JOURNAL_HASH_SIZE - 1)
                return;
        chain->n = (uint64_t)number - 1;
        memcpy(chain->head, prev, JOURNAL_HASH_SIZE);
}

void chain_record_done(struct chain_record *record)
{
        yyjson_doc_free(record->doc);
        record->doc = NULL;
}

static uint64_t number(yyjson_val *root, const char *key, uint64_t most)
{
        int64_t value = 0;

        if (json_int64(yyjson_obj_get(root, key), &value) < 0 || value < 0)
                return 0;
        return (uint64_t)value <= most ? (uint64_t)value : 0;
}

static int take(const struct chain *chain, yyjson_val *root, struct chain_record *ret,
                struct error *err)
{
        size_t n = 0, n_kind = 0;
        const char *prev = json_string(root, "prev", &n);

        ret->root = root;
        ret->kind = json_string(root, "kind", &n_kind);
        ret->n = number(root, "n", INT64_MAX);
        if (!ret->kind || n_kind == 0 || n_kind > KIND_MAX || strlen(ret->kind) != n_kind ||
            ret->n == 0 || !prev || n != JOURNAL_HASH_SIZE - 1)
                return error_set(err, EBADMSG, "it lacks n, kind or prev");
        if (ret->n != chain->n + 1)
                return error_set(err, EBADMSG, "its n is %llu, and %llu was expected",
                                 (unsigned long long)ret->n, (unsigned long long)chain->n + 1);
        if (memcmp(prev, chain->head, n) != 0)
                return error_set(
                        err, EBADMSG,
                        "the record before it was changed: its prev is not the SHA-256 of that line");
        ret->of = number(root, "of", INT64_MAX);
        ret->segment = (uint32_t)number(root, "segment", UINT32_MAX);
        ret->after = (uint32_t)number(root, "after", UINT32_MAX);
        return 0;
}

int chain_next(struct chain *chain, const char *line, size_t n, struct chain_record *ret,
               struct error *err)
{
        struct chain next = {};

        *ret = (struct chain_record){};
        int r = json_parse_bounded(line, n, RECORD_VALUES_MAX, &ret->doc, err);
        if (r >= 0)
                r = take(chain, yyjson_doc_get_root(ret->doc), ret, err);
        if (r >= 0 && (r = journal_hash(line, n, next.head)) < 0)
                error_errno(err, -r, "SHA-256");
        if (r < 0) {
                chain_record_done(ret);
                return r == -ENOMEM ? r : -EBADMSG;
        }
        next.n = ret->n;
        *chain = next;
        return 0;
}
