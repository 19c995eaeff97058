/*
 * Runs the dynamic loader (`ld.so --list FILE`) to find the libraries that each program and
 * extension module needs: it handles RPATH, $ORIGIN, the cache and hardware variants. Several run
 * in parallel.
 */
#include "rootfs/libraries.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rootfs/process.h"

enum {
        AT_ONCE = 8,
        LIST_MAX = 60 * 1024, /* fits a pipe, so that the loader does not block before it is read */
        LIST_MS = 20 * 1000,
        LAYER_DEPTH = 32,
};

int libraries_read_loader(int fd, char ret[PATH_MAX])
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

int libraries_loader(const char *program, char **ret, struct error *err)
{
        char loader[PATH_MAX] = "";
        _cleanup_close_ int fd = open(program, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return error_errno(err, errno, "%s", program);
        int r = libraries_read_loader(fd, loader);
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

static int add_listed(struct plan *plan, struct buffer *list, const char *layer, struct error *err)
{
        size_t length = layer ? strlen(layer) : 0;
        char *rest = NULL;

        int r = buffer_append(list, "", 1);
        if (r < 0)
                return error_errno(err, -r, "list of libraries");
        for (char *line = strtok_r(buffer_bytes(list), "\n", &rest); line && r >= 0;
             line = strtok_r(NULL, "\n", &rest)) {
                const char *path = path_of(line);
                if (path && (!layer || strncmp(path, layer, length) != 0))
                        r = plan_path(plan, path, PLAN_REQUIRED, NULL, err);
        }
        return r < 0 ? r : 0;
}

/* Listings that run in parallel. */
struct batch {
        struct process processes[AT_ONCE];
        size_t n;
        const char *layer;
};

static int batch_finish(struct batch *batch, struct plan *plan, struct error *err)
{
        int result = 0, status;

        for (size_t i = 0; i < batch->n; i++) {
                _cleanup_buffer_ struct buffer list = BUFFER_INIT(LIST_MAX);
                int r = process_finish(&batch->processes[i], LIST_MS, &list, NULL, &status,
                                       result < 0 ? NULL : err);
                if (r >= 0 && result >= 0)
                        r = add_listed(plan, &list, batch->layer, err);
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

/* Files below a directory that is not in the plan. */
static int batch_add_layer(struct batch *batch, struct plan *plan, const char *loader,
                           const char *directory, int depth, struct error *err)
{
        DIR *stream = opendir(directory);
        int r = 0;

        if (!stream || depth == LAYER_DEPTH) {
                if (stream)
                        closedir(stream);
                return 0;
        }
        for (struct dirent *d; r >= 0 && (d = readdir(stream));) {
                char path[PATH_MAX + NAME_MAX + 2];
                const char *const argv[] = {loader, "--list", path, NULL};

                snprintf(path, sizeof(path), "%s/%s", directory, d->d_name);
                if (d->d_name[0] == '.' || strlen(path) >= PATH_MAX)
                        continue;
                if (d->d_type == DT_DIR)
                        r = batch_add_layer(batch, plan, loader, path, depth + 1, err);
                else if (d->d_type == DT_REG && strstr(d->d_name, ".so"))
                        r = batch_add(batch, plan, argv, err);
        }
        closedir(stream);
        return r;
}

int libraries_add(struct plan *plan, const char *loader, const char *program, const char *layer,
                  struct error *err)
{
        /* Names without a slash: the loader searches for them, and skips missing ones. Wheels expect those of
         * the manylinux policies (PEP 600), which the interpreter may not need. */
        static const char usual[] =
                "libgcc_s.so.1 libnss_files.so.2 libstdc++.so.6 libm.so.6 libpthread.so.0 libdl.so.2 "
                "librt.so.1 libutil.so.1 libresolv.so.2 libz.so.1 libexpat.so.1";
        const char *const own[] = {loader, "--preload", usual, "--list", program, NULL};
        struct batch batch = {.layer = layer};

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
        if (r >= 0 && layer)
                r = batch_add_layer(&batch, plan, loader, layer, 0, err);
        int finished = batch_finish(&batch, plan, r < 0 ? NULL : err);
        r = r < 0 ? r : finished;
        return r < 0 ? error_context(err, "shared libraries") : 0;
}
