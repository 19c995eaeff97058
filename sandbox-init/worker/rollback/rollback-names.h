/* The first step of a rollback: restores each name of the snapshot, and removes all others. */
#pragma once

#include "sandbox-init/worker/rollback/rollback-paths.h"

void rollback_names(struct rollback *r);
