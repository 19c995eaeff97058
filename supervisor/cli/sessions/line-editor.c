/* A prompt's lines. */
#include "supervisor/cli/sessions/line-editor.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/host-file.h"
#include "base/path.h"

/* The interface of libedit.so.2, histedit.h. */
#define LIBRARY "libedit.so.2"
enum {
        EL_PROMPT = 0,
        EL_BIND = 4,
        EL_ADDFN = 9,
        EL_HIST = 10,
        EL_GETCFN = 13,
        EL_PREP_TERM = 16,
        CC_REFRESH = 4,
        CC_REDISPLAY = 8,
        CC_REFRESH_BEEP = 9,
        H_SETSIZE = 1,
        H_ENTER = 10,
        H_LOAD = 17,
        H_SETUNIQUE = 20,
        H_SAVE_FP = 26,
        HISTORY_MAX = 2000,
};

struct EditLine;
struct History;
struct line_info {
        const char *buffer, *cursor, *lastchar;
};
struct history_event {
        int number;
        const char *text;
};

struct library {
        void *handle;
        struct EditLine *(*el_init)(const char *, FILE *, FILE *, FILE *);
        void (*el_end)(struct EditLine *);
        void (*el_reset)(struct EditLine *);
        void (*el_resize)(struct EditLine *);
        int (*el_source)(struct EditLine *, const char *);
        const char *(*el_gets)(struct EditLine *, int *);
        int (*el_set)(struct EditLine *, int, ...);
        const struct line_info *(*el_line)(struct EditLine *);
        int (*el_insertstr)(struct EditLine *, const char *);
        struct History *(*history_init)(void);
        void (*history_end)(struct History *);
        int (*history)(struct History *, struct history_event *, int, ...);
};

struct line_editor {
        struct line_editor_owner owner;
        struct library lib;
        struct EditLine *el; /* NULL: there is no libedit, or no terminal */
        struct History *history;
        char *path;
        const char *prompt;
        const struct line_editor_beside *beside;
        bool is_terminal;
        char pending[4096]; /* of input without libedit */
        size_t n_pending;
        bool ended;
};

/* libedit's callbacks have no argument of ours. */
static struct line_editor *the_editor;

/* ---- completion ---- */

struct completions {
        char *texts[LINE_COMPLETIONS_MAX];
        size_t n;
};

static void add_completion(void *data, const char *text)
{
        struct completions *list = data;

        if (list->n < LINE_COMPLETIONS_MAX && (list->texts[list->n] = strdup(text)))
                list->n++;
}

/* How many bytes all of them begin with; not within a character. */
static size_t common_of(const struct completions *list)
{
        size_t n = list->n > 0 ? strlen(list->texts[0]) : 0;

        for (size_t i = 1; i < list->n; i++) {
                size_t at = 0;
                while (at < n && list->texts[i][at] == list->texts[0][at])
                        at++;
                n = at;
        }
        while (n > 0 && list->n > 0 && ((unsigned char)list->texts[0][n] & 0xc0) == 0x80)
                n--;
        return n;
}

