/* `cloister tools`. */
#pragma once

#include "supervisor/broker/broker.h"

extern const struct broker_mode broker_mode_tools;
