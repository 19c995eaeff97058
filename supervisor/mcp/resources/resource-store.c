/* Whole outputs, and names of files. */
#include "supervisor/mcp/resources/resource-store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t footprint(const struct resource *r)
{
        return r->head.allocated + r->tail.allocated;
}

static void drop_bytes(struct resource_store *store, struct resource *r)
{
        store->bytes -= footprint(r);
        store->n_live--;
        buffer_done(&r->head);
        buffer_done(&r->tail);
}

static void unlink_one(struct resource_store *store, struct resource **at)
{
        struct resource *r = *at;

        *at = r->older;
        if (r->uri.kind == RESOURCE_FILE)
                store->n_files--;
        else if (r->dropped)
                store->n_dropped--;
        else
                drop_bytes(store, r);
        free(r);
}

void resource_store_done(struct resource_store *store)
{
        while (store->newest)
                unlink_one(store, &store->newest);
        charge_done(&store->kept);
}

/* The oldest file, or the oldest of the others with (or without) their bytes. */
static struct resource **oldest(struct resource_store *store, bool file, bool dropped)
{
        struct resource **found = NULL;

        for (struct resource **at = &store->newest; *at; at = &(*at)->older) {
                if (((*at)->uri.kind == RESOURCE_FILE) == file && (*at)->dropped == dropped)
                        found = at;
        }
        return found;
}

static bool has_too_much(const struct resource_store *store)
{
        size_t before = store->kept.bytes;

        return store->bytes > STORE_BYTES_MAX || store->n_live > STORE_LIVE_MAX ||
               (store->bytes > before && !charge_fits(&store->kept, store->bytes - before));
}

/* The newest output always stays: one entry is smaller than the limit. */
static void make_room(struct resource_store *store)
{
        while (store->n_live > 1 && has_too_much(store)) {
                struct resource *r = *oldest(store, false, false);
                drop_bytes(store, r);
                r->dropped = true;
                store->n_dropped++;
        }
        charge_set(&store->kept, store->bytes);
        while (store->n_dropped > STORE_DROPPED_MAX)
                unlink_one(store, oldest(store, false, true));
        while (store->n_files > STORE_FILES_MAX)
                unlink_one(store, oldest(store, true, false));
}

static void put_first(struct resource_store *store, struct resource *r)
{
        r->serial = ++store->serial;
        r->older = store->newest;
        store->newest = r;
}

/* Returns whether there was one. */
static bool forget_name(struct resource_store *store, const struct resource_uri *uri)
{
        for (struct resource **at = &store->newest; *at; at = &(*at)->older) {
                if (resource_uri_same(&(*at)->uri, uri)) {
                        unlink_one(store, at);
                        return true;
                }
        }
        return false;
}

/* The text says where characters are missing between the pieces. */
static int join(struct resource *r, uint64_t text_bytes)
{
        char note[96];

        while (r->tail.length > 0 && ((unsigned char)*buffer_bytes(&r->tail) & 0xc0) == 0x80)
                buffer_consume(&r->tail, 1);
        uint64_t kept = resource_size(r);
        if (text_bytes <= kept)
                return 0;
        int n = snprintf(note, sizeof(note), "\n[... %llu bytes in between were not kept ...]\n",
                         (unsigned long long)(text_bytes - kept));
        r->head.limit += sizeof(note);
        return buffer_append(&r->head, note, (size_t)n);
}

static struct resource *new_resource(struct resource_store *store, const struct resource_uri *uri)
{
        struct resource *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        if (!store->kept.account) {
                struct memory_account *account = memory_account_new(ACCOUNT_OF_CLIENT);
                charge_open(&store->kept, account);
                memory_account_unref(account);
        }
        r->uri = *uri;
        r->uri.offset = 0;
        return r;
}

static void put_live(struct resource_store *store, struct resource *r)
{
        forget_name(store, &r->uri);
        put_first(store, r);
        store->n_live++;
        store->bytes += footprint(r);
        make_room(store);
}

int resource_store_keep(struct resource_store *store, const struct resource_uri *uri,
                        struct capture *capture)
{
        struct resource *r = new_resource(store, uri);

        if (!r)
                return -ENOMEM;
        strcpy(r->mime_type, "text/plain");
        r->head = capture->head;
        r->tail = capture->tail;
        uint64_t text_bytes = capture->text_bytes;
        capture_init(capture);
        /* The text is usable without the note. */
        join(r, text_bytes);
        put_live(store, r);
        return 0;
}

int resource_store_keep_display(struct resource_store *store, const struct resource_uri *uri,
                                struct cell_display *display)
{
        struct resource *r = new_resource(store, uri);

        if (!r)
                return -ENOMEM;
        memcpy(r->mime_type, display->mime_type, sizeof(r->mime_type));
        r->is_blob = !display->is_text;
        r->head = display->data;
        buffer_init(&display->data, 0);
        put_live(store, r);
        return 0;
}

int resource_store_name_file(struct resource_store *store, const struct resource_uri *uri,
                             const struct cell_file *file)
{
        struct resource *r = calloc(1, sizeof(*r));

        if (!r)
                return -ENOMEM;
        r->uri = *uri;
        memcpy(r->mime_type, file->mime_type, sizeof(r->mime_type));
        r->file_size = file->size;
        bool known = forget_name(store, uri);
        put_first(store, r);
        store->n_files++;
        make_room(store);
        return known ? 0 : 1;
}

bool resource_store_forget_files(struct resource_store *store, const char *session)
{
        bool any = false;

        for (struct resource **at = &store->newest; *at;) {
                if ((*at)->uri.kind != RESOURCE_FILE || strcmp((*at)->uri.session, session) != 0) {
                        at = &(*at)->older;
                        continue;
                }
                unlink_one(store, at);
                any = true;
        }
        return any;
}

const struct resource *resource_store_find(const struct resource_store *store,
                                           const struct resource_uri *uri)
{
        const struct resource *r = store->newest;

        while (r && !resource_uri_same(&r->uri, uri))
                r = r->older;
        return r;
}

const struct resource *resource_store_before(const struct resource_store *store, uint64_t serial)
{
        const struct resource *r = store->newest;

        while (r && (r->dropped || r->serial >= serial))
                r = r->older;
        return r;
}

static bool within_character(const struct resource *r, size_t at)
{
        size_t n = r->head.length;

        if (at >= resource_size(r))
                return false;
        char c = at < n ? buffer_bytes(&r->head)[at] : buffer_bytes(&r->tail)[at - n];
        return ((unsigned char)c & 0xc0) == 0x80;
}

static int append_range(const struct buffer *piece, size_t base, size_t begin, size_t end,
                        struct buffer *to)
{
        size_t from = begin > base ? begin - base : 0;
        size_t until = end > base ? end - base : 0;

        if (until > piece->length)
                until = piece->length;
        return from < until ? buffer_append(to, buffer_bytes(piece) + from, until - from) : 0;
}

int resource_append_text(const struct resource *resource, uint64_t offset, size_t most,
                         struct buffer *to, uint64_t *end)
{
        size_t size = resource_size(resource);
        size_t begin = offset < size ? (size_t)offset : size;

        while (within_character(resource, begin))
                begin++;
        size_t until = most < size - begin ? begin + most : size;
        while (until > begin && within_character(resource, until))
                until--;
        int r = append_range(&resource->head, 0, begin, until, to);
        if (r >= 0)
                r = append_range(&resource->tail, resource->head.length, begin, until, to);
        if (r >= 0)
                *end = until;
        return r;
}
