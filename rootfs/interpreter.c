/* Runs the host's interpreter to find its parts. */
#include "rootfs/interpreter.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "policy/image.h"
#include "rootfs/process.h"

enum {
        ANSWER_MAX = 256 * 1024,
        ERRORS_MAX = 8 * 1024,
        ANSWER_MS = 20 * 1000,
        LIBC_MAX = 64 * 1024 * 1024
};

static const char script[] = {
#include "rootfs/interpreter.inc"
};

/* ---- the link ---- */

int link_read_loader(int fd, char ret[PATH_MAX])
{
        Elf64_Ehdr head;
        Elf64_Phdr part;

        if (pread(fd, &head, sizeof(head), 0) != sizeof(head) ||
            memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
            head.e_phentsize != sizeof(part))
                return -ENOEXEC;
        for (unsigned i = 0; i < head.e_phnum; i++) {
                off_t at = (off_t)(head.e_phoff + i * sizeof(part));
                if (pread(fd, &part, sizeof(part), at) != sizeof(part))
                        return -ENOEXEC;
                if (part.p_type != PT_INTERP)
                        continue;
                if (part.p_filesz < 2 || part.p_filesz >= PATH_MAX ||
                    pread(fd, ret, part.p_filesz, (off_t)part.p_offset) != (ssize_t)part.p_filesz)
                        return -ENOEXEC;
                ret[part.p_filesz] = '\0';
                return ret[0] == '/' ? 0 : -ENOEXEC;
        }
        return -ENOEXEC;
}

static bool same_loader(int fd)
{
        char ours[PATH_MAX], theirs[PATH_MAX];
        _cleanup_close_ int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

        return self >= 0 && link_read_loader(self, ours) >= 0 &&
               link_read_loader(fd, theirs) >= 0 && strcmp(ours, theirs) == 0;
}

bool link_loader_is_ours(const char *program)
{
        _cleanup_close_ int fd = open(program, O_RDONLY | O_CLOEXEC);

        return fd >= 0 && same_loader(fd);
}

/* The newest "GLIBC_2.x" that a libc names: a version of symbols that it has. */
static int newest_minor(const char *data, size_t n)
{
        static const char prefix[] = "GLIBC_2.";
        const char *end = data + n;
        int newest = -1;

        while ((data = memmem(data, (size_t)(end - data), prefix, sizeof(prefix) - 1))) {
                int minor = 0;
                for (data += sizeof(prefix) - 1; data < end && *data >= '0' && *data <= '9'; data++)
                        if (minor < 1000)
                                minor = minor * 10 + *data - '0';
                if (minor > newest)
                        newest = minor;
        }
        return newest;
}

/* Returns its x of "2.x", -1 when there is no glibc. */
static int libc_minor(int root)
{
        static const char *const places[] = {
#if defined(__x86_64__)
                "/lib/x86_64-linux-gnu/libc.so.6",
#elif defined(__aarch64__)
                "/lib/aarch64-linux-gnu/libc.so.6",
#endif
                "/lib64/libc.so.6",
                "/usr/lib64/libc.so.6",
                "/lib/libc.so.6",
                "/usr/lib/libc.so.6",
        };

        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                _cleanup_free_ char *data = NULL;
                size_t length = 0;
                _cleanup_close_ int fd = process_open_inside(root, places[i],
                                                             O_RDONLY | O_NONBLOCK);
                if (fd >= 0 && fd_read_whole(fd, LIBC_MAX, &data, &length, NULL) >= 0)
                        return newest_minor(data, length);
        }
        return -1;
}

static bool libc_is_new_enough(int root)
{
        int major = 0, minor = 0;

        return sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor) == 2 && major == 2 &&
               libc_minor(root) >= minor;
}

int link_of_root(int root, const char *python, const char *libpython, enum template_link *ret,
                 struct error *err)
{
        char loader[PATH_MAX];
        _cleanup_close_ int program = process_open_inside(root, python, O_RDONLY | O_NONBLOCK);

        if (program < 0)
                return error_errno(err, -program, "%s of the root file system", python);
        if (link_read_loader(program, loader) < 0)
                return error_set(
                        err, ENOEXEC,
                        "%s of the root file system is not a dynamically linked 64-bit program: an interpreter that can load modules is needed",
                        python);
        bool embed = libpython && *libpython && same_loader(program) && libc_is_new_enough(root);
        _cleanup_close_ int library = embed ? process_open_inside(root, libpython,
                                                                  O_RDONLY | O_NONBLOCK)
                                            : -1;
        *ret = library >= 0 ? TEMPLATE_LINK_EMBED : TEMPLATE_LINK_MODULE;
        return 0;
}

