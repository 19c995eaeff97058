/* Lists the contents of an image made from a host's CPython. */
#include "rootfs/contents.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "rootfs/process.h"

enum {
        AT_ONCE = 8,
        LIST_MAX = 60 * 1024, /* fits a pipe, so that the loader does not block before it is read */
        LIST_MS = 20 * 1000,
};

/* Left out: what needs a display, installs from the network, or tests the interpreter. */
static const char *const standard_without[] = {
        "test",
        "*/test",
        "*/tests",
        "idlelib",
        "turtledemo",
        "tkinter",
        "config-*",
        "site-packages",
        "dist-packages",
        "ensurepip/_bundled",
        "_tkinter*.so",
        "_test*.so",
        "lib-dynload/_tkinter*.so",
        "lib-dynload/_test*.so",
        NULL,
};

static const char *const zoneinfo_without[] = {"posix", "right", "localtime", NULL};

/* Programs that scripts expect. One that the host lacks is left out; only sh is required. */
static const char *const programs[] = {
        "awk",      "basename", "cat",   "chmod",  "cmp",   "cp",        "cut",   "date",
        "diff",     "dirname",  "du",    "echo",   "env",   "expr",      "false", "find",
        "grep",     "gunzip",   "gzip",  "head",   "id",    "ln",        "ls",    "md5sum",
        "mkdir",    "mktemp",   "mv",    "nproc",  "od",    "printf",    "pwd",   "readlink",
        "realpath", "rm",       "rmdir", "sed",    "seq",   "sha256sum", "sleep", "sort",
        "stat",     "tail",     "tar",   "tee",    "test",  "touch",     "tr",    "true",
        "uname",    "uniq",     "wc",    "whoami", "xargs",
};

static const struct {
        const char *path, *text;
} texts[] = {
        {"/etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n"
                        "agent:x:1000:1000:agent:/workspace:/bin/sh\n"
                        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
        {"/etc/group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"},
        {"/etc/hosts", "127.0.0.1 localhost cloister\n::1 localhost\n"},
        {"/etc/hostname", "cloister\n"},
        {"/etc/host.conf", "multi on\n"},
        {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\n"
                               "protocols: files\n"},
        {"/etc/resolv.conf", "# No network.\n"},
        {"/etc/timezone", "Etc/UTC\n"},
};

/* For hosts without /etc/mime.types; the mimetypes module has its own list. */
static const char mime_types[] = "application/json json\n"
                                 "application/pdf pdf\n"
                                 "application/zip zip\n"
                                 "image/jpeg jpeg jpg\n"
                                 "image/png png\n"
                                 "image/svg+xml svg\n"
                                 "text/css css\n"
                                 "text/csv csv\n"
                                 "text/html html htm\n"
                                 "text/markdown md\n"
                                 "text/plain txt\n";

/* Adds a path if the host has it. */
static int optional(struct plan *plan, const char *path, unsigned flags, struct error *err)
{
        int r = plan_path(plan, path, flags, NULL, err);
        return r == -ENOENT ? 0 : r;
}

static int plan_base(struct plan *plan, struct error *err)
{
        static const char *const merged[] = {"bin", "sbin", "lib", "lib64"};
        static const char *const directories[] = {
                "/proc", "/dev",     "/tmp",     "/workspace", "/run",
                "/etc",  "/usr/bin", "/usr/lib", "/var/tmp",
        };
        char path[64], target[64];
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(directories) && r >= 0; i++)
                r = plan_directory(plan, directories[i], err);
        /* As on the host if it has a merged /usr or another layout (/usr/lib64 -> lib), else
         * merged. */
        for (size_t i = 0; i < ARRAY_SIZE(merged) && r >= 0; i++) {
                snprintf(path, sizeof(path), "/%s", merged[i]);
                snprintf(target, sizeof(target), "/usr/%s", merged[i]);
                r = optional(plan, target, 0, err);
                char real[PATH_MAX];
                if (r >= 0 && realpath(path, real) && strcmp(real, path) != 0)
                        r = optional(plan, path, 0, err);
                else if (r >= 0 && (r = plan_directory(plan, target, err)) >= 0)
                        r = plan_link(plan, path, target + 1, err);
        }
        return r;
}

