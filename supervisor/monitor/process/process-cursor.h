/* The processes that a procfs shows, one after the other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The longest name is thread-self: an entry or two at a time. */
enum { PROCESS_CURSOR_BYTES = 64 };

struct process_cursor {
        int fd;
        size_t at, n;
        char buffer[PROCESS_CURSOR_BYTES];
};

/* path: "." for processes, "PID/task" for threads. If it cannot be read, there are none. */
struct process_cursor process_cursor_open(int proc, const char *path);
void process_cursor_close(struct process_cursor *cursor);
/* The next one in the order of pids; 0: there is none. */
long process_cursor_next(struct process_cursor *cursor);

/* The text of a file of a process, with '\0' at its end. False: the process has ended. */
enum { PROCESS_TEXT_SIZE = 4096 };
bool process_read(int proc, const char *process, const char *name, char text[PROCESS_TEXT_SIZE]);
