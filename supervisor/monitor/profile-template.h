/* What a profile's template is made of. */
#pragma once

#include "supervisor/monitor/profile.h"

/* Starts it from an image that is there. */
int profile_start_template(struct profile *profile, const struct image_info *info, int image_fd,
                           struct error *err);

/* Opens the directories that the profile mounts while privilege lasts; in the rootless mode that is
 * left to the template's start, so that a directory may be made anew. */
void profile_open_sources(struct profile *profile);

/* Descriptors that all templates share; opened when first needed. */
void profile_shared_init(struct monitor *m);
void profile_shared_done(struct monitor *m);
