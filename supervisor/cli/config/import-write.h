/* The text of the config with the new entries. */
#pragma once

#include "supervisor/cli/config/import.h"

/* The existing text with the new entries inserted. */
int import_text(const struct import *import, struct buffer *to, struct error *err);
