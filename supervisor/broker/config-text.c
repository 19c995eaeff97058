/* Config files from the monitor's descriptors. */
#include "supervisor/broker/config-text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/config/add.h"
#include "policy/config/server.h"

DEFINE_CLEANUP(struct config *, config_free)

static void free_texts(struct config_text *texts, size_t n)
{
        for (size_t i = 0; i < n; i++)
                free(take_ptr(texts[i].data));
}

int config_texts_read(const struct link_config_file *files, size_t n, struct config_text *texts,
                      struct error *err)
{
        int r = 0;

        for (size_t i = 0; i < n; i++) {
                texts[i] = (struct config_text){};
                texts[i].code = files[i].code;
                memcpy(texts[i].path, files[i].path, sizeof(texts[i].path));
                if (r >= 0)
                        r = fd_read_whole(files[i].fd, CONFIG_FILE_SIZE_MAX, &texts[i].data,
                                          &texts[i].n, err);
                if (r < 0)
                        error_context(err, "%s", texts[i].path);
                close(files[i].fd);
        }
        if (r < 0)
                free_texts(texts, n);
        return r;
}

int config_texts_parse(struct config_text *texts, size_t n, struct config **ret, struct error *err)
{
        _cleanup_(cleanup_config_free) struct config *config = config_new();
        int r = config ? 0 : error_errno(err, ENOMEM, "config");

        for (size_t i = 0; i < n && r >= 0; i++)
                r = texts[i].code > 0
                            ? config_set_code(config, texts[i].code - 1, texts[i].data, texts[i].n,
                                              err)
                            : config_add(config, texts[i].path, texts[i].data, texts[i].n, err);
        free_texts(texts, n);
        for (size_t i = 0; config && i < config->n_servers; i++)
                config_server_mask(&config->servers[i]);
        if (r >= 0)
                r = config_finish(config, err);
        if (r >= 0)
                *ret = take_ptr(config);
        return r;
}
