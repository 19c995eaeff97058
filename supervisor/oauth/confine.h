/* The privileges that cloister-oauth gives up. */
#pragma once

#include "base/error.h"

/* Gives up what the process does not need any more. The files that the config names have been read. */
int oauth_confine(struct error *err);