static bool is_of_word(unsigned char c)
{
        return c >= 0x80 || c == '_' || c == '.' || (c >= '0' && c <= '9') ||
               (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t word_before(const struct line_info *line, char to[LINE_WORD_MAX])
{
        const char *at = line->cursor;

        while (at > line->buffer && is_of_word((unsigned char)at[-1]))
                at--;
        size_t n = (size_t)(line->cursor - at);
        if (n >= LINE_WORD_MAX)
                n = 0;
        memcpy(to, at, n);
        to[n] = '\0';
        return n;
}

static void print_all(const struct completions *list)
{
        putchar('\n');
        for (size_t i = 0; i < list->n; i++)
                printf("%s%s", list->texts[i], i + 1 < list->n ? "  " : "\n");
        fflush(stdout);
}

/* Bound to the tab key. */
static unsigned char complete(struct EditLine *el, int key)
{
        struct completions list = {};
        struct line_editor *editor = the_editor;
        char word[LINE_WORD_MAX];
        unsigned char answer = CC_REFRESH_BEEP;

        size_t n = word_before(editor->lib.el_line(el), word);
        if (n == 0)
                return editor->lib.el_insertstr(el, "    ") == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
        editor->owner.complete(editor->owner.data, word, add_completion, &list);
        size_t common = common_of(&list);
        if (common > n) {
                list.texts[0][common] = '\0';
                if (editor->lib.el_insertstr(el, list.texts[0] + n) == 0)
                        answer = CC_REFRESH;
        } else if (list.n > 1) {
                print_all(&list);
                answer = CC_REDISPLAY;
        }
        for (size_t i = 0; i < list.n; i++)
                free(list.texts[i]);
        return answer;
}

/* ---- input ---- */

/* Waits for input or SIGINT, which is blocked otherwise. Returns 0 or negative errno: -EINTR, or what readable() returned. */
static int wait_for_input(struct line_editor *editor)
{
        const struct line_editor_beside *beside = editor->beside;
        struct pollfd p[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = beside ? beside->fd : -1, .events = POLLIN}};
        sigset_t mask;

        sigprocmask(SIG_BLOCK, NULL, &mask);
        sigdelset(&mask, SIGINT);
        for (;;) {
                int r = ppoll(p, ARRAY_SIZE(p), NULL, &mask);
                if (r < 0 && errno != EINTR)
                        return -errno;
                if (editor->owner.was_interrupted(editor->owner.data))
                        return -EINTR;
                if (r > 0 && p[1].revents != 0) {
                        r = beside->readable(beside->data);
                        if (r < 0)
                                return r;
                }
                if (r >= 0 && p[0].revents != 0)
                        return 0;
        }
}

/* One character for libedit, which would try again after a signal. */
static int get_character(struct EditLine *el, wchar_t *to)
{
        mbstate_t state = {};
        char byte;

        for (int i = 0; i < 8; i++) {
                int r = wait_for_input(the_editor);
                if (r < 0) {
                        errno = -r;
                        return -1;
                }
                ssize_t n = read(STDIN_FILENO, &byte, 1);
                if (n <= 0)
                        return (int)n;
                size_t length = mbrtowc(to, &byte, 1, &state);
                if (length == 0 || length == 1)
                        return 1;
                if (length == (size_t)-1)
                        state = (mbstate_t){};
        }
        *to = L'?';
        return 1;
}

static char *prompt_of(struct EditLine *el)
{
        static char prompt[16];

        snprintf(prompt, sizeof(prompt), "%s", the_editor->prompt);
        return prompt;
}

static int read_edited(struct line_editor *editor, char **line)
{
        struct library *lib = &editor->lib;
        struct history_event event;
        int n = 0;

        lib->el_resize(editor->el);
        /* el_gets() would print the prompt first: in a terminal that edits lines itself, a ^D at it
         * would become a zero byte. */
        lib->el_set(editor->el, EL_PREP_TERM, 1);
        errno = 0;
        const char *text = lib->el_gets(editor->el, &n);
        if (!text || n <= 0) {
                int r = n < 0 ? -errno : 0;
                lib->el_reset(editor->el);
                return r;
        }
        size_t length = strlen(text);
        while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
                length--;
        *line = strndup(text, length);
        if (!*line)
                return -ENOMEM;
        if (length > 0)
                lib->history(editor->history, &event, H_ENTER, *line);
        return 1;
}

/* The terminal edits the line itself, or there is none. */
static int read_plain(struct line_editor *editor, char **line)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(16 * 1024 * 1024);

        if (editor->is_terminal) {
                fputs(editor->prompt, stdout);
                fflush(stdout);
        }
        for (;;) {
                char *end = memchr(editor->pending, '\n', editor->n_pending);
                size_t n = end ? (size_t)(end - editor->pending) : editor->n_pending;
                if (buffer_append(&text, editor->pending, n) < 0)
                        return -EMSGSIZE;
                editor->n_pending -= n + (end != NULL);
                memmove(editor->pending, editor->pending + n + (end != NULL), editor->n_pending);
                if (end || (editor->ended && text.length > 0))
                        break;
                if (editor->ended)
                        return 0;
                int r = wait_for_input(editor);
                if (r < 0)
                        return r;
                ssize_t got = read(STDIN_FILENO, editor->pending, sizeof(editor->pending));
                if (got < 0)
                        return -errno;
                editor->n_pending = (size_t)got;
                editor->ended = got == 0;
        }
        *line = strndup(text.length > 0 ? buffer_bytes(&text) : "", text.length);
        return *line ? 1 : -ENOMEM;
}

