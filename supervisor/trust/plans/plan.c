/* The rows of a plan. */
#include "supervisor/trust/plans/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-out.h"
#include "base/printable.h"
#include "base/utf8.h"

enum {
        ROW_BYTES = 512,      /* of a row, besides its texts */
        HITS_MAX = 4096,      /* values of a call that `vary` leaves out */
        SHOWN_MAX = 100,      /* rows of a result */
        ARGUMENTS_MAX = 1000, /* bytes of a row's arguments in a result */
        SHOWN_BYTES_MAX = 200,
};

struct plan {
        struct plan_row *rows;
        size_t n, bytes, asked_bytes, n_other;
        struct charge charge;
        struct error fault;
};

struct plan *plan_new(void)
{
        return calloc(1, sizeof(struct plan));
}

struct plan *plan_free(struct plan *plan)
{
        if (!plan)
                return NULL;
        for (size_t i = 0; i < plan->n; i++) {
                struct plan_row *row = &plan->rows[i];
                free(row->server);
                free(row->tool);
                free(row->json);
                free(row->rule);
                free(row->why);
                free(row->compared);
                free(row->result);
        }
        free(plan->rows);
        charge_done(&plan->charge);
        free(plan);
        return NULL;
}

void plan_charge(struct plan *plan, struct memory_account *account)
{
        charge_open(&plan->charge, account);
        charge_set(&plan->charge, plan->bytes);
}

/* ---- what is compared ---- */

/* The values that `vary` leaves out. */
struct hits {
        yyjson_val *at[HITS_MAX];
        size_t n;
        bool is_full;
};

static bool add_hit(void *data, yyjson_val *value, bool is_other)
{
        struct hits *hits = data;

        if (!value)
                return true;
        hits->is_full |= hits->n == HITS_MAX;
        if (!hits->is_full)
                hits->at[hits->n++] = value;
        return !hits->is_full;
}

static bool is_hit(const struct hits *hits, const yyjson_val *value)
{
        for (size_t i = 0; i < hits->n; i++)
                if (hits->at[i] == value)
                        return true;
        return false;
}

/* Each value as its kind, its size and its bytes, in order: two documents have the same bytes only if they are the same except for the
 * hits. */
static int append_values(yyjson_val *root, const struct hits *hits, struct buffer *to)
{
        yyjson_val *end = unsafe_yyjson_get_next(root);
        int r = 0;

        for (yyjson_val *value = root; value < end && r >= 0;) {
                bool is_left_out = is_hit(hits, value),
                     has_bytes = yyjson_is_str(value) || yyjson_is_raw(value);
                size_t n = yyjson_get_len(value);

                if (is_left_out) {
                        r = buffer_append_text(to, "*;");
                        value = unsafe_yyjson_get_next(value);
                        continue;
                }
                if (has_bytes)
                        r = buffer_printf(to, "%u:%zu:", yyjson_get_tag(value), n);
                else
                        r = buffer_printf(to, "%u:%zu;", yyjson_get_tag(value),
                                          unsafe_yyjson_get_len(value));
                if (r >= 0 && has_bytes)
                        r = buffer_append(to,
                                          yyjson_is_str(value) ? yyjson_get_str(value)
                                                               : yyjson_get_raw(value),
                                          n);
                value++;
        }
        return r;
}

static int compare_form(const struct plan_call *call, struct buffer *to)
{
        struct rules_work work = {.left = RULES_WORK};

        if (call->n_vary == 0)
                return buffer_append(to, call->json, call->n);
        struct hits *hits = calloc(1, sizeof(*hits));
        if (!hits)
                return -ENOMEM;
        for (size_t i = 0; i < call->n_vary; i++)
                pointer_walk(&call->vary[i], call->arguments, &work, add_hit, hits);
        int r = hits->is_full || work.fault ? -E2BIG : append_values(call->arguments, hits, to);
        free(hits);
        return r;
}

/* ---- filling ---- */

static char *copy(const char *text, size_t n)
{
        char *ret = malloc(n + 1);

        if (ret) {
                memcpy(ret, text, n);
                ret[n] = '\0';
        }
        return ret;
}

static bool take_bytes(struct plan *plan, size_t n)
{
        if (n > PLAN_BYTES_MAX - plan->bytes || !charge_fits(&plan->charge, plan->bytes + n))
                return false;
        plan->bytes += n;
        charge_set(&plan->charge, plan->bytes);
        return true;
}

static int fail(struct plan *plan, struct error *err, int code, const char *what)
{
        if (!error_is_set(&plan->fault))
                error_set(&plan->fault, code, "%s", what);
        return error_set(err, code, "%s", what);
}