/* The machine's CA certificates, for sessions that have a network; where programs of Debian look for them. */
static int plan_certificates(struct plan *plan, struct error *err)
{
        static const char usual[] = "/etc/ssl/certs/ca-certificates.crt";
        static const char *const others[] = {"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                                             "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

        if (access(usual, R_OK) == 0)
                return optional(plan, usual, 0, err);
        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                if (access(others[i], R_OK) < 0)
                        continue;
                int r = optional(plan, others[i], 0, err);
                return r < 0 ? r : plan_link(plan, usual, others[i], err);
        }
        return 0;
}

static int plan_etc(struct plan *plan, struct error *err)
{
        static const char *const copied[] = {"/etc/mime.types", "/etc/services", "/etc/protocols"};
        int r = plan_link(plan, "/etc/localtime", "../usr/share/zoneinfo/Etc/UTC", err);

        for (size_t i = 0; i < ARRAY_SIZE(texts) && r >= 0; i++)
                r = plan_text(plan, texts[i].path, texts[i].text, false, err);
        for (size_t i = 0; i < ARRAY_SIZE(copied) && r >= 0; i++)
                r = optional(plan, copied[i], 0, err);
        if (r >= 0)
                r = plan_certificates(plan, err);
        if (r >= 0)
                r = plan_text(plan, "/etc/mime.types", mime_types, false, err);
        return r < 0 ? r : 0;
}

static int plan_programs(struct plan *plan, struct error *err)
{
        char path[64];
        int r = plan_path(plan, "/bin/sh", PLAN_REQUIRED | PLAN_LINKED, NULL, err);

        for (size_t i = 0; i < ARRAY_SIZE(programs) && r >= 0; i++) {
                snprintf(path, sizeof(path), "/usr/bin/%s", programs[i]);
                if (access(path, X_OK) < 0)
                        snprintf(path, sizeof(path), "/bin/%s", programs[i]);
                r = optional(plan, path, PLAN_LINKED, err);
        }
        return r < 0 ? r : 0;
}

static int plan_data(struct plan *plan, struct error *err)
{
        static const char *const roots[] = {"/usr/share/zoneinfo", "/usr/lib/locale", NULL};
        static const char *const locales[] = {"/usr/lib/locale/C.utf8", "/usr/lib/locale/C.UTF-8"};
        struct plan_tree_rules rules = {.roots = roots};
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(locales) && r >= 0; i++)
                if (access(locales[i], R_OK | X_OK) == 0)
                        r = plan_tree(plan, locales[i], &rules, err);
        rules.without = zoneinfo_without;
        if (r >= 0 && access("/usr/share/zoneinfo", R_OK | X_OK) == 0)
                r = plan_tree(plan, "/usr/share/zoneinfo", &rules, err);
        return r;
}

static int plan_trees(struct plan *plan, yyjson_val *paths, const struct plan_tree_rules *rules,
                      struct error *err)
{
        yyjson_val *path;
        size_t i, n;
        int r = 0;

        yyjson_arr_foreach (paths, i, n, path) {
                if (r >= 0 && yyjson_is_str(path))
                        r = plan_tree(plan, yyjson_get_str(path), rules, err);
        }
        return r;
}

/* Links may point into the trees of the interpreter and of the distribution only, so that a package
 * with a link to /etc/shadow or to a home does not copy that into the image. On Debian the standard
 * library has links to /etc/python3.11. */
static int plan_modules(struct plan *plan, const struct interpreter *in,
                        const struct contents_layer *layer, struct error *err)
{
        char settings[64];
        const char *const standard_roots[] = {in->base_prefix, "/usr/lib", "/usr/share", settings,
                                              NULL};
        const char *const package_roots[] = {in->prefix, in->base_prefix, "/usr/lib", "/usr/share",
                                             NULL};
        struct plan_tree_rules rules = {
                .without = standard_without,
                .roots = standard_roots,
                .cache_tag = in->cache_tag,
                .magic = in->magic,
        };

        snprintf(settings, sizeof(settings), "/etc/python%.*s",
                 (int)(strrchr(in->version, '.') - in->version), in->version);
        int r = plan_trees(plan, in->standard, &rules, err);
        rules.without = layer->replaced;
        rules.roots = package_roots;
        if (r >= 0)
                r = plan_trees(plan, in->packages, &rules, err);
        return r < 0 || !layer->directory ? r : plan_directory(plan, in->place, err);
}

/* python and python3 in PATH (/usr/local/bin:/usr/bin:/bin). A link is not enough for a venv, which
 * the interpreter recognizes by the path that was executed. */
