/* The table of options, and the command lines of the internal programs. */
#include "supervisor/options/options.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "policy/quantity.h"

enum {
        MONITOR = PROGRAM_MONITOR,
        BROKER = PROGRAM_BROKER,
        DOCTOR = PROGRAM_DOCTOR,
        OAUTH = PROGRAM_OAUTH,
        JOURNAL = PROGRAM_JOURNAL,
};

/* Arguments of these macros are initializers and members, which take no parentheses. */
/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define AT(member)     .offset = offsetof(struct options, member)
#define LENGTH(member) (sizeof(((struct options *)0)->member) / sizeof(void *))
const struct option option_rows[OPTION_IDS] = {
#define USER(id, k, member, l, n, a, p, t)                                                         \
        [OPTION_ID_##id] = {.kind = OPTION_##k,                                                    \
                            .is_user = true,                                                       \
                            .letter = l,                                                           \
                            .name = n,                                                             \
                            .argument = a,                                                         \
                            .programs = p,                                                         \
                            .text = t,                                                             \
                            AT(member)},
#define USER_LIST(id, member, c, l, n, a, p, hint, t)                                              \
        [OPTION_ID_##id] = {.kind = OPTION_LIST,                                                   \
                            .is_user = true,                                                       \
                            .letter = l,                                                           \
                            .name = n,                                                             \
                            .argument = a,                                                         \
                            .programs = p,                                                         \
                            .advice = hint,                                                        \
                            .text = t,                                                             \
                            AT(member),                                                            \
                            .count = offsetof(struct options, c),                                  \
                            .most = LENGTH(member)},
#define INTERNAL(id, k, member, n, p)                                                              \
        [OPTION_ID_##id] = {.kind = OPTION_##k, .name = n, .programs = p, AT(member)},
#include "supervisor/options/options.def"
#undef USER
#undef USER_LIST
#undef INTERNAL
};
/* NOLINTEND(bugprone-macro-parentheses) */
static_assert(OPTION_IDS <= UINT8_MAX, "lists of options have a byte for each");

static const char *const modes[MODE_MAX] = {[MODE_MCP] = "mcp",
                                            [MODE_RUN] = "run",
                                            [MODE_TOOLS] = "tools",
                                            [MODE_SERVE] = "serve",
                                            [MODE_IMAGE_BUILD] = "image-build"};

enum mode options_mode(const char *name)
{
        for (size_t i = 0; name && i < MODE_MAX; i++)
                if (strcmp(modes[i], name) == 0)
                        return (enum mode)i;
        return MODE_MAX;
}

const char *options_mode_name(enum mode mode)
{
        return modes[mode];
}

bool options_have_word(const char *words, const char *word)
{
        for (size_t n; *words; words += n + (words[n] == ' ')) {
                n = strcspn(words, " ");
                if (n == strlen(word) && strncmp(words, word, n) == 0)
                        return true;
        }
        return false;
}

void options_init(struct options *options)
{
        *options = (struct options){.uid = -1};
        for (size_t i = 0; i < OPTION_IDS; i++) {
                const struct option *option = &option_rows[i];
                if (option->kind == OPTION_FD || option->kind == OPTION_NUMBER ||
                    option->kind == OPTION_LOG_LEVEL || option->kind == OPTION_LOG_FORMAT)
                        *(int *)(void *)((char *)options + option->offset) = -1;
        }
}

static int take_number(const char *text, long long least, long long most, long long *ret)
{
        char *end = NULL;

        errno = 0;
        *ret = strtoll(text, &end, 10);
        return end == text || *end != '\0' || errno != 0 || *ret < least || *ret > most ? -EINVAL
                                                                                        : 0;
}

static int take_int(const char *text, int least, int most, int *ret)
{
        long long n = 0;
        int r = take_number(text, least, most, &n);

        *ret = r < 0 ? *ret : (int)n;
        return r;
}

static int take_log(int value, int *ret)
{
        *ret = value < 0 ? *ret : value;
        return value < 0 ? -EINVAL : 0;
}

int option_set(const struct option *option, const char *value, struct options *to)
{
        void *member = (char *)to + option->offset;
        size_t *n = (size_t *)(void *)((char *)to + option->count);
        const char **text = member;
        int *number = member;
        long long large = -1;
        int r = 0;

        switch (option->kind) {
        case OPTION_FLAG:
                *(bool *)member = true;
                return 0;
        case OPTION_ONCE:
                r = *text ? -EEXIST : 0;
                *text = value;
                return r;
        case OPTION_PATH:
                *text = value;
                return value[0] == '/' ? 0 : -EINVAL;
        case OPTION_TEXT:
                *text = value;
                return 0;
        case OPTION_LIST:
                if (*n == option->most)
                        return -E2BIG;
                text[(*n)++] = value;
                return 0;
        case OPTION_TIME:
                return quantity_milliseconds_of(value, member);
        case OPTION_NUMBER:
                return take_int(value, 0, INT_MAX, number);
        case OPTION_FD:
                return take_int(value, OPTION_FD_FIRST, OPTION_FD_END - 1, number);
        case OPTION_FDS:
                if (to->n_listen_fds == OPTION_LISTEN_MAX)
                        return -E2BIG;
                r = take_int(value, OPTION_FD_FIRST, OPTION_FD_END - 1,
                             &to->listen_fds[to->n_listen_fds]);
                to->n_listen_fds += r == 0;
                return r;
        case OPTION_UID:
                r = take_number(value, 0, UINT32_MAX - 1LL, &large);
                to->uid = r < 0 ? to->uid : large;
                return r;
        case OPTION_LOG_LEVEL:
                return take_log(log_level_from_name(value), number);
        case OPTION_LOG_FORMAT:
                return take_log(log_format_from_name(value), number);
        case OPTION_VERBOSE:
                *number = *number >= LOG_LEVEL_INFO ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;
                return 0;
        }
        return -EINVAL;
}

static const struct option *find(const char *word, enum option_program program)
{
        for (size_t i = 0; i < OPTION_IDS; i++)
                if ((option_rows[i].programs & program) && strcmp(option_rows[i].name, word) == 0)
                        return &option_rows[i];
        return NULL;
}

int options_parse(char *const *argv, enum option_program program, struct options *to,
                  struct error *err)
{
        while (*argv) {
                const struct option *option = find(argv[0], program);
                if (!option)
                        return error_set(err, EINVAL, "unknown option '%s'", argv[0]);
                bool alone = option->kind == OPTION_FLAG;
                if (!alone && !argv[1])
                        return error_set(err, EINVAL, "%s needs a value", argv[0]);
                int r = option_set(option, argv[1], to);
                if (r == 0 && option->kind == OPTION_TIME && to->timeout_ms == 0)
                        r = -EINVAL;
                if (r == -E2BIG || r == -EEXIST)
                        return error_set(err, -r, "%s is given too often", argv[0]);
                if (r < 0)
                        return error_set(err, EINVAL, "%s: bad value '%s'", argv[0], argv[1]);
                argv += alone ? 1 : 2;
        }
        return 0;
}

size_t options_fds(const struct options *o, enum option_program program, int ret[OPTION_FDS_MAX])
{
        size_t n = 0;

        for (size_t i = 0; i < OPTION_IDS; i++) {
                const void *member = (const char *)o + option_rows[i].offset;
                if (option_rows[i].kind == OPTION_FD && option_rows[i].programs & program &&
                    *(const int *)member >= 0)
                        ret[n++] = *(const int *)member;
        }
        for (size_t i = 0; i < o->n_listen_fds; i++)
                ret[n++] = o->listen_fds[i];
        return n;
}

static void add(struct command_line *line, const char *word)
{
        assert(line->n < COMMAND_LINE_WORDS_MAX);
        line->words[line->n++] = word;
        line->words[line->n] = NULL;
}

static void add_text(struct command_line *line, const char *option, const char *value)
{
        if (!value)
                return;
        add(line, option);
        add(line, value);
}

static void add_number(struct command_line *line, const char *option, int64_t value,
                       const char *unit)
{
        if (value < 0)
                return;
        assert(line->n_numbers < COMMAND_LINE_NUMBERS_MAX);
        char *text = line->numbers[line->n_numbers++];
        snprintf(text, sizeof(line->numbers[0]), "%lld%s", (long long)value, unit);
        add_text(line, option, text);
}

static void add_option(struct command_line *line, const struct option *option,
                       const struct options *o)
{
        const void *member = (const char *)o + option->offset;
        size_t n = *(const size_t *)(const void *)((const char *)o + option->count);
        const char *const *texts = member;
        const int *number = member;

        switch (option->kind) {
        case OPTION_FLAG:
                if (*(const bool *)member)
                        add(line, option->name);
                break;
        case OPTION_TEXT:
        case OPTION_ONCE:
        case OPTION_PATH:
                add_text(line, option->name, *texts);
                break;
        case OPTION_LIST:
                for (size_t i = 0; i < n; i++)
                        add_text(line, option->name, texts[i]);
                break;
        case OPTION_TIME:
                if (*(const uint32_t *)member > 0)
                        add_number(line, option->name, *(const uint32_t *)member, "ms");
                break;
        case OPTION_NUMBER:
        case OPTION_FD:
                add_number(line, option->name, *number, "");
                break;
        case OPTION_FDS:
                for (size_t i = 0; i < o->n_listen_fds; i++)
                        add_number(line, option->name, o->listen_fds[i], "");
                break;
        case OPTION_UID:
                add_number(line, option->name, o->uid, "");
                break;
        case OPTION_LOG_LEVEL:
                if (*number >= 0)
                        add_text(line, option->name, log_level_name((enum log_level) * number));
                break;
        case OPTION_LOG_FORMAT:
                if (*number >= 0)
                        add_text(line, option->name, log_format_name((enum log_format) * number));
                break;
        case OPTION_VERBOSE:
                break;
        }
}

void command_line_init(struct command_line *line, const char *name, const char *verb,
                       const struct options *options, enum option_program program)
{
        line->n = line->n_numbers = 0;
        add(line, name);
        if (verb)
                add(line, verb);
        for (size_t i = 0; i < OPTION_IDS; i++)
                if (option_rows[i].programs & program)
                        add_option(line, &option_rows[i], options);
}
