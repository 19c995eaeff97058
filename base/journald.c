/* The socket of journald, and the rate of entries. */
#include "base/journald.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define SOCKET_PATH "/run/systemd/journal/socket"

enum {
        BURST = 5000, /* entries; journald itself takes 10,000 of a service in 30 s (journald.conf(5)) */
        EVERY_US = 1000, /* one more */
        FD_FIRST = 1000, /* out of the way of those that a child expects its own descriptors at */
};

bool journald_has_stderr(void)
{
        const char *name = getenv("JOURNAL_STREAM");
        unsigned long long device, inode;
        struct stat st;
        char extra;

        return name && sscanf(name, "%llu:%llu%c", &device, &inode, &extra) == 2 &&
               fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

int journald_open(struct error *err)
{
        static const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SOCKET_PATH};
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return error_errno(err, errno, "connect to journald at " SOCKET_PATH);
        int high = fcntl(fd, F_DUPFD_CLOEXEC, FD_FIRST);
        return high < 0 ? error_errno(err, errno, "the socket of journald") : high;
}

bool journald_allows(bool is_event)
{
        /* The time until which entries are written ahead of their rate. */
        static uint64_t until_us[2];
        uint64_t now = clock_us(), *until = &until_us[is_event];

        if (*until > now + (uint64_t)(BURST - 1) * EVERY_US)
                return false;
        *until = (*until > now ? *until : now) + EVERY_US;
        return true;
}
