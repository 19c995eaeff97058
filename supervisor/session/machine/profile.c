/* Chooses the profile of a sandbox. */
#include "supervisor/session/machine/profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void session_profile_leave(struct session *s)
{
        s->profile = NULL;
        s->config = config_free(s->config);
}

/* The profile that the call names, else that of the session's last sandbox, else that of the call's
 * client, else the config's default. Only the first one must still exist. */
static int choose_profile(const struct session *s, struct error *err)
{
        const struct config *config = s->context->config;
        const struct cell *cell = s->queue.first;

        if (cell && cell->profile_asked)
                return config_find_profile(config, cell->profile, err);
        int i = s->last_profile[0] ? config_find_profile(config, s->last_profile, NULL) : -ENOENT;
        if (i < 0 && cell && cell->profile[0])
                i = config_find_profile(config, cell->profile, NULL);
        return i < 0 ? (int)config->profile : i;
}

int session_profile_enter(struct session *s, struct error *err)
{
        struct config *config = s->context->config;
        int i = choose_profile(s, err);

        if (i < 0)
                return i;
        s->config = config_ref(config);
        s->profile = config->n_profiles > 0 ? &config->profiles[i] : NULL;
        snprintf(s->last_profile, sizeof(s->last_profile), "%s",
                 s->profile ? s->profile->name : "");
        return i;
}

const struct config_profile *session_profile(const struct session *s)
{
        return s->profile;
}

int session_profile_in(const struct session *s, const struct config *config)
{
        if (s->config != config)
                return -1;
        return s->profile ? (int)(s->profile - config->profiles) : 0;
}

bool session_profile_is_other(const struct session *s)
{
        return s->queue.first->profile_asked &&
               strcmp(s->queue.first->profile, s->profile ? s->profile->name : "") != 0;
}

void session_profile_refusal(const struct session *s, char why[CELL_WHY_MAX])
{
        snprintf(
                why, CELL_WHY_MAX,
                "session \"%s\" lives under profile \"%s\", not \"%s\": reset: true begins it anew there, or use another session",
                session_key_name(s->name), s->profile ? s->profile->name : "default",
                s->queue.first->profile);
}
