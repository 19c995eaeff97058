/* The values of metrics, and their text. */
#include "supervisor/service/metrics.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"

enum metric_type { COUNTER, GAUGE, HISTOGRAM };

/* Those of OpenTelemetry's conventions for MCP, and finer ones below 10 ms: a warm call takes less than one. */
#define METRICS_BOUNDARIES                                                                         \
        0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, \
                120, 300
static const double boundaries[] = {METRICS_BOUNDARIES};
/* le="+Inf", the sum and the number */
enum { N_BOUNDARIES = ARRAY_SIZE(boundaries), N_BUCKETS = N_BOUNDARIES + 1 };

/* The series of one set of label values. */
#define SERIES_OF(type) ((type) == HISTOGRAM ? N_BUCKETS + 2 : 1)

#define NONE ""
static const struct metric_row {
        enum metric_type type;
        const char *name, *labels;
        size_t most;
        const char *help;
} rows[] = {
#define METRIC(id, type, name, labels, most, help) {type, name, labels, most, help},
#include "supervisor/service/metrics.def"
};
/* A sum. */
/* NOLINTBEGIN(bugprone-macro-parentheses) */
static_assert(0
#define METRIC(id, type, name, labels, most, help) +((most)*SERIES_OF(type))
#include "supervisor/service/metrics.def"
                      <= METRICS_SERIES_MAX,
              "the limit holds whatever comes");
/* NOLINTEND(bugprone-macro-parentheses) */

/* The values of one set of label values. */
struct series {
        struct series *next;
        double value; /* a histogram's sum */
        uint64_t count;
        uint64_t *buckets; /* of a histogram: not cumulative */
        size_t length;     /* of the label values: texts that end with a NUL, one after another */
        char labels[];
};

static struct metric_values {
        struct series *first, *last;
        size_t n;
} values[METRIC_MAX];
static bool shows_principals;

static size_t count_labels(const struct metric_row *row)
{
        size_t n = *row->labels != '\0';

        for (const char *p = row->labels; *p; p++)
                n += *p == ',';
        return n;
}

static bool is_of_principals(enum metric metric)
{
        return strcmp(rows[metric].labels, "principal") == 0;
}

/* ---- values ---- */

struct label_set {
        char text[METRICS_LABELS_MAX * (METRICS_VALUE_MAX + 1)];
        size_t length;
};

static void add_label(struct label_set *set, const char *value)
{
        size_t n = utf8_cut(value, strlen(value), METRICS_VALUE_MAX);

        memcpy(set->text + set->length, value, n);
        set->text[set->length + n] = '\0';
        set->length += n + 1;
}

static struct series *find(const struct metric_values *all, const struct label_set *set)
{
        struct series *s = all->first;

        while (s && (s->length != set->length || memcmp(s->labels, set->text, set->length) != 0))
                s = s->next;
        return s;
}

static struct series *add_series(enum metric metric, const struct label_set *set)
{
        struct metric_values *all = &values[metric];
        struct series *s = calloc(1, sizeof(*s) + set->length);
        bool has_buckets = rows[metric].type == HISTOGRAM;
        uint64_t *buckets = s && has_buckets ? calloc(N_BUCKETS, sizeof(*buckets)) : NULL;

        if (!s || (has_buckets && !buckets)) {
                free(s);
                return NULL;
        }
        s->buckets = buckets;
        s->length = set->length;
        memcpy(s->labels, set->text, set->length);
        if (all->last)
                all->last->next = s;
        else
                all->first = s;
        all->last = s;
        all->n++;
        return s;
}

/* The series of these values, or the one that all others share. NULL: out of memory. */
static struct series *need(enum metric metric, const char *const labels[])
{
        struct metric_values *all = &values[metric];
        size_t n = count_labels(&rows[metric]);
        struct label_set set = {}, other = {};

