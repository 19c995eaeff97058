/* The form of records. */
#include "supervisor/trust/records/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mask.h"
#include "base/utf8.h"
#include "supervisor/trust/records/journal.h"

enum {
        NAME_BYTES_MAX = 256,
        TEXT_BYTES_MAX = 1024,
        ARGUMENTS_MAX = 8 * 1024,
        ARGUMENTS_WRITTEN_MAX = 10 * 1024, /* as a string of JSON */
        FIELDS_BYTES_MAX = 12 *
                           1024, /* a field of JSON is left out if the record would be longer */
};

/* ---- members ---- */

static void put(struct json_out *out, const char *name, const char *text, size_t n, size_t most)
{
        json_out_string(out, name, text, n <= most ? n : utf8_cut(text, n, most));
}

static void put_name(struct json_out *out, const char *name, const char *text)
{
        if (text && *text)
                put(out, name, text, strlen(text), NAME_BYTES_MAX);
}

/* The key of a session is PRINCIPAL:SESSION, or SESSION. */
static void put_ids(struct json_out *out, const struct log_ids *ids)
{
        const char *colon = ids->session ? strchr(ids->session, ':') : NULL;

        if (colon)
                put(out, "principal", ids->session, (size_t)(colon - ids->session), NAME_BYTES_MAX);
        else
                put_name(out, "principal", ids->principal);
        put_name(out, "session", colon ? colon + 1 : ids->session);
        if (ids->cell > 0)
                json_out_int(out, "cell", (int64_t)ids->cell);
        if (ids->call > 0)
                json_out_int(out, "call", (int64_t)ids->call);
        put_name(out, "server", ids->server);
        put_name(out, "tool", ids->tool);
}

/* The text of the arguments, as a string, because it may be cut. Quotes and control characters take more room in it. */
static void put_arguments(struct json_out *out, const struct config_journal *how, const char *text,
                          size_t n)
{
        _cleanup_buffer_ struct buffer written = BUFFER_INIT(ARGUMENTS_WRITTEN_MAX);
        size_t length = n <= ARGUMENTS_MAX ? n : utf8_cut(text, n, ARGUMENTS_MAX);

        if (how->arguments == CONFIG_ARGUMENTS_HASH)
                return;
        _cleanup_free_ char *copy = strndup(text, length);
        if (!copy) {
                json_out_fail(out, -ENOMEM);
                return;
        }
        bool is_cut = length < n;
        if (how->arguments == CONFIG_ARGUMENTS_MASKED)
                mask_text(copy);
        length = strlen(copy);
        while (json_append_string(&written, copy, length) == -EMSGSIZE) {
                length = utf8_cut(copy, length, length / 2);
                written.error = 0;
                is_cut = true;
        }
        if (written.error)
                json_out_fail(out, written.error);
        json_out_buffer(out, "arguments", &written);
        if (is_cut)
                json_out_bool(out, "cut", true);
}

/* ---- calls ---- */

int record_call(const struct config_journal *how, const struct record_call *call, uint64_t *number,
                struct error *err)
{
        struct json_out *out;

        *number = 0;
        if (!how->is_set)
                return 0;
        out = journal_begin("call");
        if (!out)
                return error_set(err, ENOTCONN, "journal: no file is open");
        put_ids(out, &call->ids);
        if (call->rule)
                put(out, "rule", call->rule, strlen(call->rule), TEXT_BYTES_MAX);
        json_out_int(out, "bytes", (int64_t)call->n);
        json_out_text(out, "sha256", call->digest);
        put_arguments(out, how, call->arguments, call->n);
        return journal_end(number, err);
}

/* A failure is in the log; the call was sent already. */
static void end_record(const char *kind)
{
        struct error err = {};

        if (journal_end(NULL, &err) < 0)
                log_warning("%s: the record \"%s\" is lost", err.text, kind);
}

void record_answer(const struct record_answer *answer)
{
        static const char *const outcomes[] = {
                [RECORD_COMMITTED] = "committed",
                [RECORD_FAILED] = "failed",
                [RECORD_IN_DOUBT] = "in doubt",
                [RECORD_NOT_SENT] = "not sent",
        };
        struct json_out *out = answer->of > 0 ? journal_begin("answer") : NULL;

        if (!out)
                return;
        json_out_int(out, "of", (int64_t)answer->of);
        json_out_text(out, "outcome", outcomes[answer->outcome]);
        put_ids(out, &answer->ids);
        json_out_int(out, "ms", (int64_t)(answer->duration_us / 1000));
        json_out_int(out, "bytes", (int64_t)answer->bytes);
        if (answer->why)
                put(out, "why", answer->why, strlen(answer->why), TEXT_BYTES_MAX);
        end_record("answer");
}

/* ---- others ---- */

static void put_field(struct json_out *out, const struct log_field *field)
{
        if (field->kind == LOG_NUMBER)
                json_out_int(out, field->name, (int64_t)field->number);
        else if (field->kind == LOG_BOOL)
                json_out_bool(out, field->name, field->number);
        else if (field->kind == LOG_JSON && out->to->length + field->n < FIELDS_BYTES_MAX)
                json_out_raw(out, field->name, field->text, field->n);
        else if (field->kind == LOG_TEXT)
                put(out, field->name, field->text, field->n, TEXT_BYTES_MAX);
        /* Code is in the journal by its hash only. */
}

static void put_fact(struct json_out *out, const struct log_ids *ids,
                     const struct log_field *fields, size_t n)
{
        if (ids)
                put_ids(out, ids);
        for (size_t i = 0; i < n; i++)
                put_field(out, &fields[i]);
}

static void write_fact(const char *kind, const struct log_ids *ids, const struct log_field *fields,
                       size_t n)
{
        struct json_out *out = journal_begin(kind);

        if (!out)
                return;
        put_fact(out, ids, fields, n);
        end_record(kind);
}

int record_fact(const struct config_journal *how, const char *kind, const struct log_ids *ids,
                const struct log_field *fields, size_t n, struct error *err)
{
        if (!how->is_set)
                return 0;
        struct json_out *out = journal_begin(kind);
        if (!out)
                return error_set(err, ENOTCONN, "journal: no file is open");
        put_fact(out, ids, fields, n);
        return journal_end(NULL, err);
}

void record_refused_answer(const char *by, const char *id, const char *sha256, const char *why)
{
        const struct log_field fields[] = {
                {"id", LOG_TEXT, id, strlen(id), 0},
                {"by", LOG_TEXT, by, strlen(by), 0},
                {"sha256", LOG_TEXT, sha256, strlen(sha256), 0},
                {"refused", LOG_TEXT, why, strlen(why), 0},
        };

        write_fact("decision", NULL, fields, sizeof(fields) / sizeof(*fields));
}

void record_event(const struct log_ids *ids, const struct log_record *record)
{
        /* The end of a cell has its receipt: it is the record of the cell. */
        const char *kind = strcmp(record->event, "cell.end") == 0 ? "cell" : record->event;

        write_fact(kind, ids, record->fields, record->n);
}