int plan_add(struct plan *plan, const struct plan_call *call, size_t *ret, struct error *err)
{
        _cleanup_buffer_ struct buffer compared = BUFFER_INIT(2 * PLAN_BYTES_MAX);
        struct plan_row *row;

        if (plan->n == PLAN_ROWS_MAX)
                return fail(plan, err, E2BIG, "the plan has 1,000 calls, and one has no more");
        if (call->kind != PLAN_READS && call->n > PLAN_ASKED_BYTES_MAX - plan->asked_bytes)
                return fail(plan, err, E2BIG,
                            "the calls to approve have more than 4 MiB of arguments");
        int r = compare_form(call, &compared);
        if (r == -E2BIG)
                return fail(plan, err, E2BIG,
                            "\"vary\" of the rule leaves out too many values of a call");
        if (r < 0)
                return fail(plan, err, ENOMEM, "no memory for the plan");
        if (!take_bytes(plan, call->n + compared.length + ROW_BYTES))
                return fail(plan, err, E2BIG,
                            "the plan has more than 16 MiB, or the sessions keep too much already");
        if (!plan->rows)
                plan->rows = calloc(PLAN_ROWS_MAX, sizeof(*plan->rows));
        if (!plan->rows)
                return fail(plan, err, ENOMEM, "no memory for the plan");
        row = &plan->rows[plan->n];
        *row = (struct plan_row){
                .kind = call->kind,
                .number = call->number,
                .unsure = call->unsure,
                .server = strdup(call->server),
                .tool = strdup(call->tool),
                .json = copy(call->json, call->n),
                .n = call->n,
                .definition = call->definition,
                .rule = strdup(call->rule),
                .why = strdup(call->why),
                .compared = copy(buffer_bytes(&compared), compared.length),
                .n_compared = compared.length,
                .is_allowed = call->kind != PLAN_ASKS,
        };
        *ret = plan->n++;
        if (!row->server || !row->tool || !row->json || !row->rule || !row->why || !row->compared)
                return fail(plan, err, ENOMEM, "no memory for the plan");
        if (call->kind != PLAN_READS)
                plan->asked_bytes += call->n;
        return 0;
}

size_t plan_room(const struct plan *plan)
{
        return PLAN_BYTES_MAX - plan->bytes;
}

void plan_keep_result(struct plan *plan, size_t row, const char *text, size_t n)
{
        struct plan_row *to = plan_at(plan, row);

        if (to->kind != PLAN_READS || to->result || !take_bytes(plan, n))
                return;
        to->result = copy(text, n);
        to->n_result = to->result ? n : 0;
}

const char *plan_fault(const struct plan *plan)
{
        return error_is_set(&plan->fault) ? plan->fault.text : NULL;
}

size_t plan_count(const struct plan *plan)
{
        return plan->n;
}

size_t plan_count_kind(const struct plan *plan, enum plan_kind kind)
{
        size_t n = 0;

        for (size_t i = 0; i < plan->n; i++)
                n += plan->rows[i].kind == kind;
        return n;
}

struct plan_row *plan_at(const struct plan *plan, size_t row)
{
        return &plan->rows[row];
}

/* ---- following ---- */

static bool is_same_tool(const struct plan_row *row, const struct plan_call *call)
{
        return strcmp(row->server, call->server) == 0 && strcmp(row->tool, call->tool) == 0;
}

static bool is_same(const struct plan_row *row, const struct plan_call *call,
                    const struct buffer *compared)
{
        return row->kind == call->kind && row->definition == call->definition &&
               is_same_tool(row, call) && row->n_compared == compared->length &&
               memcmp(row->compared, buffer_bytes(compared), compared->length) == 0;
}

enum plan_match plan_take(struct plan *plan, const struct plan_call *call,
                          const struct plan_row **ret)
{
        _cleanup_buffer_ struct buffer compared = BUFFER_INIT(2 * PLAN_BYTES_MAX);
        enum plan_match match = PLAN_OTHER;

        if (compare_form(call, &compared) < 0)
                return PLAN_OTHER;
        for (size_t i = 0; i < plan->n; i++) {
                struct plan_row *row = &plan->rows[i];
                if (row->is_used || !is_same(row, call, &compared))
                        continue;
                if (row->kind == PLAN_READS && !row->result)
                        continue;
                *ret = row;
                if (row->kind != PLAN_READS && !row->is_allowed) {
                        match = PLAN_REFUSED;
                        continue;
                }
                row->is_used = true;
                return row->kind == PLAN_READS ? PLAN_ANSWERED : PLAN_ALLOWED;
        }
        return match;
}

void plan_note_other(struct plan *plan)
{
        plan->n_other++;
}

/* The first place at which two documents differ, as a pointer, at most `size` bytes of it. */
static void find_difference(yyjson_val *a, yyjson_val *b, char *to, size_t size)
{
        size_t used = 0;

        *to = '\0';
        while (yyjson_is_obj(a) && yyjson_is_obj(b) && used < size) {
                yyjson_val *key, *value, *other = NULL;
                bool is_found = false;
                size_t i, n;

                yyjson_obj_foreach (a, i, n, key, value) {
                        other = yyjson_obj_getn(b, yyjson_get_str(key), yyjson_get_len(key));
                        if (other && yyjson_equals(value, other))
                                continue;
                        used += (size_t)snprintf(to + used, size - used, "/%.40s",
                                                 yyjson_get_str(key));
                        is_found = true;
                        break;
                }
                if (!is_found)
                        return;
                a = value;
                b = other;
        }
}

