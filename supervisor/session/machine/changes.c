/* Reads the list of changed files. */
#include "supervisor/session/machine/changes.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "rpc/file-changes.h"

enum { BYTES_MAX = 64 * 1024 /* what a pipe holds */ };

static const char *change_name(uint32_t change)
{
        static const char *const names[] = {
                [FILE_NEW] = "new", [FILE_CHANGED] = "changed", [FILE_DELETED] = "deleted"};
        static_assert(ARRAY_SIZE(names) == FILE_CHANGE_MAX, "a name for each");

        return names[change];
}

static const char *limit_text(uint32_t limit)
{
        static const char *const texts[] = {
                [FILE_CHANGES_NUMBER] = "/workspace has more than 20,000 files and directories",
                [FILE_CHANGES_NAMES] = "the names of all files in /workspace are too long",
                [FILE_CHANGES_DEPTH] = "directories in /workspace are nested more than 64 deep",
                [FILE_CHANGES_TIME] = "looking at all files in /workspace took too long",
                [FILE_CHANGES_AGAIN] = "the files before could not be looked at",
        };
        static_assert(ARRAY_SIZE(texts) == FILE_CHANGES_LIMIT_MAX, "a text for each");

        return texts[limit];
}

/* NULL: a regular file. */
static const char *type_name(uint16_t type)
{
        return type == DT_REG    ? NULL
               : type == DT_DIR  ? "directory"
               : type == DT_LNK  ? "link"
               : type == DT_FIFO ? "fifo"
               : type == DT_SOCK ? "socket"
                                 : "other";
}

static void put_file(struct json_out *out, const struct file_changes_entry *entry, const char *path)
{
        const char *type = type_name(entry->type);

        json_out_begin(out, NULL, '{');
        json_out_string(out, "path", path, entry->length);
        json_out_text(out, "change", change_name(entry->change));
        if (type)
                json_out_text(out, "type", type);
        else
                json_out_int(out, "size", (int64_t)entry->size);
        json_out_end(out, '}');
}

/* Returns negative errno if the bytes have another form. A list that is too long is cut: the numbers stay. */
static int read_changes(struct receipt_files *files, const char *bytes, size_t n)
{
        struct json_out out = {.to = &files->list};
        struct file_changes_reader reader;
        struct file_changes_entry entry;
        const char *path;
        int r;

        buffer_init(&files->list, RECEIPT_FILES_MAX);
        file_changes_read(&reader, bytes, n);
        json_out_begin(&out, NULL, '[');
        while ((r = file_changes_next(&reader, &entry, &path)) > 0) {
                struct json_out before = out;
                size_t length = files->list.length;
                put_file(&out, &entry, path);
                if (out.error < 0 || files->list.length == RECEIPT_FILES_MAX) {
                        files->list.length = length;
                        out = before;
                }
        }
        json_out_end(&out, ']');
        if (r < 0 || out.error < 0)
                return r < 0 ? r : out.error;
        if (files->list.length == strlen("[]"))
                buffer_done(&files->list);
        files->unknown = limit_text(reader.sum.limit);
        files->unreadable = reader.sum.unreadable;
        memcpy(files->number, reader.sum.number, sizeof(files->number));
        return 0;
}

int changes_take(int fd, struct receipts *receipts, uint64_t to)
{
        char bytes[BYTES_MAX] _uninitialized_;
        struct receipt_files files = {};

        ssize_t n = read(fd, bytes, sizeof(bytes));
        if (n <= 0)
                return 0; /* init did not scan: it would have taken long */
        int r = read_changes(&files, bytes, (size_t)n);
        if (r >= 0)
                receipts_note_files(receipts, to, &files);
        buffer_done(&files.list);
        return r;
}
