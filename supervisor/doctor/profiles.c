/* Tries the profiles of the config beside the default one, each in a real sandbox. */
#include "supervisor/doctor/profiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "policy/config/add.h"
#include "supervisor/config/config-files.h"
#include "supervisor/doctor/attempt.h"
#include "supervisor/monitor/image/image-reader.h"

/* No more are tried, and none is after this time. */
enum { PROFILES_MAX = 24, PROFILES_SECONDS = 30 };

/* An image that the first session would make is not made here. Returns false where one can't be
 * made, with the reason. */
static bool image_is_there(const struct config *config, const struct config_profile *profile,
                           bool *there, struct error *err)
{
        struct image_found found = {.root = -1};
        const enum sandbox_mode mode = geteuid() == 0 ? SANDBOX_ROOT : SANDBOX_ROOTLESS;
        struct upstream_user user = {.uid = geteuid(), .gid = getegid()};
        struct image_choice choice;

        *there = true;
        if (!profile->python || profile->image)
                return true;
        if (image_choose(NULL, profile->python, &choice, err) < 0 ||
            image_choice_check(&choice, err) < 0)
                return false;
        upstream_user_choose(mode, config->user, getenv("SUDO_UID"), &user, NULL);
        *there = image_read(&choice, &user, &found, NULL) >= 0;
        upstream_user_done(&user);
        if (*there)
                close(found.root);
        return true;
}

static void try_profile(struct doctor *d, const char *const *configs, size_t n,
                        const struct config *config, const struct config_profile *profile)
{
        static struct attempt attempt;
        struct error error = {0};
        bool there;

        if (!image_is_there(config, profile, &there, &error)) {
                doctor_add(d, "profile", DOCTOR_DEGRADED, false,
                           "correct \"python\" of the profile", "\"%s\" fails: %s", profile->name,
                           error.text);
                return;
        }
        if (!there) {
                doctor_add(d, "profile", DOCTOR_EFFECTIVE, false, NULL,
                           "\"%s\" was not tried: its image is made at the first use",
                           profile->name);
                return;
        }
        attempt_run(configs, n, profile->name, &attempt);
        const char *fix = attempt_fix(&attempt);
        if (attempt.done && attempt.status == 0)
                doctor_add(d, "profile", DOCTOR_EFFECTIVE, false, NULL,
                           "\"%s\": a sandbox ran 1+1, in %.2f s", profile->name, attempt.seconds);
        else if (profile->image && strstr(attempt.why, "there is no image")) {
                char text[300];
                snprintf(text, sizeof(text), "make it: cloister image build --name %s",
                         profile->image);
                doctor_add(d, "profile", DOCTOR_DEGRADED, false, text, "\"%s\" fails: %s",
                           profile->name, attempt.why);
        } else
                doctor_add(d, "profile", DOCTOR_DEGRADED, false,
                           fix ? fix : "`cloister -vv run --profile NAME -c 1` logs each step",
                           "\"%s\" fails: %s", profile->name, attempt.why);
}

void doctor_check_profiles(struct doctor *d, const char *const *configs, size_t n_configs)
{
        uint64_t end = clock_us() + (uint64_t)PROFILES_SECONDS * 1000000;
        struct config *config = config_new();
        struct config_files *files = NULL;

        if (!config)
                return;
        /* The default profile ran with these files: they can be read. */
        if (config_files_open(configs, n_configs, geteuid() == 0, NULL, config, &files, NULL) >=
                    0 &&
            config_finish(config, NULL) >= 0)
                for (size_t i = 0; i < config->n_profiles && i < PROFILES_MAX; i++)
                        if (i != config->profile && clock_us() < end)
                                try_profile(d, configs, n_configs, config, &config->profiles[i]);
        config_files_free(files);
        config_free(config);
}
