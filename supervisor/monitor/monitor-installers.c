/*
 * Starts the program that installs packages for sessions.
 *
 * It runs as the user that images belong to, as an upstream server would. The broker, which talks to
 * it, names a profile only: what may be installed, from where and how much comes from the config that
 * the monitor has read. The index may have credentials: it is in the program's environment, not in
 * its arguments, which every process of the machine can read.
 */
#include "supervisor/monitor/monitor-installers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/json-out.h"
#include "policy/config/expand.h"
#include "policy/package-set.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/monitor-upstreams.h"

enum { SETTINGS_MAX = 120 * 1024 }; /* MAX_ARG_STRLEN is 128 KiB */

static const char *lookup(const char *name)
{
        return getenv(name);
}

/* The variable of struct config_packages, without the index. */
static int write_settings(struct buffer *b, const struct config_profile *profile)
{
        const struct config_packages *p = &profile->packages;
        struct json_out out = {.to = b};

        int r = buffer_append_text(b, PACKAGES_VARIABLE "=");
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "profile", profile->name);
        if (p->allow) {
                json_out_begin(&out, "allow", '[');
                for (char *const *one = p->allow; *one; one++)
                        json_out_text(&out, NULL, *one);
                json_out_end(&out, ']');
        }
        if (p->exclude_newer)
                json_out_text(&out, "exclude_newer", p->exclude_newer);
        json_out_int(&out, "max_bytes", (int64_t)p->max_bytes);
        json_out_int(&out, "timeout_ms", (int64_t)p->timeout_ms);
        json_out_end(&out, '}');
        if (r >= 0)
                r = out.error;
        return r < 0 ? r : buffer_append(b, "", 1);
}

static int start(struct monitor *m, const struct config_profile *profile, uint32_t serial,
                 struct error *err)
{
        _cleanup_buffer_ struct buffer settings = BUFFER_INIT(SETTINGS_MAX);
        _cleanup_free_ char *index = NULL, *variable = NULL, *libraries = NULL;
        const char *path = getenv("LD_LIBRARY_PATH");
        const char *python = profile->python ? profile->python : m->image.python;
        const char *arguments[] = {"package-installer", "--store", m->image.store,
                                   "--python",          python,    NULL};
        char *environment[4] = {};
        struct config_server program = {
                .name = (char *)"package installer",
                .command = m->program,
                .args = (char **)arguments,
                .n_args = ARRAY_SIZE(arguments) - 1,
                .env = environment,
        };

        int r = config_packages_index(&profile->packages, lookup, &index, err);
        if (r < 0)
                return r;
        r = write_settings(&settings, profile);
        if (r >= 0 && index && asprintf(&variable, PACKAGES_INDEX_VARIABLE "=%s", index) < 0)
                r = -ENOMEM;
        /* Some interpreters find their libraries only with it. */
        if (r >= 0 && path && asprintf(&libraries, "LD_LIBRARY_PATH=%s", path) < 0)
                r = -ENOMEM;
        if (r < 0)
                return error_errno(err, -r, "settings");
        environment[program.n_env++] = buffer_bytes(&settings);
        if (variable)
                environment[program.n_env++] = variable;
        if (libraries)
                environment[program.n_env++] = libraries;
        return monitor_upstream_start_installer(m, &program, serial, err);
}

void monitor_installer_start(struct monitor *m, const struct monitor_request *request)
{
        struct error error = {};
        int r;

        if (request->target >= m->config->n_profiles)
                r = error_set(&error, EINVAL, "there is no profile %u", request->target);
        else if (!m->config->profiles[request->target].packages.install)
                r = error_set(&error, EPERM, "the profile does not allow it");
        else
                r = start(m, &m->config->profiles[request->target], request->serial, &error);
        if (r >= 0)
                return;
        error_context(&error, "install packages");
        monitor_send_failed(m, request->serial, &error);
}