        for (size_t i = 0; i < n; i++) {
                assert(labels[i]);
                add_label(&set, labels[i]);
        }
        assert(!labels[n]);
        struct series *s = find(all, &set);
        if (s)
                return s;
        if (n == 0 || all->n + 1 < rows[metric].most)
                return add_series(metric, &set);
        for (size_t i = 0; i < n; i++)
                add_label(&other, METRIC_OTHER);
        /* One that was there before has taken the last place: it stays. */
        s = find(all, &other);
        return s || all->n >= rows[metric].most ? s : add_series(metric, &other);
}

static void observe(struct series *s, double value)
{
        size_t i = 0;

        while (i < N_BOUNDARIES && value > boundaries[i])
                i++;
        s->buckets[i]++;
        s->count++;
        s->value += value;
}

void metrics_change(enum metric metric, double value, const char *const labels[])
{
        if (is_of_principals(metric) && !shows_principals)
                return;
        struct series *s = need(metric, labels);
        if (!s)
                return;
        if (rows[metric].type == HISTOGRAM)
                observe(s, value > 0 ? value : 0);
        else if (rows[metric].type == COUNTER)
                s->value += value > 0 ? value : 0;
        else
                s->value = value;
}

void metrics_sum(enum metric metric, double value, const char *label)
{
        if (is_of_principals(metric) && !shows_principals)
                return;
        struct series *s = need(metric, (const char *const[]){label, NULL});
        if (s)
                s->value += value;
}

void metrics_total(enum metric metric, double value)
{
        struct series *s = need(metric, (const char *const[]){NULL});

        if (s)
                s->value = value;
}

void metrics_clear(enum metric metric)
{
        struct metric_values *all = &values[metric];

        for (struct series *s = all->first, *next; s; s = next) {
                next = s->next;
                free(s->buckets);
                free(s);
        }
        *all = (struct metric_values){};
}

void metrics_show_principals(bool show)
{
        for (size_t i = 0; i < METRIC_MAX && !show; i++) {
                if (is_of_principals((enum metric)i))
                        metrics_clear((enum metric)i);
        }
        shows_principals = show;
}

void metrics_done(void)
{
        for (size_t i = 0; i < METRIC_MAX; i++)
                metrics_clear((enum metric)i);
        shows_principals = false;
}

/* ---- text ---- */

const char *metrics_content_type(enum metrics_format format)
{
        return format == METRICS_OPEN ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                      : "text/plain; version=0.0.4; charset=utf-8";
}

static int append_value(struct buffer *to, const char *value)
{
        int r = 0;

        for (; *value && r >= 0; value++) {
                if (*value == '\n')
                        r = buffer_append(to, "\\n", 2);
                else if (*value == '"' || *value == '\\')
                        r = buffer_append(to, (char[]){'\\', *value}, 2);
                else
                        r = buffer_append(to, value, 1);
        }
        return r;
}

static int append_label(struct buffer *to, const char *name, size_t n, const char *value)
{
        int r = buffer_append(to, to->length > 0 ? "," : "", to->length > 0);

        if (r >= 0)
                r = buffer_append(to, name, n);
        if (r >= 0)
                r = buffer_append(to, "=\"", 2);
        if (r >= 0)
                r = append_value(to, value);
        return r < 0 ? r : buffer_append(to, "\"", 1);
}

/* name="value",… of the labels that are not absent. */
static int append_labels(struct buffer *to, const struct metric_row *row, const struct series *s)
{
        const char *name = row->labels, *value = s->labels;
        int r = 0;

        while (*name && r >= 0) {
                size_t n = strcspn(name, ",");
                if (*value)
                        r = append_label(to, name, n, value);
                value += strlen(value) + 1;
                name += n + (name[n] == ',');
        }
        return r;
}

/* One line: a name with a suffix, labels, one more label or "", a value. */
struct sample {
        const char *name, *suffix, *labels, *more;
        double value;
};

static int append_sample(struct buffer *to, const struct sample *sample)
{
        bool has_labels = *sample->labels, has_more = *sample->more;

        return buffer_printf(to, "%s%s%s%s%s%s%s %.15g\n", sample->name, sample->suffix,
                             has_labels || has_more ? "{" : "", sample->labels,
                             has_labels && has_more ? "," : "", sample->more,
                             has_labels || has_more ? "}" : "", sample->value);
}

