/* The config files as the broker reads them: the bytes first, what they say once it is isolated. */
#pragma once

#include "base/error.h"
#include "policy/config.h"
#include "supervisor/broker/link.h"

struct config_text {
        char path[512];
        char *data;
        size_t n;
};

/* Reads n files, whose descriptors are closed in any case. texts, n of them, are filled on success.
 */
int config_texts_read(const struct link_config_file *files, size_t n, struct config_text *texts,
                      struct error *err);

/* Makes a config of them and frees their bytes in any case. */
int config_texts_parse(struct config_text *texts, size_t n, struct config **ret, struct error *err);
