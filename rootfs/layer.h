/* Moves packages from beside an image's root into it. */
#pragma once

#include "base/error.h"

/* directory: STORE/.tmp-NAME with packages/ and root/. place: the existing site-packages inside the
 * root. Programs go to /usr/local/bin. */
int layer_merge(int directory, const char *place, struct error *err);