void plan_describe_difference(const struct plan *plan, const struct plan_call *call,
                              char to[PLAN_DIFFERENCE_MAX])
{
        char place[60], name[80];
        size_t number = 0;

        snprintf(name, sizeof(name), "%.30s.%.40s", call->server, call->tool);
        utf8_trim(name);
        snprintf(to, PLAN_DIFFERENCE_MAX, "the plan has no call of %s", name);
        for (size_t i = 0; i < plan->n; i++) {
                const struct plan_row *row = &plan->rows[i];
                _cleanup_json_ yyjson_doc *doc = NULL;

                number += row->kind != PLAN_READS;
                if (!is_same_tool(row, call) || row->kind != call->kind)
                        continue;
                snprintf(to, PLAN_DIFFERENCE_MAX, "the plan has no more such calls of %s", name);
                if (row->is_used || json_parse(row->json, row->n, &doc, NULL) < 0)
                        continue;
                find_difference(call->arguments, yyjson_doc_get_root(doc), place, sizeof(place));
                utf8_trim(place);
                if (row->definition != call->definition)
                        snprintf(to, PLAN_DIFFERENCE_MAX,
                                 "the rule or the tool is not as in row %zu of the plan", number);
                else
                        snprintf(to, PLAN_DIFFERENCE_MAX, "%s is not as in row %zu of the plan",
                                 *place ? place : "the text of the arguments", number);
                return;
        }
}

/* ---- what a result says of it ---- */

static void put_rows(const struct plan *plan, struct json_out *out)
{
        static const char *const kinds[PLAN_KINDS] = {"asks", "allowed", "read"};
        size_t shown = plan->n < SHOWN_MAX ? plan->n : SHOWN_MAX;

        json_out_begin(out, "calls", '[');
        for (size_t i = 0; i < shown; i++) {
                const struct plan_row *row = &plan->rows[i];
                json_out_begin(out, NULL, '{');
                json_out_text(out, "server", row->server);
                json_out_text(out, "tool", row->tool);
                json_out_text(out, "decision", kinds[row->kind]);
                if (row->n <= ARGUMENTS_MAX)
                        json_out_raw(out, "arguments", row->json, row->n);
                json_out_int(out, "bytes", (int64_t)row->n);
                if (*row->rule)
                        json_out_text(out, "rule", row->rule);
                if (row->unsure)
                        json_out_int(out, "unsure", row->unsure);
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
}

int plan_put(const struct plan *plan, bool is_only, struct buffer *to)
{
        struct json_out out = {.to = to};
        size_t made = 0, listed = 0;

        for (size_t i = 0; i < plan->n; i++) {
                listed += plan->rows[i].kind != PLAN_READS;
                made += plan->rows[i].kind != PLAN_READS && plan->rows[i].is_used;
        }
        json_out_begin(&out, NULL, '{');
        if (is_only)
                put_rows(plan, &out);
        json_out_int(&out, "planned", (int64_t)listed);
        json_out_int(&out, "reads", (int64_t)(plan->n - listed));
        if (!is_only) {
                json_out_int(&out, "made", (int64_t)made);
                json_out_int(&out, "other", (int64_t)plan->n_other);
                json_out_int(&out, "left_out", (int64_t)(listed - made));
        }
        json_out_end(&out, '}');
        return out.error;
}

int plan_list(const struct plan *plan, size_t most, struct buffer *to)
{
        int r = 0;

        for (size_t i = 0; i < plan->n && r >= 0; i++) {
                const struct plan_row *row = &plan->rows[i];
                size_t cut = utf8_cut(row->json, row->n, SHOWN_BYTES_MAX);

                if (row->kind == PLAN_READS)
                        continue;
                if (to->length + 2 * SHOWN_BYTES_MAX > most)
                        return buffer_printf(to, "… and more: %zu rows in all\n", plan->n);
                r = buffer_printf(to, "%zu. %.100s.%.100s ", i + 1, row->server, row->tool);
                if (r >= 0)
                        r = printable_json(to, row->json, cut);
                if (r >= 0)
                        r = buffer_printf(to, "%s (%zu bytes)%s", cut < row->n ? "…" : "", row->n,
                                          row->kind == PLAN_ASKS ? " asks" : "");
                if (r >= 0 && row->unsure)
                        r = buffer_printf(to, ", unsure: line %u", row->unsure);
                if (r >= 0)
                        r = buffer_append(to, "\n", 1);
        }
        return r;
}
