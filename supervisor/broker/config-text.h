/* Config files. The broker reads their bytes first and parses them after it has isolated itself. */
#pragma once

#include "base/error.h"
#include "policy/config/config.h"
#include "supervisor/broker/link.h"

struct config_text {
        char path[512];
        uint32_t code; /* as in struct link_config_file */
        char *data;
        size_t n;
};

/* Reads n files into n texts and closes the descriptors in any case. */
int config_texts_read(const struct link_config_file *files, size_t n, struct config_text *texts,
                      struct error *err);

/* Parses them into one config; frees the texts in any case. */
int config_texts_parse(struct config_text *texts, size_t n, struct config **ret, struct error *err);
