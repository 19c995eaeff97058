/*
 * Changes in a session's /workspace since the last scan, from its init to the broker, over a
 * pipe that only these two have. A scan is a run of messages; each is written whole or not at all
 * (pipe(7), PIPE_BUF). The first has the numbers, the others have more entries.
 *
 *     struct file_changes_message, then n times: struct file_changes_entry, its path
 *
 * Paths are relative to /workspace, of any bytes but 0, and not terminated. The code chooses them.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        FILE_CHANGES_MESSAGE_MAX = 4096, /* bytes */
        FILE_CHANGES_MESSAGES_MAX = 12,  /* of a look */
        FILE_CHANGES_PATH_MAX = 1024,    /* bytes; a longer path counts, but is not listed */
        FILE_CHANGES_FILES_MAX = 20000,  /* files and directories that are looked at */
};

/* Why nothing is known; the next look has nothing to compare with either. */
enum file_changes_limit {
        FILE_CHANGES_WHOLE,
        FILE_CHANGES_NUMBER, /* more than FILE_CHANGES_FILES_MAX */
        FILE_CHANGES_NAMES,  /* all paths together are too long */
        FILE_CHANGES_DEPTH,
        FILE_CHANGES_TIME,
        FILE_CHANGES_AGAIN, /* the look before had no result: this one is compared with none */
        FILE_CHANGES_LIMIT_MAX,
};

enum file_change { FILE_NEW, FILE_CHANGED, FILE_DELETED, FILE_CHANGE_MAX };

struct file_changes_message {
        uint32_t is_more; /* 1: more entries of the scan before; all members except n are 0 */
        uint32_t limit;   /* enum file_changes_limit */
        uint32_t number[FILE_CHANGE_MAX]; /* of all changes */
        uint32_t unreadable; /* directories that code has made unreadable. Their contents were not
                                scanned, and number[FILE_DELETED] is 0 */
        uint32_t n;          /* entries that follow */
};
static_assert(sizeof(struct file_changes_message) == 28, "crosses a process boundary");

struct file_changes_entry {
        uint64_t size;   /* bytes; of FILE_DELETED: that it had */
        uint32_t change; /* enum file_change */
        uint16_t type;   /* as the d_type of readdir(3) */
        uint16_t length; /* of the path, from 1 on */
};
static_assert(sizeof(struct file_changes_entry) == 16, "crosses a process boundary");

/* A place in the bytes of one or several looks. */
struct file_changes_reader {
        const char *next, *end;
        bool is_begun;
        struct file_changes_message
                sum; /* of the looks so far: numbers are added; n: entries that are left
                                            of the message that is being read */
};

void file_changes_read(struct file_changes_reader *reader, const char *bytes, size_t n);

/* Returns 1 and the next entry with its path (not terminated), 0 after the last, or -EBADMSG. */
int file_changes_next(struct file_changes_reader *reader, struct file_changes_entry *entry,
                      const char **path);