static int append_histogram(struct buffer *to, const char *name, const char *labels,
                            const struct series *s)
{
        uint64_t sum = 0;
        char le[40];
        int r = 0;

        for (size_t i = 0; i < N_BOUNDARIES && r >= 0; i++) {
                sum += s->buckets[i];
                snprintf(le, sizeof(le), "le=\"%g%s\"", boundaries[i],
                         boundaries[i] >= 1 ? ".0" : "");
                r = append_sample(to, &(struct sample){name, "_bucket", labels, le, (double)sum});
        }
        if (r >= 0)
                r = append_sample(to, &(struct sample){name, "_bucket", labels, "le=\"+Inf\"",
                                                       (double)s->count});
        if (r >= 0)
                r = append_sample(to,
                                  &(struct sample){name, "_count", labels, "", (double)s->count});
        return r < 0 ? r : append_sample(to, &(struct sample){name, "_sum", labels, "", s->value});
}

static const char *unit_of(const char *name)
{
        static const char *const units[] = {"_seconds", "_bytes"};
        size_t length = strlen(name);

        for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
                size_t n = strlen(units[i]);
                if (length > n && strcmp(name + length - n, units[i]) == 0)
                        return units[i] + 1;
        }
        return NULL;
}

static const char *const type_names[] = {"counter", "gauge", "histogram"};

static int append_head(enum metrics_format format, struct buffer *to, const struct metric_row *row)
{
        const char *suffix = format == METRICS_TEXT && row->type == COUNTER ? "_total" : "";
        const char *unit = format == METRICS_OPEN ? unit_of(row->name) : NULL;

        int r = buffer_printf(to, "# TYPE %s%s %s\n", row->name, suffix, type_names[row->type]);
        if (r >= 0 && unit)
                r = buffer_printf(to, "# UNIT %s %s\n", row->name, unit);
        return r < 0 ? r : buffer_printf(to, "# HELP %s%s %s\n", row->name, suffix, row->help);
}

static int append_metric(enum metrics_format format, struct buffer *to, enum metric metric)
{
        _cleanup_buffer_ struct buffer labels = BUFFER_INIT(METRICS_BYTES_MAX);
        const struct metric_row *row = &rows[metric];
        const struct series *s = values[metric].first;
        int r = s ? append_head(format, to, row) : 0;

        for (; s && r >= 0; s = s->next) {
                buffer_consume(&labels, labels.length);
                r = append_labels(&labels, row, s);
                if (r >= 0)
                        r = buffer_append(&labels, "", 1);
                if (r < 0)
                        break;
                const char *text = buffer_bytes(&labels);
                r = row->type == HISTOGRAM
                            ? append_histogram(to, row->name, text, s)
                            : append_sample(to,
                                            &(struct sample){row->name,
                                                             row->type == COUNTER ? "_total" : "",
                                                             text, "", s->value});
        }
        return r;
}

int metrics_append(enum metrics_format format, struct buffer *to)
{
        int r = 0;

        for (size_t i = 0; i < METRIC_MAX && r >= 0; i++)
                r = append_metric(format, to, (enum metric)i);
        return r < 0 || format == METRICS_TEXT ? r : buffer_append_text(to, "# EOF\n");
}

int metrics_append_table(struct buffer *to)
{
        int r = buffer_append_text(to, "| metric | type | labels | |\n|---|---|---|---|\n");

        for (size_t i = 0; i < METRIC_MAX && r >= 0; i++) {
                const struct metric_row *row = &rows[i];
                r = buffer_printf(to, "| `%s%s` | %s | %s%s%s | %s |\n", row->name,
                                  row->type == COUNTER ? "_total" : "", type_names[row->type],
                                  *row->labels ? "`" : "", row->labels, *row->labels ? "`" : "",
                                  row->help);
        }
        return r;
}