/* ---- the answer ---- */

/* A shim (pyenv, asdf) selects another interpreter in each directory; an image must not depend on
 * that. */
static int check_file(const char *python, struct error *err)
{
        char magic[4] = {};
        _cleanup_close_ int fd = open(python, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

        if (fd < 0)
                return error_errno(err, errno, "%s", python);
        if (read(fd, magic, sizeof(magic)) == sizeof(magic) && memcmp(magic, "\177ELF", 4) == 0)
                return 0;
        if (magic[0] == '#' && magic[1] == '!')
                return error_set(
                        err, ENOEXEC,
                        "%s is a script: name the interpreter itself with --python (`pyenv which python3` shows it)",
                        python);
        return error_set(err, ENOEXEC, "%s is not a program: name a CPython with --python", python);
}

/* root: NULL for the host's interpreter. */
static int ask(const char *root, const char *python, struct buffer *answer, struct error *err)
{
        /* -B: a new .pyc in site-packages would look like an installed package. */
        const char *const argv[] = {python, "-I", "-B", "-c", script, NULL};
        _cleanup_buffer_ struct buffer errors = BUFFER_INIT(ERRORS_MAX + 1);
        struct process process;
        int status = 0;

        int r = root ? process_start_confined(root, argv, &process, err)
                     : process_start(argv, &process, err);
        if (r >= 0)
                r = process_finish(&process, ANSWER_MS, answer, &errors, &status, err);
        if (r < 0)
                return error_context(err, "%s", python);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
                const char *why = process_last_line(&errors);
                return error_set(err, ENOEXEC, "%s does not run as CPython 3.9 or later: %.200s",
                                 python, why && *why ? why : "it failed without a word");
        }
        return 0;
}

static const char *text(const struct interpreter *i, const char *key)
{
        const char *value = json_string(yyjson_doc_get_root(i->answer), key, NULL);
        return value ? value : "";
}

static int check_kind(const struct interpreter *i, struct error *err)
{
        int major = 0, minor = 0;

        if (strcmp(text(i, "implementation"), "cpython") != 0)
                return error_set(err, ENOTSUP,
                                 "%s is %s, not CPython: name another interpreter with --python",
                                 i->asked, text(i, "implementation"));
        if (sscanf(i->version, "%d.%d", &major, &minor) != 2)
                return error_set(err, EBADMSG, "%s did not report its version", i->asked);
        if (major != 3 || minor < 9)
                return error_set(
                        err, ENOTSUP,
                        "%s is Python %s, 3.9 or later is needed: name another interpreter with --python",
                        i->asked, i->version);
        if (strchr(text(i, "abiflags"), 't'))
                return error_set(
                        err, ENOTSUP,
                        "%s is a free-threaded build, whose ABI Cloister does not support: name an ordinary one with --python",
                        i->asked);
        return 0;
}

/* Checks that it can be embedded, if that was requested. */
static int check_libpython(const struct interpreter *i, struct error *err)
{
        const char *theirs = text(i, "libpython_version"), *ours = text(i, "full_version");
        int length = (int)(strrchr(i->version, '.') - i->version);

        if (!*i->libpython && (strcmp(i->base_prefix, "/usr") == 0))
                return error_set(
                        err, ENOENT,
                        "%s (%s) has no %s beside it: install libpython%.*s (apt install libpython%.*s), or leave out --link embed",
                        i->asked, i->version, text(i, "libpython_name"), length, i->version, length,
                        i->version);
        if (!*i->libpython)
                return error_set(
                        err, ENOENT,
                        "%s (%s) has no %s below %s: it was built without --enable-shared; leave out --link embed",
                        i->asked, i->version, text(i, "libpython_name"), i->base_prefix);
        if (*theirs && strcmp(theirs, ours) != 0)
                return error_set(
                        err, EINVAL,
                        "%s is Python %s but %s is %s: bring both to one version, or leave out --link embed",
                        i->asked, ours, i->libpython, theirs);
        return 0;
}

/* Whether the interpreter itself uses libpython. A libpython beside a statically linked
 * interpreter, as on Debian, is built with other options: code runs slower in it by a quarter or
 * more. */
static bool runs_libpython(const struct interpreter *i)
{
        return yyjson_get_bool(yyjson_obj_get(yyjson_doc_get_root(i->answer), "libpython_runs"));
}

