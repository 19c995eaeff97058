/* Packages that lie beside an image's root, moved into it. */
#pragma once

#include "base/error.h"

/* directory: STORE/.tmp-NAME with packages/ and root/. place: site-packages inside the root, which
 * is there. Programs go to /usr/local/bin. */
int layer_merge(int directory, const char *place, struct error *err);
