/* Counts processes and threads, and reads the list of changed files. */
#include "supervisor/session/machine/tasks.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/file-changes.h"

enum {
        LAST_OF_OURS = 2, /* init and the worker */
        FIRST_AGAIN = 300,
        LONG_CELL_US = 2000,
        PAUSE_US = 20000,      /* between two readings after short cells */
        GIVE_UP_US = 1000000,  /* an answer may be missing: its session was frozen */
        BYTES_MAX = 64 * 1024, /* what a pipe holds */
};

void tasks_open(struct session *s, int changes_fd)
{
        s->tasks = (struct session_tasks){.last = LAST_OF_OURS, .changes_fd = changes_fd};
}

void tasks_close(struct session *s)
{
        if (s->tasks.changes_fd >= 0)
                close(s->tasks.changes_fd);
        s->tasks.changes_fd = -1;
}

/* For an answer, which may be missing: see GIVE_UP_US. */
static bool waits(const struct session *s)
{
        return s->tasks.is_asked && clock_us() - s->tasks.asked_us < GIVE_UP_US;
}

static void ask(struct session *s, uint64_t cell, bool scans)
{
        struct session_tasks *t = &s->tasks;

        if (s->single ||
            sandbox_request(&s->context->requests, MONITOR_SESSION_COUNT, s->target, scans) < 0)
                return;
        t->is_asked = true;
        t->asked_us = clock_us();
        t->asked_for = cell;
}

void tasks_note_cell(struct session *s, const struct cell *cell)
{
        struct session_tasks *t = &s->tasks;
        uint64_t now = clock_us();

        if (s->state == SESSION_NONE) {
                if (t->is_over)
                        receipts_count(&s->receipts, t->from, cell->number, t->uncounted,
                                       t->is_wrapped);
                return;
        }
        bool is_due = cell->outcome.duration_us >= LONG_CELL_US || now - t->asked_us >= PAUSE_US;
        if (!waits(s) && is_due)
                ask(s, cell->number, false);
}

void tasks_note_load(struct session *s, const struct cell *load)
{
        if (session_is_usable(s))
                ask(s, load->number, true);
}

bool tasks_scan_is_due(const struct session *s)
{
        return s->tasks.changes_fd >= 0 && !s->single && s->history.n_run > 0 &&
               s->tasks.scanned_after != s->queue.last_number;
}

/* One answer at a time: it is for the cell that was named last. */
static void scan_if_wanted(struct session *s)
{
        if (!s->tasks.is_scan_wanted || waits(s))
                return;
        s->tasks.is_scan_wanted = false;
        if (!session_current(s) && receipts_lack_files(&s->receipts))
                ask(s, s->queue.last_number, true);
}

void tasks_scan(struct session *s)
{
        s->tasks.scanned_after = s->queue.last_number;
        s->tasks.is_scan_wanted = true;
        scan_if_wanted(s);
}

static void take(struct session *s, uint32_t last, uint32_t own)
{
        struct session_tasks *t = &s->tasks;
        uint64_t made = last - t->last;

        if (last == 0)
                return;
        if (last < t->last) {
                made = last > FIRST_AGAIN ? last - FIRST_AGAIN : 0;
                t->is_wrapped = true;
        }
        made -= made < own ? made : own;
        t->last = last;
        t->is_known = true;
        t->total += made;
        t->uncounted += made;
}

/* ---- files that have changed: the bytes could be those of a hostile template, and code chooses the names ---- */

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

/* Reads what init has written, for the receipts of the cells up to this one. -EBADMSG or -ENOMEM: it is not of the
 * agreed form. */
static int read_report(int fd, struct receipts *receipts, uint64_t to)
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

static void take_changes(struct session *s)
{
        const struct log_ids ids = session_log_ids(s, NULL);
        struct session_tasks *t = &s->tasks;

        if (t->changes_fd < 0 || read_report(t->changes_fd, &s->receipts, t->asked_for) >= 0)
                return;
        log_event(
                LOG_LEVEL_WARNING, &ids,
                "files that changed are not reported any more: the sandbox's report has another form");
        tasks_close(s);
}

/* ---- the answers ---- */

void tasks_counted(struct session *s, const struct monitor_counted *counted, bool is_copying,
                   bool of_block)
{
        struct session_tasks *t = &s->tasks;

        if (s->meter.sampled.now == 0 && counted->memory > 0)
                meter_sample(&s->meter, counted->memory);
        uint64_t to = counted->own > 0 ? s->queue.last_number : t->asked_for;
        if (counted->own == 0) {
                t->is_asked = false;
                take_changes(s);
                scan_if_wanted(s);
        }
        /* The count that comes with the copy has those of the code too. */
        if (counted->own == 0 && is_copying)
                return;
        take(s, counted->last_pid, counted->own);
        if (counted->own > 0 && of_block)
                return;
        if (counted->last_pid != 0)
                t->known_for = to;
        if (!t->is_known || !receipts_count(&s->receipts, 0, to, t->uncounted, t->is_wrapped))
                return;
        t->uncounted = 0;
        t->is_wrapped = false;
}

bool tasks_may_be_left(struct session *s, bool was_asked)
{
        const struct session_tasks *t = &s->tasks;

        if (t->total > 0 || t->known_for == s->queue.last_number)
                return t->total > 0;
        if (!waits(s))
                ask(s, s->queue.last_number, false);
        return was_asked;
}

void tasks_end(struct session *s, const struct monitor_ended *ended)
{
        take(s, ended->last_pid, 0);
        s->tasks.from = receipts_uncounted(&s->receipts, UINT64_MAX);
        s->tasks.is_over = ended->last_pid != 0;
}
