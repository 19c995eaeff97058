/* The host's Node as a part of an image. */
#include "rootfs/node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "rootfs/interpreter.h"
#include "rootfs/process.h"

enum { ANSWER_MAX = 2 * PATH_MAX, ASK_MS = 20 * 1000 };

static const char remedy[] =
        "install Node 20 or later, or name one with \"nodejs\" in the config (image build: --node)";

/* Files of Debian's package besides the program. */
static const char *const shared[] = {
        "/usr/share/nodejs/acorn",
        "/usr/share/nodejs/acorn-walk",
        "/usr/share/nodejs/cjs-module-lexer",
        "/usr/share/nodejs/undici",
        "/usr/share/nodejs/minimatch",
};

static int run(const char *node, struct buffer *answer, struct error *err)
{
        static const char script[] = "console.log(process.version); console.log(process.execPath)";
        const char *const argv[] = {node, "-e", script, NULL};
        _cleanup_buffer_ struct buffer errors = BUFFER_INIT(ANSWER_MAX);
        struct process process;
        int status = 0;

        int r = process_start(argv, &process, err);
        if (r >= 0)
                r = process_finish(&process, ASK_MS, answer, &errors, &status, err);
        if (r < 0)
                return error_context(err, "%s", node);
        if (status == 0)
                return buffer_append(answer, "", 1);
        const char *why = buffer_append(&errors, "", 1) < 0 ? NULL : process_last_line(&errors);
        return error_set(err, ENOEXEC, "%s does not run as Node (%s): %s", node,
                         why && *why ? why : "it printed no error", remedy);
}

static int check(const char *node, const struct node *n, struct error *err)
{
        char loader[PATH_MAX];

        if (atoi(n->version) < NODE_MAJOR_MIN)
                return error_set(err, ENOTSUP, "%s is Node %s, which is too old: %s", node,
                                 n->version, remedy);
        _cleanup_close_ int fd = open(n->real, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return error_errno(err, errno, "%s", n->real);
        if (link_read_loader(fd, loader) < 0)
                return error_set(err, ENOEXEC, "%s is not a dynamically linked 64-bit program: %s",
                                 n->real, remedy);
        return 0;
}

int node_ask(const char *node, struct node *ret, struct error *err)
{
        _cleanup_buffer_ struct buffer answer = BUFFER_INIT(ANSWER_MAX);
        char *rest = NULL;

        if (access(node, X_OK) < 0)
                return error_set(err, errno, "%s: %s: %s", node, strerror(errno), remedy);
        int r = run(node, &answer, err);
        if (r < 0)
                return r;
        const char *version = strtok_r(buffer_bytes(&answer), "\n", &rest),
                   *path = version ? strtok_r(NULL, "\n", &rest) : NULL;
        if (!path || *version != 'v' || !path_is_clean(path) || strlen(path) >= sizeof(ret->real) ||
            strlen(version) > sizeof(ret->version))
                return error_set(err, ENOEXEC, "%s does not run as Node: %s", node, remedy);
        snprintf(ret->real, sizeof(ret->real), "%s", path);
        snprintf(ret->version, sizeof(ret->version), "%s", version + 1);
        return check(node, ret, err);
}

/* Its files, at the path of the host, and a link from a directory in which require() searches. Its own packages are not needed. */
static int plan_pyodide(struct plan *plan, const char *folder, struct error *err)
{
        static const char place[] = "/usr/local/lib/node_modules/pyodide";
        static const char *const names[] = {
                "package.json",     "pyodide.mjs",       "pyodide.asm.mjs",  "pyodide.asm.js",
                "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json"};
        _cleanup_free_ char *real = realpath(folder, NULL);
        char path[PATH_MAX];
        int r = real ? 0 : error_errno(err, errno, "Pyodide: %s", folder);

        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(names); i++) {
                /* The glue code has one of the two names, by version. */
                bool either = strncmp(names[i], "pyodide.asm.", 12) == 0 &&
                              strcmp(names[i], "pyodide.asm.wasm") != 0;
                if (snprintf(path, sizeof(path), "%s/%s", real, names[i]) >= PATH_MAX)
                        return error_errno(err, ENAMETOOLONG, "Pyodide: %s", folder);
                if (either && access(path, F_OK) < 0)
                        continue;
                r = plan_path(plan, path, PLAN_REQUIRED, NULL, err);
        }
        if (r >= 0 && strcmp(real, place) != 0)
                r = plan_link(plan, place, real, err);
        return r;
}

int node_plan(struct plan *plan, const struct node *node, struct error *err)
{
        static const char name[] = "/usr/local/bin/node";
        static const char *const roots[] = {"/usr/share/nodejs", NULL};
        const struct plan_tree_rules rules = {.roots = roots};

        int r = plan_path(plan, node->real, PLAN_REQUIRED | PLAN_LINKED, NULL, err);
        if (r >= 0 && strcmp(node->real, name) != 0)
                r = plan_link(plan, name, node->real, err);
        for (size_t i = 0; i < ARRAY_SIZE(shared) && r >= 0; i++) {
                if (strcmp(node->real, "/usr/bin/node") == 0 && access(shared[i], R_OK | X_OK) == 0)
                        r = plan_tree(plan, shared[i], &rules, err);
        }
        if (r >= 0 && node->pyodide)
                r = plan_pyodide(plan, node->pyodide, err);
        return r < 0 ? error_context(err, "Node") : 0;
}
