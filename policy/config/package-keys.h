/* "packages" and "libraries" of a profile: packages of Python and of npm (docs/packages.md, docs/images.md). */
#pragma once

#include "policy/config/reader.h"
#include "policy/package-set.h"

/* The functions of the rows of CONFIG_PACKAGES and CONFIG_LIBRARIES (codes.def). */
config_code_fn config_check_allowed_packages, config_check_npm, config_check_allowed_npm,
        config_check_libraries, config_check_registry, config_check_index, config_check_age;

/* The libraries that the default image of a profile gets: those of its language. The names are the profile's. */
void config_profile_libraries(const struct config_profile *profile, struct package_set *ret);
