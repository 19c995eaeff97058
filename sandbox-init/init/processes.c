#include "sandbox-init/init/processes.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rpc/sandbox-messages.h"
#include "sandbox-init/init/directory.h"

enum { LIST_SIZE = 16 * 1024 };

pid_t processes_last(void)
{
        char text[16];

        if (lseek(INIT_LAST_PID_FD, 0, SEEK_SET) < 0)
                return 0;
        ssize_t n = read(INIT_LAST_PID_FD, text, sizeof(text) - 1);
        if (n <= 0)
                return 0;
        text[n] = '\0';
        return (pid_t)strtol(text, NULL, 10);
}

static bool is_spared(pid_t pid, const pid_t *spared, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (spared[i] == pid)
                        return true;
        }
        return pid <= 1; /* also 0: the name is not a number */
}

size_t processes_kill_others(const pid_t *spared, size_t n)
{
        _Alignas(struct directory_entry) char list[LIST_SIZE];
        size_t found = 0;
        long size;

        if (lseek(INIT_PROC_FD, 0, SEEK_SET) < 0)
                return 1;
        while ((size = syscall(SYS_getdents64, INIT_PROC_FD, list, sizeof(list))) > 0) {
                for (long at = 0; at < size;) {
                        const struct directory_entry *entry = (const void *)(list + at);
                        pid_t pid = (pid_t)strtol(entry->name, NULL, 10);

                        at += entry->length;
                        if (is_spared(pid, spared, n))
                                continue;
                        kill(pid, SIGKILL);
                        found++;
                }
        }
        return size < 0 ? 1 : found;
}
