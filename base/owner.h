/* Who a directory belongs to, and what is in it. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

enum { OWNER_TEXT_SIZE = 64 };

/* "root", "uid 5 (games)", "uid 5". */
void owner_describe(uid_t uid, char ret[OWNER_TEXT_SIZE]);

/*
 * Whether the image store belongs to uid, and each name that is directly in it (links are not
 * followed). store: any descriptor of it, O_PATH too. Returns 0, or -EPERM and the line that says
 * what to do: images that another user can change are not used.
 */
int owner_check_store(int store, const char *path, uid_t uid, struct error *err);