/* Prefers embedding if it is possible. */
static int choose_link(struct interpreter *i, int wanted, struct error *err)
{
        const char *theirs = text(i, "libpython_version"), *ours = text(i, "full_version");

        i->libpython = text(i, "libpython");
        i->link = TEMPLATE_LINK_EMBED;
        if (wanted == TEMPLATE_LINK_EMBED)
                return check_libpython(i, err);
        if (wanted == TEMPLATE_LINK_MODULE || !*i->libpython || !runs_libpython(i) ||
            (*theirs && strcmp(theirs, ours) != 0) || !link_loader_is_ours(i->real)) {
                i->link = TEMPLATE_LINK_MODULE;
                i->libpython = "";
        }
        return 0;
}

/* Paths in image.json must be absolute and must not be too long. */
static int check_paths(const struct interpreter *i, struct error *err)
{
        const char *const paths[] = {i->executable,
                                     i->real,
                                     i->prefix,
                                     i->base_prefix,
                                     *i->libpython ? i->libpython : "/",
                                     i->place};

        for (size_t k = 0; k < ARRAY_SIZE(paths); k++) {
                if (paths[k][0] != '/')
                        return error_set(err, EBADMSG, "%s reports a part of it at \"%s\"",
                                         i->asked, paths[k]);
                if (strlen(paths[k]) >= sizeof(((struct image_info *)0)->python))
                        return error_set(err, ENAMETOOLONG, "%s: the path is too long", paths[k]);
        }
        return 0;
}

static int take_answer(struct interpreter *i, struct error *err)
{
        yyjson_val *root = yyjson_doc_get_root(i->answer);
        int64_t magic = 0;

        i->version = text(i, "version");
        int r = check_kind(i, err);
        if (r < 0)
                return r;
        i->prefix = text(i, "prefix");
        i->base_prefix = text(i, "base_prefix");
        i->venv = strcmp(i->prefix, i->base_prefix) != 0;
        i->real = text(i, "real");
        i->executable = i->venv ? text(i, "executable") : i->real;
        i->place = text(i, "place");
        i->cache_tag = text(i, "cache_tag");
        i->standard = yyjson_obj_get(root, "standard");
        i->packages = yyjson_obj_get(root, "packages");
        i->others = yyjson_obj_get(root, "others");
        if (json_int64(yyjson_obj_get(root, "magic"), &magic) >= 0)
                i->magic = (uint32_t)magic;
        return 0;
}

static int parse_answer(struct interpreter *i, struct buffer *answer, struct error *err)
{
        const char *line = process_last_line(answer);

        if (!line || json_parse(line, strlen(line), &i->answer, NULL) < 0)
                return error_set(err, EBADMSG, "%s printed unexpected output: \"%.100s\"", i->asked,
                                 line ? line : "");
        return take_answer(i, err);
}

int interpreter_ask(const char *python, int link, struct interpreter *ret, struct error *err)
{
        _cleanup_buffer_ struct buffer answer = BUFFER_INIT(ANSWER_MAX);
        _cleanup_interpreter_ struct interpreter i = {.asked = python};

        int r = check_file(python, err);
        if (r < 0 || (r = ask(NULL, python, &answer, err)) < 0)
                return r;
        if ((r = parse_answer(&i, &answer, err)) < 0 || (r = choose_link(&i, link, err)) < 0 ||
            (r = check_paths(&i, err)) < 0)
                return r;
        *ret = i;
        i.answer = NULL;
        return 0;
}

int interpreter_ask_inside(const char *path, int root, const char *python, int link,
                           struct interpreter *ret, struct error *err)
{
        _cleanup_buffer_ struct buffer answer = BUFFER_INIT(ANSWER_MAX);
        _cleanup_interpreter_ struct interpreter i = {.asked = python};

        int r = ask(path, python, &answer, err);
        if (r < 0 || (r = parse_answer(&i, &answer, err)) < 0)
                return r;
        i.libpython = link == TEMPLATE_LINK_EMBED || runs_libpython(&i) ? text(&i, "libpython")
                                                                        : "";
        if (link == INTERPRETER_LINK_LAUNCHED)
                i.link = TEMPLATE_LINK_MODULE;
        else
                r = link_of_root(root, i.real, i.libpython, &i.link, err);
        if (r < 0)
                return r;
        if (i.link == TEMPLATE_LINK_MODULE)
                i.libpython = "";
        if ((r = check_paths(&i, err)) < 0)
                return r;
        *ret = i;
        i.answer = NULL;
        return 0;
}

void interpreter_done(struct interpreter *interpreter)
{
        yyjson_doc_free(interpreter->answer);
        interpreter->answer = NULL;
}
