/*
 * The process that checks pictures: cloister-pictures, started when the broker asks for it, at its first picture.
 *
 * It gets namespaces of its own, also for the network, and the broker's id; its only descriptors are a socket to the broker and a
 * filter. It ends when the broker closes the socket. A request while one runs replaces it.
 */
#pragma once

#include "rpc/monitor-messages.h"

struct monitor;

/* Handles MONITOR_PICTURES_START. */
void monitor_pictures_start(struct monitor *m, const struct monitor_request *request);
void monitor_pictures_done(struct monitor *m);
