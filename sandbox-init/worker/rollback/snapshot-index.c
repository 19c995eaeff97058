/* Finds a snapshot's names and inodes, and opens them. */
#include "sandbox-init/worker/rollback/snapshot-index.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { ENTRIES_SIZE = 32 * 1024 };

/* getdents64(2) */
struct entry {
        uint64_t number;
        int64_t next;
        uint16_t length;
        uint8_t type;
        char name[];
};

static uint32_t slot_of(uint64_t hash)
{
        return (uint32_t)(hash * 0x9e3779b97f4a7c15 >> 48) % SNAPSHOT_SLOTS;
}

static uint32_t name_slot(uint32_t directory, const char *text)
{
        uint64_t hash = 0xcbf29ce484222325 ^ directory;

        for (; *text; text++)
                hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
        return slot_of(hash);
}

/* At most half of the slots are in use, so that each search ends. */
static uint32_t *free_slot(uint32_t *slots, uint32_t at)
{
        while (slots[at] != 0)
                at = (at + 1) % SNAPSHOT_SLOTS;
        return &slots[at];
}

void snapshot_index_name(struct snapshot *s, uint32_t i)
{
        const struct snapshot_name *name = snapshot_name(s, i);

        *free_slot(s->by_name, name_slot(name->directory, snapshot_text(s, name->text))) = i + 1;
}

void snapshot_index_inode(struct snapshot *s, uint32_t i)
{
        *free_slot(s->by_number, slot_of(snapshot_inode(s, i)->number)) = i + 1;
}

uint32_t snapshot_find_name(const struct snapshot *s, uint32_t directory, const char *text)
{
        for (uint32_t at = name_slot(directory, text); s->by_name[at] != 0;
             at = (at + 1) % SNAPSHOT_SLOTS) {
                const struct snapshot_name *name = snapshot_name(s, s->by_name[at] - 1);
                if (name->directory == directory && strcmp(snapshot_text(s, name->text), text) == 0)
                        return s->by_name[at] - 1;
        }
        return SNAPSHOT_NONE;
}

uint32_t snapshot_find_inode(const struct snapshot *s, uint64_t number, uint32_t mode)
{
        for (uint32_t at = slot_of(number); s->by_number[at] != 0; at = (at + 1) % SNAPSHOT_SLOTS) {
                const struct snapshot_inode *inode = snapshot_inode(s, s->by_number[at] - 1);
                if (inode->number == number && (inode->mode & S_IFMT) == (mode & S_IFMT))
                        return s->by_number[at] - 1;
        }
        return SNAPSHOT_NONE;
}

static int open_step(int directory, const char *name)
{
        return (int)raw_call(SYS_openat, directory, raw_pointer(name),
                             O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0);
}

int snapshot_open_directory(const struct snapshot *s, uint32_t inode)
{
        uint32_t steps[SNAPSHOT_DEPTH_MAX + 1];
        int n = 0;

        while (inode != 0) {
                uint32_t name = snapshot_inode(s, inode)->name;
                if (n > SNAPSHOT_DEPTH_MAX)
                        return -ELOOP;
                steps[n++] = name;
                inode = snapshot_name(s, name)->directory;
        }
        int fd = open_step(AT_FDCWD, s->root);
        while (fd >= 0 && n-- > 0) {
                int next = open_step(fd, snapshot_text(s, snapshot_name(s, steps[n])->text));
                snapshot_close(fd);
                fd = next;
        }
        return fd;
}

int snapshot_set_mode(const struct snapshot *s, uint32_t i, uint32_t mode)
{
        if (i == SNAPSHOT_NONE)
                return (int)raw_call(SYS_fchmodat, AT_FDCWD, raw_pointer(s->root), mode & 07777, 0,
                                     0, 0);
        const struct snapshot_name *name = snapshot_name(s, i);
        int fd = snapshot_open_directory(s, name->directory);
        if (fd < 0)
                return fd;
        long r = raw_call(SYS_fchmodat, fd, raw_pointer(snapshot_text(s, name->text)), mode & 07777,
                          0, 0, 0);
        snapshot_close(fd);
        return (int)r;
}

static bool is_dots(const char *name)
{
        return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int snapshot_each(int directory, int (*visit)(void *data, int directory, const char *name),
                  void *data)
{
        static char entries[ENTRIES_SIZE] __attribute__((aligned(8)));
        long n;

        while ((n = raw_call(SYS_getdents64, directory, raw_pointer(entries), sizeof(entries), 0, 0,
                             0)) > 0) {
                for (long at = 0; at < n;) {
                        const struct entry *entry = (const void *)(entries + at);
                        at += entry->length;
                        int r = is_dots(entry->name) ? 0 : visit(data, directory, entry->name);
                        if (r != 0)
                                return r;
                }
        }
        return (int)n;
}

void snapshot_fd_path(int fd, char to[32])
{
        snprintf(to, 32, "/proc/self/fd/%d", fd);
}