static int plan_names(struct plan *plan, const struct interpreter *in, struct error *err)
{
        static const char *const names[] = {"python3", "python"};
        char path[64], wrapper[PATH_MAX + 64];
        int r = 0;

        snprintf(wrapper, sizeof(wrapper), "#!/bin/sh\nexec '%s' \"$@\"\n", in->executable);
        for (size_t i = 0; i < ARRAY_SIZE(names) && r >= 0; i++) {
                snprintf(path, sizeof(path), "/usr/%sbin/%s", in->venv ? "local/" : "", names[i]);
                r = in->venv ? plan_text(plan, path, wrapper, true, err)
                             : plan_link(plan, path, in->executable, err);
        }
        return r;
}

static int plan_interpreter(struct plan *plan, const struct interpreter *in, struct error *err)
{
        char path[PATH_MAX];

        if (strchr(in->executable, '\''))
                return error_set(err, EINVAL, "%s: a quote in an interpreter's path",
                                 in->executable);
        int r = plan_path(plan, in->executable, PLAN_REQUIRED | PLAN_LINKED, NULL, err);
        if (r >= 0)
                r = plan_path(plan, in->real, PLAN_REQUIRED | PLAN_LINKED, NULL, err);
        if (r >= 0 && in->link == TEMPLATE_LINK_EMBED)
                r = plan_path(plan, in->libpython, PLAN_REQUIRED | PLAN_LINKED, NULL, err);
        if (r >= 0 && in->venv) {
                snprintf(path, sizeof(path), "%s/pyvenv.cfg", in->prefix);
                r = plan_path(plan, path, PLAN_REQUIRED, NULL, err);
        }
        return r < 0 ? r : plan_names(plan, in, err);
}

/* ---- shared libraries ---- */

/*
 * Runs the dynamic loader (`ld.so --list FILE`) to find the libraries that each program and
 * extension module needs: it handles RPATH, $ORIGIN, the cache and hardware variants. Several run
 * in parallel.
 */
int libraries_loader(const char *program, char **ret, struct error *err)
{
        char loader[PATH_MAX] = "";
        _cleanup_close_ int fd = open(program, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return error_errno(err, errno, "%s", program);
        int r = link_read_loader(fd, loader);
        if (r < 0)
                return error_set(
                        err, -r,
                        "%s is not a dynamically linked 64-bit program: name another interpreter with --python",
                        program);
        if (!(*ret = strdup(loader)))
                return error_errno(err, ENOMEM, "%s", program);
        return 0;
}

/* One line of `ld.so --list`: "\tNAME => PATH (0xADDRESS)" or "\tPATH (0xADDRESS)". Returns the
 * path, or NULL for the vdso and for a library that is not found. */
static char *path_of(char *line)
{
        char *arrow = strstr(line, " => ");
        char *path = arrow ? arrow + 4 : line + strspn(line, " \t");
        char *address = strstr(path, " (0x");

        if (path[0] != '/' || !address)
                return NULL;
        *address = '\0';
        return path;
}

static int add_listed(struct plan *plan, struct buffer *list, struct error *err)
{
        char *rest = NULL;

        int r = buffer_append(list, "", 1);
        if (r < 0)
                return error_errno(err, -r, "list of libraries");
        for (char *line = strtok_r(buffer_bytes(list), "\n", &rest); line && r >= 0;
             line = strtok_r(NULL, "\n", &rest)) {
                const char *path = path_of(line);
                if (path)
                        r = plan_path(plan, path, PLAN_REQUIRED, NULL, err);
        }
        return r < 0 ? r : 0;
}

/* Listings that run in parallel. */
struct batch {
        struct process processes[AT_ONCE];
        size_t n;
};

static int batch_finish(struct batch *batch, struct plan *plan, struct error *err)
{
        int result = 0, status;

        for (size_t i = 0; i < batch->n; i++) {
                _cleanup_buffer_ struct buffer list = BUFFER_INIT(LIST_MAX);
                int r = process_finish(&batch->processes[i], LIST_MS, &list, NULL, &status,
                                       result < 0 ? NULL : err);
                if (r >= 0 && result >= 0)
                        r = add_listed(plan, &list, err);
                if (r < 0 && result >= 0)
                        result = r;
        }
        batch->n = 0;
        return result;
}

static int batch_add(struct batch *batch, struct plan *plan, const char *const argv[],
                     struct error *err)
{
        if (batch->n == AT_ONCE) {
                int r = batch_finish(batch, plan, err);
                if (r < 0)
                        return r;
        }
        int r = process_start(argv, &batch->processes[batch->n], err);
        if (r >= 0)
                batch->n++;
        return r;
}

static bool is_among_libraries(const char *path, const struct interpreter *in)
{
        char own[PATH_MAX];
        const char *const places[] = {
                "/usr/lib/",         "/usr/lib64/", "/usr/local/lib/", "/lib/",
                "/usr/local/lib64/", "/lib64/",     "/nix/store/",     own};

        snprintf(own, sizeof(own), "%s/lib/", in->base_prefix);
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                if (strncmp(path, places[i], strlen(places[i])) == 0)
                        return true;
        }
        return false;
}

