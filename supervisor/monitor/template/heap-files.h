/*
 * The files in which a template has the image of its heap (sandbox-init/worker/memory/image.h).
 *
 * The monitor makes them, as a template without a control group may make no memfd: their pages are in no process. It keeps
 * them open to count these pages.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

struct heap_files {
        int draft, heap; /* -1: none */
};

#define HEAP_FILES_INIT ((struct heap_files){-1, -1})

/* Makes two empty memfds, which can be sealed. Returns 0 or negative errno. */
int heap_files_make(struct heap_files *ret, struct error *err);
void heap_files_close(struct heap_files *files);

/* Bytes of memory that they take. */
uint64_t heap_files_size(const struct heap_files *files);
