/* Searches in the background. */
#include "supervisor/hub/search.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/background.h"
#include "supervisor/hub/tools/tool-search.h"

struct hub_search {
        struct background_job job;        /* first */
        struct catalogue_text *catalogue; /* a reference */
        size_t n, limit;
        void (*fn)(void *data, const char *found, size_t length);
        void *data;
        struct buffer found;
        int r;
        char query[];
};

static void run_search(struct background_job *job)
{
        struct hub_search *search = (void *)job;

        search->r = tool_search(&search->catalogue->bytes, search->query, search->n, search->limit,
                                &search->found);
}

static void free_search(struct background_job *job)
{
        struct hub_search *search = (void *)job;

        catalogue_text_unref(search->catalogue);
        background_free(search->found.data, search->found.allocated);
        free(search);
}

static void on_searched(struct background_job *job)
{
        struct hub_search *search = (void *)job;
        bool good = search->r >= 0;

        search->fn(search->data, good ? buffer_bytes(&search->found) : NULL,
                   good ? search->found.length : 0);
        free_search(job);
}

int search_start(struct event_base *base, struct catalogue_text *catalogue, const char *query,
                 size_t n, size_t limit, void (*fn)(void *data, const char *found, size_t length),
                 void *data, void **ret)
{
        static const struct background_kind kind = {run_search, on_searched, free_search};

        n = n < TOOL_SEARCH_BYTES_MAX ? n : TOOL_SEARCH_BYTES_MAX;
        struct hub_search *search = malloc(sizeof(*search) + n);
        if (!search)
                return -ENOMEM;
        *search = (struct hub_search){.catalogue = catalogue_text_ref(catalogue),
                                      .n = n,
                                      .limit = limit,
                                      .fn = fn,
                                      .data = data};
        memcpy(search->query, query, n);
        buffer_init(&search->found, TOOL_SEARCH_ANSWER_MAX);
        *ret = search;
        background_start(&search->job, &kind, base);
        return 0;
}

void search_cancel(struct hub_search *search)
{
        background_cancel(&search->job);
}
