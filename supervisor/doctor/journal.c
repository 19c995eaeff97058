/* Rows about the journal. */
#include "supervisor/doctor/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/places.h"

enum { TAIL_BYTES = 2048 };

/* The number of the newest file of heads; 0: there is none. */
static unsigned long newest(int directory)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(directory, ".");
        struct dirent *entry;
        unsigned long most = 0;

        while (stream && (entry = fd_next_entry(stream))) {
                char *end;
                unsigned long number = strtoul(entry->d_name, &end, 10);
                if (strcmp(end, ".heads") == 0 && number > most)
                        most = number;
        }
        return most;
}

static void describe_line(const char *line, size_t n, char *to, size_t size)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        int64_t number = 0;

        if (json_parse_bounded(line, n, 64, &doc, NULL) < 0)
                return;
        yyjson_val *root = yyjson_doc_get_root(doc);
        const char *t = json_string(root, "t", NULL);
        json_int64(yyjson_obj_get(root, "n"), &number);
        if (t)
                snprintf(to, size, "the last head is of %.30s (record %lld)", t, (long long)number);
}

/* The last whole line of the file. */
static void describe_last(int directory, unsigned long number, char *to, size_t size)
{
        char name[40], bytes[TAIL_BYTES];
        struct stat st;

        snprintf(name, sizeof(name), "%lu.heads", number);
        _cleanup_close_ int fd = openat(directory, name,
                                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return;
        off_t from = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
        ssize_t n = pread(fd, bytes, sizeof(bytes), from);
        while (n > 0 && bytes[n - 1] != '\n')
                n--;
        if (n <= 1)
                return;
        const char *before = memrchr(bytes, '\n', (size_t)n - 1);
        const char *line = before ? before + 1 : bytes;
        describe_line(line, (size_t)(bytes + n - line), to, size);
}

void doctor_check_journal(struct doctor *d, const struct config *config)
{
        char path[PATH_MAX], text[120] = "no head is written yet";
        bool has_place = place_state("journal", path, sizeof(path)) >= 0;

        _cleanup_close_ int directory = has_place ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
                                                                       O_CLOEXEC)
                                                  : -1;
        int code = errno;
        if (directory >= 0)
                describe_last(directory, newest(directory), text, sizeof(text));
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *p = &config->profiles[i];
                if (!p->journal.is_set)
                        continue;
                if (directory >= 0 || (has_place && code == ENOENT))
                        doctor_add(d, "journal", DOCTOR_EFFECTIVE, false, NULL,
                                   "profile \"%s\": %s", p->name, text);
                else
                        doctor_add(d, "journal", DOCTOR_DEGRADED, false,
                                   "a directory of yours with mode 0700", "profile \"%s\": %s: %s",
                                   p->name, has_place ? path : PLACE_STATE_MISSING,
                                   has_place ? strerror(code) : "no calls are sent");
        }
}
