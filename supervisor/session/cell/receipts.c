/* Keeps receipts and writes them as JSON. */
#include "supervisor/session/cell/receipts.h"

#include <assert.h>

const char *cell_peak_name(enum cell_peak peak)
{
        static const char *const names[] = {
                [CELL_PEAK_SESSION] = "session",
                [CELL_PEAK_CELL] = "cell",
                [CELL_PEAK_PROCESS] = "process",
                [CELL_PEAK_SAMPLED] = "sampled",
        };
        static_assert(ARRAY_SIZE(names) == CELL_PEAK_MAX, "a name for each");

        return names[peak];
}

const char *cell_network_name(enum config_network network)
{
        static const char *const names[] = {
                [CONFIG_NETWORK_NONE] = "none",
                [CONFIG_NETWORK_LOOPBACK] = "loopback",
                [CONFIG_NETWORK_ALLOW] = "allow",
        };
        static_assert(ARRAY_SIZE(names) == CONFIG_NETWORK_MAX, "a name for each");

        return names[network];
}

static void drop(struct receipts *receipts, struct receipt *r)
{
        receipts->bytes -= r->calls.allocated + r->hosts.allocated + r->files.list.allocated;
        buffer_done(&r->calls);
        buffer_done(&r->hosts);
        buffer_done(&r->files.list);
        *r = (struct receipt){};
}

void receipts_done(struct receipts *receipts)
{
        for (size_t i = 0; i < RECEIPTS_MAX; i++)
                drop(receipts, &receipts->ring[i]);
}

static void put_call(struct json_out *out, const struct cell_call *call)
{
        json_out_begin(out, NULL, '{');
        json_out_text(out, "server", call->server);
        json_out_text(out, "tool", call->tool);
        json_out_text(out, "outcome", call->pending ? "in doubt" : call->ok ? "ok" : "failed");
        json_out_int(out, "duration_us", (int64_t)call->duration_us);
        json_out_int(out, "sent_bytes", (int64_t)call->sent_bytes);
        json_out_int(out, "received_bytes", (int64_t)call->received_bytes);
        json_out_end(out, '}');
}

/* A list that is too long is left out: the totals stay. */
static void take_calls(struct receipt *r, const struct cell_outcome *o)
{
        struct json_out out = {.to = &r->calls};

        buffer_init(&r->calls, RECEIPT_CALLS_MAX);
        if (o->calls_total == 0)
                return;
        json_out_begin(&out, NULL, '[');
        for (size_t i = 0; i < o->n_calls; i++) {
                if (o->calls[i].used)
                        put_call(&out, &o->calls[i]);
        }
        json_out_end(&out, ']');
        if (out.error < 0)
                buffer_done(&r->calls);
}

