/* Writes what a restore or a rollback has changed. */
#include "supervisor/session/state/rollback-text.h"

#include <stdio.h>
#include <string.h>

enum {
        NAMES_SHOWN = 5,
        GONE_MAX = 100000,
        REST_SIZE = 48, /* of what follows the names */
};

void rollback_append_gone(yyjson_val *root, char *to, size_t size)
{
        int64_t threads = 0, processes = 0;
        size_t n = strlen(to);

        json_int64(yyjson_obj_get(root, "threads"), &threads);
        json_int64(yyjson_obj_get(root, "processes"), &processes);
        threads = threads < 0 || threads > GONE_MAX ? 0 : threads;
        processes = processes < 0 || processes > GONE_MAX ? 0 : processes;
        if (threads == 0 && processes == 0)
                return;
        char some[64] = "", others[64] = "";
        if (threads > 0)
                snprintf(some, sizeof(some), "%lld thread%s", (long long)threads,
                         threads == 1 ? "" : "s");
        if (processes > 0)
                snprintf(others, sizeof(others), "%lld process%s", (long long)processes,
                         processes == 1 ? "" : "es");
        bool is_one = threads + processes == 1;
        snprintf(to + n, size - n, "; %s%s%s %s gone", some, *some && *others ? " and " : "",
                 others, is_one ? "is" : "are");
}

/* A name of the worker's, fit for one line. */
static bool is_name(yyjson_val *name)
{
        const char *text = yyjson_get_str(name);
        size_t n = yyjson_get_len(name);

        if (!text || n == 0 || n > CELL_PATH_MAX)
                return false;
        for (size_t i = 0; i < n; i++) {
                if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
                        return false;
        }
        return true;
}

void rollback_append_names(yyjson_val *names, int64_t total, char *to, size_t size)
{
        yyjson_arr_iter iter = yyjson_arr_iter_with(names);
        size_t n = strlen(to), shown = 0;
        yyjson_val *name;

        while (shown < NAMES_SHOWN && (name = yyjson_arr_iter_next(&iter))) {
                if (!is_name(name) || n + yyjson_get_len(name) + REST_SIZE > size)
                        continue;
                n += (size_t)snprintf(to + n, size - n, "%s%s", shown++ == 0 ? ": " : ", ",
                                      yyjson_get_str(name));
        }
        if (total > (int64_t)shown)
                snprintf(to + n, size - n, shown == 0 ? ": %lld" : " and %lld more",
                         (long long)total - (long long)shown);
}

void rollback_append_files(yyjson_val *root, char *to, size_t size)
{
        size_t n = strlen(to);
        int64_t total = 0;

        json_int64(yyjson_obj_get(root, "files_total"), &total);
        snprintf(to + n, size - n, "; files stay");
        if (total <= 0 || total > GONE_MAX)
                return;
        rollback_append_names(yyjson_obj_get(root, "files"), total, to, size);
        n = strlen(to);
        snprintf(to + n, size - n, " changed");
}

static int64_t count(yyjson_val *object, const char *name)
{
        int64_t n = 0;

        json_int64(yyjson_obj_get(object, name), &n);
        return n < 0 ? 0 : n;
}

static void append_count(char *to, int64_t n, const char *what, bool *is_first)
{
        size_t used = strlen(to);

        if (n == 0)
                return;
        snprintf(to + used, CELL_WHY_MAX - used, "%s%lld %s", *is_first ? " (" : ", ", (long long)n,
                 what);
        *is_first = false;
}

static void append(char *to, const char *text)
{
        size_t used = strlen(to);

        snprintf(to + used, CELL_WHY_MAX - used, "%s", text);
}

/* "rolled back: variables and /workspace are as before the call (1 changed, 2 new: a.csv, b.csv)" */
void rollback_describe(const char *what, bool has_calls, yyjson_val *root, char to[CELL_WHY_MAX])
{
        yyjson_val *done = yyjson_obj_get(root, "rolled_back");
        int64_t changed = count(done, "changed"), returned = count(done, "returned");
        int64_t removed = count(done, "removed"), failed = count(done, "failed");
        int64_t elsewhere = count(root, "elsewhere"), total = changed + returned + removed;
        bool is_first = true;

        snprintf(to, CELL_WHY_MAX, "rolled back: variables and /workspace are as before the %s",
                 what);
        append_count(to, changed, "changed", &is_first);
        append_count(to, returned, "deleted or renamed", &is_first);
        append_count(to, removed, "new", &is_first);
        if (!is_first) {
                rollback_append_names(yyjson_obj_get(done, "files"), total, to, CELL_WHY_MAX);
                append(to, ")");
        }
        if (!done || failed > 0) {
                append(to, "; but not all files");
                rollback_append_names(yyjson_obj_get(done, "failed_files"), failed, to,
                                      CELL_WHY_MAX);
        }
        rollback_append_gone(root, to, CELL_WHY_MAX);
        if (elsewhere > 0)
                append(to, "; files in /tmp and /dev/shm stay changed");
        if (has_calls)
                append(to, "; tool calls that were sent stay: see sent");
}
