/* The monitor's config: how it is read, sent to the broker, and watched. */
#pragma once

#include <stdint.h>

#include "base/error.h"

struct monitor;

int monitor_load_config(struct monitor *m, struct error *err);
void monitor_send_config(struct monitor *m); /* HELLO, the files, READY */
void monitor_watch_config(struct monitor *m);
/* Reads the files again. If the config is valid, and all of "rule_tests" pass, it is used; otherwise nothing has changed. serial: of the request
 * that is answered then, maybe later; 0: none. */
void monitor_reload_config(struct monitor *m, uint32_t serial);
/* Forgets a config whose "rule_tests" still run. */
void monitor_drop_candidate(struct monitor *m);
