/*
 * Messages to the service manager: sd_notify(3), as systemd documents it. A message is one datagram of lines NAME=VALUE, sent
 * to the unix socket that NOTIFY_SOCKET names; a leading "@" means an abstract one. Without the variable nothing is sent.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
        int fd; /* -1: nothing is sent */
        struct sockaddr_un address;
        socklen_t n;
        uint64_t watchdog_us; /* WATCHDOG_USEC, if it is for this process; 0: none */
};

/* Takes the variables out of the environment. A socket that cannot be used has a warning. */
void notify_init(struct notify *notify);
void notify_done(struct notify *notify);

static inline bool notify_is_wanted(const struct notify *notify)
{
        return notify->fd >= 0;
}

/* Sends lines; the text has no newline at its end. Never waits: a message that cannot be sent is lost. */
void notify_send(const struct notify *notify, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
