/* What an image made from a host's CPython contains (docs/images.md has the list for people). */
#pragma once

#include "base/error.h"
#include "rootfs/interpreter.h"
#include "rootfs/plan.h"

int contents_plan(struct plan *plan, const struct interpreter *interpreter, struct error *err);
