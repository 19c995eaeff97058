/* The commands of `cloister journal`. They only read, and confine themselves to that before the first byte. */
#include "supervisor/journal/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "base/places.h"
#include "supervisor/journal/key.h"
#include "supervisor/journal/segments.h"
#include "supervisor/journal/show.h"
#include "supervisor/journal/verify.h"
#include "supervisor/options/options.h"

enum { KEY_FILE_MAX = 1024, STATUS_WRONG = 1, STATUS_USAGE = 2 };

static int fail(int status, const char *text)
{
        fprintf(stderr, "cloister: journal: %s\n", text);
        return status;
}

/* It reads what a compromised broker may have written. */
static int open_journal(struct error *err)
{
        char path[PATH_MAX];
        struct error hint = {};

        if (place_state("journal", path, sizeof(path)) < 0)
                return error_set(err, ENOENT, PLACE_STATE_MISSING);
        int fd = segments_open(path, false, err);
        if (fd == -ENOENT)
                return error_set(
                        err, ENOENT,
                        "there is none: %s does not exist (\"journal\" in the config makes it)",
                        path);
        if (fd < 0)
                return fd;
        const struct landlock_rule rules[] = {{path, LANDLOCK_READ}};
        int r = capabilities_drop(err);
        if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                r = error_errno(err, errno, "no_new_privs");
        if (r < 0) {
                close(fd);
                return r;
        }
        (void)landlock_confine(rules, ARRAY_SIZE(rules), false, &hint);
        return fd;
}

/* ---- show ---- */

static int show(const struct options *o)
{
        struct show how = {.session = o->session,
                           .tool = o->tool,
                           .kind = o->kind,
                           .in_doubt = o->in_doubt,
                           .json = o->json};
        struct error err = {};

        if (o->kind && !options_have_word(OPTION_KINDS, o->kind))
                return fail(STATUS_USAGE, "--kind: one of " OPTION_KINDS " is needed");
        if (o->since && show_since(o->since, &how) < 0)
                return fail(
                        STATUS_USAGE,
                        "--since: a time ago such as 30m, 2h or 7d, or the beginning of a time such as 2026-01-31T12 is needed");
        _cleanup_close_ int directory = open_journal(&err);
        if (directory < 0 || journal_show(directory, &how, &err) < 0)
                return fail(STATUS_WRONG, err.text);
        return 0;
}

/* ---- verify ---- */

static int read_key(const char *path, char key[JOURNAL_HASH_SIZE], struct error *err)
{
        char text[KEY_FILE_MAX + 1];

        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
                return error_errno(err, errno, "--key: open %s", path);
        ssize_t n = fd_read_full(fd, text, KEY_FILE_MAX);
        if (n < 0)
                return error_errno(err, (int)-n, "--key: read %s", path);
        text[n] = '\0';
        return journal_key_parse(text, key, err) < 0 ? error_context(err, "--key: %s", path) : 0;
}

/* "12,403" */
static void print_count(uint64_t number)
{
        char digits[32];
        int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);

        for (int i = 0; i < n; i++) {
                if (i > 0 && (n - i) % 3 == 0)
                        putchar(',');
                putchar(digits[i]);
        }
}

static int verify(const struct options *o)
{
        struct verify_result result;
        char key[JOURNAL_HASH_SIZE] = "";
        struct error err = {};

        if (o->key && read_key(o->key, key, &err) < 0)
                return fail(STATUS_USAGE, err.text);
        _cleanup_close_ int directory = open_journal(&err);
        if (directory < 0 || journal_verify(directory, *key ? key : NULL, &result, &err) < 0)
                return fail(STATUS_WRONG, err.text);
        printf("ok: ");
        print_count(result.records);
        printf(" records, signed to ");
        print_count(result.signed_records);
        printf("\n");
        return 0;
}

/* ---- key ---- */

static int print_key(const struct options *o)
{
        _cleanup_buffer_ struct buffer pem = BUFFER_INIT(KEY_FILE_MAX);
        char name[JOURNAL_HASH_SIZE];
        struct error err = {};

        _cleanup_close_ int directory = open_journal(&err);
        if (directory < 0 || journal_key_public(directory, name, &err) < 0)
                return fail(STATUS_WRONG, err.text);
        if (journal_key_pem(name, &pem) < 0)
                return fail(STATUS_WRONG, "out of memory");
        printf("%.*s", (int)pem.length, buffer_bytes(&pem));
        return 0;
}

int journal_command(char *const *argv)
{
        static const struct {
                const char *name;
                int (*run)(const struct options *options);
        } commands[] = {{"show", show}, {"verify", verify}, {"key", print_key}};

        struct options options;
        struct error err = {};

        options_init(&options);
        if (argv[0] && options_parse(argv + 1, PROGRAM_JOURNAL, &options, &err) < 0)
                return fail(STATUS_USAGE, err.text);
        for (size_t i = 0; argv[0] && i < ARRAY_SIZE(commands); i++)
                if (strcmp(argv[0], commands[i].name) == 0)
                        return commands[i].run(&options);
        return fail(STATUS_USAGE, "cloister-journal is started by Cloister");
}
