/* Has uv download a CPython. Only for the user's own command or config ("python_downloads": "allow"). */
#pragma once

#include "supervisor/pythons/pythons.h"

/* Set for the image builder if the profile allows it. */
#define PYTHON_DOWNLOADS_VARIABLE "CLOISTER_PYTHON_DOWNLOADS"

/*
 * Runs `uv python install VERSION` with the caller's environment, and calls progress(data, text) at the start and for each line that uv prints, with control
 * characters escaped.
 * Afterwards the version is searched for again: uv's word is not taken for it. Returns 0 and the path, or negative errno.
 */
int uv_install(const char *version, void (*progress)(void *data, const char *text), void *data,
               char ret[PYTHON_PATH_SIZE], struct error *err);
