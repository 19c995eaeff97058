/* The catalogue of tools, as the worker of a session has it. */
#pragma once

struct session;

/* Sends the catalogue if the worker's version is older. */
void session_send_catalogue(struct session *session);
/* It has changed: workers that run a cell get it now, idle ones with their next cell. */
void session_catalogue_changed(struct session *session);
/* Another worker: it has none. */
void session_forget_catalogue(struct session *session);
