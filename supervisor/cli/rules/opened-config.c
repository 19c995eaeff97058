/* Reads the config for commands about rules. */
#include "supervisor/cli/rules/opened-config.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/config/add.h"
#include "policy/config/rule-test-keys.h"
#include "supervisor/cli/command/url-reader.h"

int opened_config_open(struct opened_config *opened, const struct options *o, struct error *err)
{
        *opened = (struct opened_config){.config = config_new()};
        if (!opened->config)
                return error_errno(err, ENOMEM, "config");
        int r = config_files_open(o->configs, o->n_configs, geteuid() == 0, NULL, opened->config,
                                  &opened->files, err);
        if (r >= 0)
                r = config_finish(opened->config, err);
        if (r < 0)
                return r;
        int i = o->profile ? config_find_profile(opened->config, o->profile, err)
                           : (int)opened->config->profile;
        if (i < 0)
                return i;
        opened->profile = &opened->config->profiles[i];
        opened->n_servers = config_rules_servers(opened->config, opened->servers);
        return 0;
}

void opened_config_close(struct opened_config *opened)
{
        config_files_free(opened->files);
        config_free(opened->config);
}

static int add_file(const struct opened_config *opened, size_t i, struct config *to,
                    struct error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t n = 0, code = config_files_code(opened->files, i);
        int fd = config_files_fd(opened->files, i);

        int r = lseek(fd, 0, SEEK_SET) < 0
                        ? error_errno(err, errno, "config")
                        : fd_read_whole(fd, CONFIG_FILE_SIZE_MAX, &text, &n, err);
        if (r >= 0)
                r = code > 0 ? config_set_code(to, code - 1, text, n, err)
                             : config_add(to, config_files_path(opened->files, i), text, n, err);
        return r;
}

int opened_config_try(const struct opened_config *opened, size_t index, const char *text, size_t n,
                      struct error *err)
{
        struct config *config = config_new();
        int r = config ? 0 : error_errno(err, ENOMEM, "config");

        for (size_t i = 0; r >= 0 && i < config_files_count(opened->files); i++)
                r = i == index
                            ? config_add(config, config_files_path(opened->files, i), text, n, err)
                            : add_file(opened, i, config, err);
        if (r >= 0)
                r = config_finish(config, err);
        if (r >= 0)
                r = config_check_rule_tests(config, url_reader, err);
        config_free(config);
        return r;
}
