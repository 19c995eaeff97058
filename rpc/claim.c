/* Memory for large documents. */
#include "rpc/claim.h"

#include <assert.h>

static TAILQ_HEAD(, claim) waiting = TAILQ_HEAD_INITIALIZER(waiting);
static size_t used;

bool claim_ask(struct claim *claim, size_t bytes, void (*granted)(void *data), void *data)
{
        assert(claim->bytes == 0 && bytes > 0 && bytes <= CLAIMS_MAX);
        *claim = (struct claim){.bytes = bytes, .granted = granted, .data = data};
        claim->waits = !TAILQ_EMPTY(&waiting) || used + bytes > CLAIMS_MAX;
        if (claim->waits)
                TAILQ_INSERT_TAIL(&waiting, claim, link);
        else
                used += bytes;
        return !claim->waits;
}

/* granted() may ask and drop. */
static void grant(void)
{
        struct claim *first;

        while ((first = TAILQ_FIRST(&waiting)) && used + first->bytes <= CLAIMS_MAX) {
                TAILQ_REMOVE(&waiting, first, link);
                used += first->bytes;
                first->waits = false;
                first->granted(first->data);
        }
}

void claim_drop(struct claim *claim)
{
        if (claim->bytes == 0)
                return;
        if (claim->waits)
                TAILQ_REMOVE(&waiting, claim, link);
        else
                used -= claim->bytes;
        *claim = (struct claim){};
        grant();
}
