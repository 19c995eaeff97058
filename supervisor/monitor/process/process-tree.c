/* Descendants of a process, from the kernel's lists of children. */
#include "supervisor/monitor/process/process-tree.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/monitor/process/process-memory.h"

enum { TREE_MAX = 128, TEXT_SIZE = 4096 };

/* Returns the length of the file, which may be cut. */
static size_t read_text(const char *path, char text[TEXT_SIZE])
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : fd_read_full(fd, text, TEXT_SIZE - 1);

        text[n < 0 ? 0 : n] = '\0';
        return n < 0 ? 0 : (size_t)n;
}

size_t process_children(pid_t of, pid_t *pids, size_t n, size_t most)
{
        char path[64], text[TEXT_SIZE], *end;
        long tid;

        snprintf(path, sizeof(path), "/proc/%d/task", of);
        struct process_cursor threads = process_cursor_open(AT_FDCWD, path);
        while (n < most && (tid = process_cursor_next(&threads)) > 0) {
                snprintf(path, sizeof(path), "/proc/%d/task/%ld/children", of, tid);
                read_text(path, text);
                for (char *at = text; n < most; at = end) {
                        pid_t pid = (pid_t)strtol(at, &end, 10);
                        if (end == at)
                                break;
                        pids[n++] = pid;
                }
        }
        process_cursor_close(&threads);
        return n;
}

uint64_t process_tree_memory(pid_t root)
{
        pid_t pids[TREE_MAX] = {root};
        uint64_t pages = 0;

        for (size_t i = 0, n = 1; i < n; i++) {
                char path[32], text[TEXT_SIZE];
                uint64_t resident = 0;
                snprintf(path, sizeof(path), "/proc/%d/statm", pids[i]);
                read_text(path, text);
                if (sscanf(text, "%*u %" SCNu64, &resident) == 1)
                        pages += resident;
                n = process_children(pids[i], pids, n, TREE_MAX);
        }
        return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
