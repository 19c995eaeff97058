/* The built-in module _cloister: what the guest's Python files need of C (documented in module.c).
 */
#pragma once

#include <stdbool.h>

#include "sandbox-init/worker/python-api.h"

/* For PyImport_AppendInittab(). */
PyObject *module_init(void);

/* Returns true once the template has reported to the monitor that it is ready, or its failure. */
bool module_has_reported(void);
