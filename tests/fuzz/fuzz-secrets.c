/*
 * Messages of a server, searched for secrets. Accepted: a document that contains one. Whatever the document is, what comes out is JSON,
 * has no string and no name with the value, and is left alone if there was none.
 */
#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "supervisor/secrets/mask.h"
#include "tests/fuzz/fuzz.h"

enum { MOST = 1024 * 1024 };

static const char *const values[] = {"nabcde\"\\x", "123456", "\u00fc%+/ \tz"};

/* All values of a document are one array. */
static bool has_value(yyjson_doc *doc)
{
        yyjson_val *root = yyjson_doc_get_root(doc);

        for (size_t i = 0; i < yyjson_doc_get_val_count(doc); i++) {
                yyjson_val *v = root + i;
                const char *text = yyjson_is_raw(v) ? yyjson_get_raw(v) : yyjson_get_str(v);
                for (size_t k = 0; text && k < ARRAY_SIZE(values); k++)
                        if (memmem(text, yyjson_get_len(v), values[k], strlen(values[k])))
                                return true;
        }
        return false;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        static struct secret_mask *mask;
        _cleanup_buffer_ struct buffer out = BUFFER_INIT(MOST);
        _cleanup_json_ yyjson_doc *doc = NULL, *masked = NULL;

        for (size_t k = 0; !mask || k < ARRAY_SIZE(values); k++) {
                mask = mask ? mask : secret_mask_new();
                assert(mask && secret_mask_add(mask, "s", "N", values[k], strlen(values[k])) == 0);
        }
        if (n > MOST / 16 || json_parse((const char *)data, n, &doc, NULL) < 0)
                return false;
        int r = secret_mask_json(mask, "s", yyjson_doc_get_root(doc), &out);
        assert(r == 0 || r == 1);
        assert(r == 1 || (out.length == 0 && !has_value(doc)));
        if (r == 0)
                return false;
        assert(json_parse(buffer_bytes(&out), out.length, &masked, NULL) == 0);
        assert(!has_value(masked));
        return true;
}

FUZZ_TARGET