void receipt_put_hosts(struct json_out *out, const char *key, const struct cell_outcome *o)
{
        json_out_begin(out, key, '[');
        for (size_t i = 0; i < o->n_hosts; i++) {
                const struct cell_host *host = &o->hosts[i];
                json_out_begin(out, NULL, '{');
                json_out_text(out, "host", host->name[0] ? host->name : "(others)");
                if (host->port)
                        json_out_int(out, "port", host->port);
                json_out_int(out, "bytes_in", (int64_t)host->sums.in);
                json_out_int(out, "bytes_out", (int64_t)host->sums.out);
                json_out_int(out, "requests", (int64_t)host->sums.requests);
                json_out_int(out, "denied", (int64_t)host->sums.denied);
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
}

/* The list is left out where it is too long; the sums stay. */
static void take_hosts(struct receipt *r, const struct cell_outcome *o)
{
        struct json_out out = {.to = &r->hosts};

        buffer_init(&r->hosts, RECEIPT_HOSTS_MAX);
        for (size_t i = 0; i < o->n_hosts; i++) {
                r->network_in += o->hosts[i].sums.in;
                r->network_out += o->hosts[i].sums.out;
                r->network_denied += o->hosts[i].sums.denied;
        }
        if (o->n_hosts > 0)
                receipt_put_hosts(&out, NULL, o);
        if (out.error < 0)
                buffer_done(&r->hosts);
}

/* From the oldest on, but never the newest. */
static void make_room(struct receipts *receipts)
{
        for (size_t i = 1; i < RECEIPTS_MAX && receipts->bytes > RECEIPTS_BYTES_MAX; i++)
                drop(receipts, &receipts->ring[(receipts->newest + i) % RECEIPTS_MAX]);
}

void receipts_add(struct receipts *receipts, uint64_t cell, const struct cell_outcome *o)
{
        receipts->newest = (receipts->newest + 1) % RECEIPTS_MAX;
        struct receipt *r = &receipts->ring[receipts->newest];

        drop(receipts, r);
        *r = (struct receipt){
                .cell = cell,
                .status = o->status,
                .state = o->state,
                .peak_of = o->peak_of,
                .network = o->network,
                .duration_us = o->duration_us,
                .queued_us = o->queued_us,
                .cpu_us = o->cpu_us,
                .memory_peak = o->memory_peak,
                .sent_bytes = o->sent_bytes,
                .received_bytes = o->received_bytes,
                .calls_total = o->calls_total,
        };
        for (int i = 0; i < CELL_STREAMS; i++)
                r->output_bytes[i] = o->streams[i].bytes;
        take_calls(r, o);
        take_hosts(r, o);
        receipts->bytes += r->calls.allocated + r->hosts.allocated;
        make_room(receipts);
}

static bool lacks_files(const struct receipt *r, uint64_t to)
{
        return r->cell != 0 && r->cell <= to && !r->has_files;
}

void receipts_note_files(struct receipts *receipts, uint64_t to, struct receipt_files *files)
{
        struct receipt *first = NULL, *last = NULL;

        for (size_t i = 1; i <= RECEIPTS_MAX; i++) {
                struct receipt *r = &receipts->ring[(receipts->newest + i) % RECEIPTS_MAX];
                if (!lacks_files(r, to))
                        continue;
                first = first ? first : r;
                last = r;
        }
        if (!last)
                return;
        for (size_t i = 0; i < RECEIPTS_MAX; i++) {
                struct receipt *r = &receipts->ring[i];
                if (!lacks_files(r, to))
                        continue;
                r->has_files = true;
                r->files = *files;
                r->files.list = (struct buffer){};
                r->files_from = first->cell;
                r->files_to = last->cell;
        }
        last->files.list = files->list;
        files->list = (struct buffer){};
        receipts->bytes += last->files.list.allocated;
        make_room(receipts);
}

bool receipts_lack_files(const struct receipts *receipts)
{
        return lacks_files(&receipts->ring[receipts->newest], UINT64_MAX);
}

static bool is_to_count(const struct receipt *r, uint64_t to)
{
        return r->cell != 0 && r->cell <= to && !r->has_tasks;
}

uint64_t receipts_uncounted(const struct receipts *receipts, uint64_t to)
{
        uint64_t from = 0;

        for (size_t i = 0; i < RECEIPTS_MAX; i++) {
                const struct receipt *r = &receipts->ring[i];
                if (is_to_count(r, to) && (from == 0 || r->cell < from))
                        from = r->cell;
        }
        return from;
}

bool receipts_count(struct receipts *receipts, uint64_t from, uint64_t to, uint64_t tasks,
                    bool wrapped)
{
        if (from == 0)
                from = receipts_uncounted(receipts, to);
        for (size_t i = 0; i < RECEIPTS_MAX; i++) {
                struct receipt *r = &receipts->ring[i];
                if (!is_to_count(r, to))
                        continue;
                r->has_tasks = true;
                r->tasks_wrapped = wrapped;
                r->tasks = tasks;
                r->tasks_from = from;
        }
        return from != 0;
}

const struct receipt *receipts_find(const struct receipts *receipts, uint64_t cell)
{
        for (size_t i = 0; i < RECEIPTS_MAX; i++) {
                if (cell != 0 && receipts->ring[i].cell == cell)
                        return &receipts->ring[i];
        }
        return NULL;
}

static void put_tasks(struct json_out *out, const struct receipt *r)
{
        if (!r->has_tasks)
                return;
        json_out_int(out, "tasks_made", (int64_t)r->tasks);
        if (r->tasks_from != r->cell)
                json_out_int(out, "tasks_from_cell", (int64_t)r->tasks_from);
        if (r->tasks_wrapped)
                json_out_bool(out, "tasks_at_least", true);
}

static void put_files(struct json_out *out, const struct receipt *r, bool whole)
{
        if (!r->has_files)
                return;
        if (r->files.unknown) {
                json_out_text(out, "files_unknown", r->files.unknown);
        } else {
                json_out_int(out, "files_new", r->files.number[FILE_NEW]);
                json_out_int(out, "files_changed", r->files.number[FILE_CHANGED]);
                json_out_int(out, "files_deleted", r->files.number[FILE_DELETED]);
        }
        if (r->files.unreadable > 0)
                json_out_int(out, "directories_unreadable", r->files.unreadable);
        if (r->files_from != r->cell)
                json_out_int(out, "files_from_cell", (int64_t)r->files_from);
        if (r->files_to != r->cell)
                json_out_int(out, "files_to_cell", (int64_t)r->files_to);
        if (whole && r->files.list.length > 0)
                json_out_raw(out, "files", buffer_bytes(&r->files.list), r->files.list.length);
}

static void put_network(struct json_out *out, const struct receipt *r, bool whole)
{
        json_out_text(out, "network", cell_network_name(r->network));
        if (r->network != CONFIG_NETWORK_ALLOW)
                return;
        json_out_int(out, "network_in_bytes", (int64_t)r->network_in);
        json_out_int(out, "network_out_bytes", (int64_t)r->network_out);
        json_out_int(out, "network_denied", (int64_t)r->network_denied);
        if (whole && r->hosts.length > 0)
                json_out_raw(out, "hosts", buffer_bytes(&r->hosts), r->hosts.length);
}

void receipts_put(struct json_out *out, const struct receipt *r, bool whole)
{
        json_out_begin(out, NULL, '{');
        json_out_int(out, "cell", (int64_t)r->cell);
        json_out_text(out, "status", cell_status_name(r->status));
        if (r->state != CELL_STATE_NONE)
                json_out_text(out, "state", cell_state_name(r->state));
        json_out_int(out, "duration_us", (int64_t)r->duration_us);
        json_out_int(out, "queued_us", (int64_t)r->queued_us);
        json_out_int(out, "cpu_us", (int64_t)r->cpu_us);
        json_out_int(out, "peak_memory_bytes", (int64_t)r->memory_peak);
        json_out_text(out, "peak_of", cell_peak_name(r->peak_of));
        put_tasks(out, r);
        put_files(out, r, whole);
        put_network(out, r, whole);
        json_out_int(out, "stdout_bytes", (int64_t)r->output_bytes[CELL_STDOUT]);
        json_out_int(out, "stderr_bytes", (int64_t)r->output_bytes[CELL_STDERR]);
        json_out_int(out, "tool_calls_total", (int64_t)r->calls_total);
        json_out_int(out, "sent_bytes", (int64_t)r->sent_bytes);
        json_out_int(out, "received_bytes", (int64_t)r->received_bytes);
        if (whole && r->calls.length > 0)
                json_out_raw(out, "tool_calls", buffer_bytes(&r->calls), r->calls.length);
        json_out_end(out, '}');
}

void receipts_put_all(struct json_out *out, const char *key, const struct receipts *receipts)
{
        json_out_begin(out, key, '[');
        for (size_t i = 0; i < RECEIPTS_LISTED; i++) {
                size_t at = (receipts->newest + RECEIPTS_MAX - i) % RECEIPTS_MAX;
                if (receipts->ring[at].cell != 0)
                        receipts_put(out, &receipts->ring[at], false);
        }
        json_out_end(out, ']');
}
