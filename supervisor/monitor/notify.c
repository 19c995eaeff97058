/* Messages to the service manager. */
#include "supervisor/monitor/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

enum { MESSAGE_MAX = 512 };

/* Returns the length of the address, or 0. */
static socklen_t make_address(const char *name, struct sockaddr_un *ret)
{
        size_t n = strlen(name);

        *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
        if ((*name != '/' && *name != '@') || n < 2 || n >= sizeof(ret->sun_path))
                return 0;
        memcpy(ret->sun_path, name, n);
        if (*name == '@')
                ret->sun_path[0] = '\0';
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (*name == '/'));
}

/* systemd's watchdog is for the process whose pid is named, or for all. */
static uint64_t watchdog(void)
{
        const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
        char *end = NULL;
        uint64_t n = us ? strtoull(us, &end, 10) : 0;

        if (!us || !end || *end || *us == '-' || (pid && atol(pid) != (long)getpid()))
                return 0;
        return n;
}

void notify_init(struct notify *n)
{
        const char *name = getenv("NOTIFY_SOCKET");

        *n = (struct notify){.fd = -1};
        if (name && *name) {
                n->n = make_address(name, &n->address);
                n->fd = n->n > 0 ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
                if (n->fd < 0)
                        log_warning(
                                "NOTIFY_SOCKET: not a unix socket's address: the service manager is not told that Cloister serves");
                n->watchdog_us = n->fd < 0 ? 0 : watchdog();
        }
        unsetenv("NOTIFY_SOCKET");
        unsetenv("WATCHDOG_USEC");
        unsetenv("WATCHDOG_PID");
}

void notify_done(struct notify *n)
{
        if (n->fd >= 0)
                close(take_fd(n->fd));
}

void notify_send(const struct notify *n, const char *format, ...)
{
        char text[MESSAGE_MAX];
        va_list args;

        if (n->fd < 0)
                return;
        va_start(args, format);
        int length = vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        if (length <= 0 || (size_t)length >= sizeof(text))
                return;
        if (sendto(n->fd, text, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL,
                   (const struct sockaddr *)&n->address, n->n) < 0)
                log_debug("NOTIFY_SOCKET: %s", strerror(errno));
}
