/* RESULT: how the worker says that a cell ended. */
#pragma once

#include "supervisor/session/cell/cell.h"

/*
 * Takes the worker's RESULT into the outcome, which becomes the owner of the document. The worker's statuses are "ok", "error",
 * "exit" and "interrupted". Returns 0, or -EBADMSG if it has another form.
 */
int cell_take_result(struct cell *cell, yyjson_doc **doc, struct error *err);
