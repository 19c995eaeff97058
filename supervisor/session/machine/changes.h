/*
 * Which files in /workspace have changed, as the session's init sees them (rpc/file-changes.h). Its bytes
 * could be those of a hostile template, and the names are chosen by code.
 */
#pragma once

#include <stdint.h>

#include "supervisor/session/cell/receipts.h"

/* Reads what init has written, for the receipts of the cells up to this one. -EBADMSG or -ENOMEM: it is not of the
 * agreed form. */
int changes_take(int fd, struct receipts *receipts, uint64_t to);