int contents_plan_library(struct plan *plan, const struct interpreter *in, const char *path,
                          struct error *err)
{
        char real[PATH_MAX];
        struct stat st;

        if (!path_is_clean(path) || !is_among_libraries(path, in) || !realpath(path, real) ||
            !is_among_libraries(real, in) || stat(real, &st) < 0 || !S_ISREG(st.st_mode) ||
            !(st.st_mode & S_IROTH))
                return 0;
        int r = plan_path(plan, path, 0, NULL, err);
        return r == -ENOENT ? 0 : r;
}

/* A process in a sandbox, which reads the packages, has listed them. */
static int plan_of_layer(struct plan *plan, const struct interpreter *in, yyjson_val *libraries,
                         struct error *err)
{
        yyjson_val *item;
        size_t i, n;

        yyjson_arr_foreach (libraries, i, n, item) {
                const char *path = yyjson_get_str(item);
                int r = path ? contents_plan_library(plan, in, path, err) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Adds to the plan the loader, all that its linked entries need, and what glibc loads at run time
 * (libgcc_s for pthread_exit). program is any program that this loader can list. A library that the
 * host lacks is left out: what needs it fails on the host too. */
static int add_libraries(struct plan *plan, const char *loader, const char *program,
                         struct error *err)
{
        /* Names without a slash: the loader searches for them, and skips missing ones. Wheels expect those of
         * the manylinux policies (PEP 600), which the interpreter may not need. */
        static const char usual[] =
                "libgcc_s.so.1 libnss_files.so.2 libstdc++.so.6 libm.so.6 libpthread.so.0 libdl.so.2 "
                "librt.so.1 libutil.so.1 libresolv.so.2 libz.so.1 libexpat.so.1";
        const char *const own[] = {loader, "--preload", usual, "--list", program, NULL};
        struct batch batch = {};

        int r = plan_path(plan, loader, PLAN_REQUIRED, NULL, err);
        if (r >= 0)
                r = batch_add(&batch, plan, own, err);
        /* A library found during the search is not linked itself: a listing holds all that its file needs.
         */
        for (size_t i = 0, n = plan->n; i < n && r >= 0; i++) {
                const char *const argv[] = {loader, "--list", plan->entries[i].path, NULL};
                if (plan->entries[i].linked)
                        r = batch_add(&batch, plan, argv, err);
        }
        int finished = batch_finish(&batch, plan, r < 0 ? NULL : err);
        r = r < 0 ? r : finished;
        return r < 0 ? error_context(err, "shared libraries") : 0;
}

/* ---- all ---- */

int contents_plan(struct plan *plan, const struct interpreter *in,
                  const struct contents_layer *layer, struct error *err)
{
        _cleanup_free_ char *loader = NULL;
        int r;

        if ((r = libraries_loader(in->real, &loader, err)) < 0 || (r = plan_base(plan, err)) < 0 ||
            (r = plan_interpreter(plan, in, err)) < 0 ||
            (r = plan_modules(plan, in, layer, err)) < 0 || (r = plan_programs(plan, err)) < 0 ||
            (layer->node && (r = node_plan(plan, layer->node, err)) < 0) ||
            (r = plan_etc(plan, err)) < 0 || (r = plan_data(plan, err)) < 0)
                return r;
        r = add_libraries(plan, loader, in->real, err);
        return r < 0 ? r : plan_of_layer(plan, in, layer->libraries, err);
}

int contents_plan_settings(struct plan *plan, struct error *err)
{
        static const char *const points[] = {"/proc", "/dev",       "/sys", "/tmp",
                                             "/run",  "/workspace", "/etc"};
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(points) && r >= 0; i++)
                r = plan_directory(plan, points[i], err);
        for (size_t i = 0; i < ARRAY_SIZE(texts) && r >= 0; i++)
                r = plan_text(plan, texts[i].path, texts[i].text, false, err);
        return r;
}
