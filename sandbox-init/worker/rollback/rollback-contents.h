/* The next steps of a rollback, after the names: restores contents, then modes and times. */
#pragma once

#include "sandbox-init/worker/rollback/rollback-paths.h"

void rollback_contents(struct rollback *r);
void rollback_attributes(struct rollback *r);