int line_editor_read(struct line_editor *editor, const char *prompt,
                     const struct line_editor_beside *beside, char **line)
{
        editor->prompt = prompt;
        editor->beside = beside;
        return editor->el ? read_edited(editor, line) : read_plain(editor, line);
}

/* ---- life ---- */

static bool open_library(struct library *lib)
{
        const struct {
                const char *name;
                void **function;
        } names[] = {
                {"el_init", (void **)&lib->el_init},
                {"el_end", (void **)&lib->el_end},
                {"el_reset", (void **)&lib->el_reset},
                {"el_resize", (void **)&lib->el_resize},
                {"el_source", (void **)&lib->el_source},
                {"el_gets", (void **)&lib->el_gets},
                {"el_set", (void **)&lib->el_set},
                {"el_line", (void **)&lib->el_line},
                {"el_insertstr", (void **)&lib->el_insertstr},
                {"history_init", (void **)&lib->history_init},
                {"history_end", (void **)&lib->history_end},
                {"history", (void **)&lib->history},
        };

        lib->handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
        for (size_t i = 0; lib->handle && i < ARRAY_SIZE(names); i++) {
                *names[i].function = dlsym(lib->handle, names[i].name);
                if (!*names[i].function) {
                        dlclose(lib->handle);
                        lib->handle = NULL;
                }
        }
        return lib->handle != NULL;
}

static bool open_editor(struct line_editor *editor)
{
        struct library *lib = &editor->lib;
        struct history_event event;

        setlocale(LC_CTYPE, "C.UTF-8");
        if (!open_library(lib))
                return false;
        editor->history = lib->history_init();
        editor->el = editor->history ? lib->el_init("cloister", stdin, stdout, stderr) : NULL;
        if (!editor->el)
                return false;
        lib->history(editor->history, &event, H_SETSIZE, HISTORY_MAX);
        lib->history(editor->history, &event, H_SETUNIQUE, 1);
        if (editor->path)
                lib->history(editor->history, &event, H_LOAD, editor->path);
        lib->el_set(editor->el, EL_PROMPT, prompt_of);
        lib->el_set(editor->el, EL_HIST, lib->history, editor->history);
        lib->el_set(editor->el, EL_ADDFN, "complete", "complete a name", complete);
        lib->el_source(editor->el, NULL);
        lib->el_set(editor->el, EL_BIND, "^I", "complete", NULL);
        lib->el_set(editor->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
        lib->el_set(editor->el, EL_GETCFN, get_character);
        return true;
}

int line_editor_new(struct line_editor **ret, const char *history,
                    const struct line_editor_owner *owner, struct error *err)
{
        struct line_editor *editor = calloc(1, sizeof(*editor));

        if (!editor || (history && !(editor->path = strdup(history)))) {
                free(editor);
                return error_errno(err, ENOMEM, "the prompt");
        }
        editor->owner = *owner;
        editor->is_terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
        the_editor = editor;
        if (editor->is_terminal && !open_editor(editor))
                fputs("cloister: without libedit (package libedit2) there is neither history nor "
                      "completion\n",
                      stderr);
        *ret = editor;
        return 0;
}

static void save_history(struct line_editor *editor)
{
        struct history_event event;

        if (!editor->path || path_make_parents(editor->path, 0700) < 0)
                return;
        int fd = host_file_open(HOST_FILE_HISTORY, AT_FDCWD, editor->path, NULL);
        FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
        if (file) {
                editor->lib.history(editor->history, &event, H_SAVE_FP, file);
                fclose(file);
        } else if (fd >= 0) {
                close(fd);
        }
}

struct line_editor *line_editor_free(struct line_editor *editor)
{
        if (!editor)
                return NULL;
        if (editor->el) {
                save_history(editor);
                editor->lib.el_end(editor->el);
        }
        if (editor->history)
                editor->lib.history_end(editor->history);
        if (editor->lib.handle)
                dlclose(editor->lib.handle);
        the_editor = NULL;
        free(editor->path);
        free(editor);
        return NULL;
}
