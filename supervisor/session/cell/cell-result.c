/* Reads a RESULT. */
#include "supervisor/session/cell/cell-result.h"

#include <errno.h>
#include <string.h>

#include "supervisor/session/cell/display.h"

static bool has_string(yyjson_val *object, const char *key)
{
        return yyjson_is_str(yyjson_obj_get(object, key));
}

static bool value_fits(yyjson_val *value)
{
        return yyjson_is_obj(value) && has_string(value, "repr");
}

static bool error_fits(yyjson_val *error)
{
        return yyjson_is_obj(error) && has_string(error, "type") && has_string(error, "message") &&
               has_string(error, "traceback");
}

/* exit_code is cut to 0 to 255, as the kernel does it; sys.exit(0) counts as ok. */
static int take_exit(struct cell_outcome *outcome, yyjson_val *root, struct error *err)
{
        int64_t code = 0;

        if (json_int64(yyjson_obj_get(root, "exit_code"), &code) < 0)
                return error_set(err, EBADMSG, "RESULT with status exit and no exit_code");
        outcome->exit_code = (int)(code & 0xff);
        outcome->has_exit_code = outcome->exit_code != 0;
        outcome->status = outcome->exit_code == 0 ? CELL_OK : CELL_EXIT;
        return 0;
}

static int take_status(struct cell_outcome *outcome, yyjson_val *root, struct error *err)
{
        const char *status = json_string(root, "status", NULL);

        if (!status)
                return error_set(err, EBADMSG, "RESULT without a status");
        if (strcmp(status, "exit") == 0)
                return take_exit(outcome, root, err);
        outcome->interrupted = strcmp(status, "interrupted") == 0;
        if (strcmp(status, "ok") == 0)
                outcome->status = CELL_OK;
        else if (strcmp(status, "error") == 0 || strcmp(status, "interrupted") == 0)
                outcome->status = CELL_ERROR;
        else
                return error_set(err, EBADMSG, "RESULT with the unknown status \"%.40s\"", status);
        return 0;
}

int cell_take_result(struct cell *cell, yyjson_doc **doc, struct error *err)
{
        struct cell_outcome *outcome = &cell->outcome;
        yyjson_val *root = yyjson_doc_get_root(*doc);

        if (!yyjson_is_obj(root))
                return error_set(err, EBADMSG, "RESULT is not an object");
        yyjson_val *value = yyjson_obj_get(root, "value"), *error = yyjson_obj_get(root, "error");
        if (value && !yyjson_is_null(value) && !value_fits(value))
                return error_set(err, EBADMSG, "RESULT with a malformed value");
        if (error && !yyjson_is_null(error) && !error_fits(error))
                return error_set(err, EBADMSG, "RESULT with a malformed error");
        if (file_list_take(root, CELL_FILES_MAX, &outcome->files, &outcome->n_files,
                           &outcome->files_total, err) < 0)
                return error_context(err, "RESULT");
        int r = take_status(outcome, root, err);
        if (r < 0)
                return r;
        outcome->value = yyjson_is_obj(value) ? value : NULL;
        outcome->error = yyjson_is_obj(error) ? error : NULL;
        if (cell_is_published(cell)) {
                yyjson_val *output = yyjson_obj_get(root, "output");
                yyjson_val *requests = yyjson_obj_get(root, "requests");
                outcome->output = yyjson_is_obj(output) ? output : NULL;
                outcome->requests = yyjson_is_obj(requests) ? requests : NULL;
        }
        outcome->result = take_ptr(*doc);
        cell_outcome_charge(outcome);
        return 0;
}
