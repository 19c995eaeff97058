/*
 * The processes that a procfs shows, one after the other.
 *
 * The directory is read a few entries at a time: the kernel looks for the next process then, so that
 * none slips through which is the child of one that has just ended.
 */
#include "supervisor/monitor/process/process-cursor.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { PATH_SIZE = 80 };

struct process_cursor process_cursor_open(int proc, const char *path)
{
        return (struct process_cursor){
                .fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
}

void process_cursor_close(struct process_cursor *c)
{
        if (c->fd >= 0)
                close(c->fd);
}

long process_cursor_next(struct process_cursor *c)
{
        for (;;) {
                if (c->at == c->n) {
                        long n = syscall(SYS_getdents64, c->fd, c->buffer, sizeof(c->buffer));
                        if (n <= 0)
                                return 0;
                        c->at = 0;
                        c->n = (size_t)n;
                }
                const struct dirent64 *entry = (const void *)(c->buffer + c->at);
                c->at += entry->d_reclen;
                if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
                        return strtol(entry->d_name, NULL, 10);
        }
}

bool process_read(int proc, const char *process, const char *name, char text[PROCESS_TEXT_SIZE])
{
        char path[PATH_SIZE];

        snprintf(path, sizeof(path), "%s/%s", process, name);
        _cleanup_close_ int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, PROCESS_TEXT_SIZE - 1);
        if (n < 0)
                return false;
        text[n] = '\0';
        return true;
}
