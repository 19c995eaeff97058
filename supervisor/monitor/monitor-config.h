/* The monitor's config: how it is read, sent to the broker, and watched. */
#pragma once

#include "base/error.h"

struct monitor;

int monitor_load_config(struct monitor *m, struct error *err);
void monitor_send_config(struct monitor *m); /* HELLO, the files, READY */
void monitor_watch_config(struct monitor *m);
/* Reads the files again, now. Returns 0, also if nothing has changed; otherwise nothing has changed. */
int monitor_reload_config(struct monitor *m, struct error *err);
