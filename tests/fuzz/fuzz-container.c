/*
 * Container images. The first byte is the kind of the rest:
 *
 *   L  layers, the second after "\n--\n": unpacked and put over each other in a directory
 *   A  an archive of blobs; @A below is the architecture of this machine
 *   O  config, manifest and index of an OCI layout, separated by "\n--\n"; @0 and @1 are replaced by digest and size of the config and
 *      the manifest, which would otherwise never be right
 *   D  the same of a docker-archive: config, manifest.json
 *
 * Accepted when the layers are unpacked, the archive has an image, or the manifest is read. The unpacked tree has only modes and kinds of
 * files that an image may have, and nothing beside it has changed.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rootfs/oci/layer.h"
#include "rootfs/oci/manifest.h"
#include "rootfs/oci/merge.h"
#include "rootfs/oci/tree.h"
#include "tests/fuzz/fuzz.h"

enum { PARTS = 3, BYTES_MAX = 1 << 20, PART_MAX = 70000 };

static const char between[] = "\n--\n";
static char folder[64];
static int place = -1;
static struct hash *hash;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
        return remove(path);
}

static void remove_all(void)
{
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        hash_free(hash);
}

static void make_place(void)
{
        umask(022);
        snprintf(folder, sizeof(folder), "/dev/shm/fuzz-container-XXXXXX");
        assert(mkdtemp(folder));
        atexit(remove_all);
        place = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        hash = hash_new();
        assert(place >= 0 && hash && mkdirat(place, "outside", 0755) == 0);
}

static void put(int directory, const char *name, const void *data, size_t n)
{
        _cleanup_close_ int fd = openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                                        0644);

        assert(fd >= 0 && fd_write_all(fd, data, n) == 0);
}

/* The next part of the input. */
static const char *next_part(const char **rest, size_t *left, size_t *n)
{
        const char *part = *rest, *end = memmem(part, *left, between, sizeof(between) - 1);

        *n = end ? (size_t)(end - part) : *left;
        size_t used = *n + (end ? sizeof(between) - 1 : 0);
        *rest += used;
        *left -= used;
        return part;
}

/* ---- layers ---- */

static int check_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
        mode_t mode = st->st_mode & 07777;
        const char *name = path + at->base;

        assert(S_ISLNK(st->st_mode) || mode == 0755 || mode == 0644);
        assert(S_ISLNK(st->st_mode) || S_ISDIR(st->st_mode) || S_ISREG(st->st_mode));
        assert(!S_ISREG(st->st_mode) || st->st_nlink == 1);
        assert(strncmp(name, WHITEOUT_PREFIX, strlen(WHITEOUT_PREFIX)) != 0);
        return 0;
}

static int unpack_one(const char *data, size_t n, struct budget *budget, int root)
{
        _cleanup_stream_ struct stream *stream = NULL;
        struct error err = {};
        uint64_t left_out = 0;

        put(place, "blob", data, n);
        _cleanup_close_ int fd = openat(place, "blob", O_RDONLY | O_CLOEXEC);
        struct blob blob = {.fd = fd, .size = n};
        int r = stream_open(&blob, budget, &stream, &err);
        if (r < 0) {
                assert(error_is_set(&err));
                return r;
        }
        assert(mkdirat(place, "layer", 0700) == 0);
        _cleanup_close_ int directory = openat(place, "layer", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct tree own = TREE_INIT(directory);
        const struct tree below = TREE_INIT(root);
        const struct layer layer = {.tree = &own,
                                    .below = &below,
                                    .budget = budget,
                                    .readers = S_IRGRP | S_IROTH,
                                    .left_out = &left_out};
        r = layer_unpack(&layer, stream, &err);
        tree_done(&own);
        if (r >= 0)
                r = merge_layer(directory, root, &err);
        assert(r >= 0 || error_is_set(&err));
        assert(r < 0 || unlinkat(place, "layer", AT_REMOVEDIR) == 0);
        return r;
}

static bool unpack_layers(const char *data, size_t n)
{
        struct budget budget = {.bytes_max = BYTES_MAX};
        struct merge_totals totals;
        struct error err = {};
        char path[80];
        int r = 0;

        tree_remove(place, "root");
        tree_remove(place, "layer");
        assert(mkdirat(place, "root", 0755) == 0);
        _cleanup_close_ int root = openat(place, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; i < PARTS && r >= 0 && (i == 0 || n > 0); i++) {
                size_t length;
                const char *part = next_part(&data, &n, &length);
                r = unpack_one(part, length, &budget, root);
        }
        if (r >= 0)
                r = merge_finish(root, &totals, &err);
        if (r >= 0) {
                snprintf(path, sizeof(path), "%s/root", folder);
                assert(nftw(path, check_one, 16, FTW_PHYS) == 0);
                assert(totals.bytes <= BYTES_MAX);
        }
        /* Fails if it has an entry. */
        assert(unlinkat(place, "outside", AT_REMOVEDIR) == 0 &&
               mkdirat(place, "outside", 0755) == 0);
        return r >= 0;
}

/* ---- manifests ---- */

static bool read_manifest(const char *path)
{
        struct budget budget = {.bytes_max = BYTES_MAX};
        _cleanup_source_ struct source *source = NULL;
        struct manifest manifest;
        struct error err = {};

        int r = source_open(path, place, &budget, &source, &err);
        if (r >= 0)
                r = manifest_read(source, "", hash, &manifest, &err);
        assert(r >= 0 || error_is_set(&err));
        if (r < 0)
                return false;
        assert(manifest.n > 0 && manifest.layers && manifest.workdir);
        manifest_done(&manifest);
        return true;
}

static bool read_archive(const char *data, size_t n)
{
        struct budget budget = {.bytes_max = BYTES_MAX};
        _cleanup_source_ struct source *source = NULL;
        char path[80];

        put(place, "archive", data, n);
        snprintf(path, sizeof(path), "%s/archive", folder);
        tree_remove(place, "archive.tar");
        read_manifest(path);
        tree_remove(place, "archive.tar");
        return source_open(path, place, &budget, &source, NULL) >= 0 &&
               (source_has(source, "index.json") || source_has(source, "manifest.json"));
}

/* Copies a part with @N replaced. Returns its length. */
static size_t expand(const char *part, size_t n, char values[PARTS][160], int known,
                     char ret[PART_MAX])
{
        size_t length = 0;

        for (size_t i = 0; i < n && length + 160 < PART_MAX; i++) {
                int number = part[i] == '@' && i + 1 < n ? part[i + 1] - '0' : -1;
                if (number == 'A' - '0') {
                        length += (size_t)sprintf(ret + length, "%s", manifest_architecture());
                        i++;
                } else if (number >= 0 && number < known) {
                        length += (size_t)sprintf(ret + length, "%s", values[number]);
                        i++;
                } else {
                        ret[length++] = part[i];
                }
        }
        return length;
}

static bool read_parts(const char *data, size_t n, bool is_docker)
{
        _cleanup_free_ char *text = malloc(PART_MAX);
        char values[PARTS][160], path[100], hex[DIGEST_HEX + 1];
        int last = is_docker ? 1 : 2;

        tree_remove(place, "layout");
        assert(text && mkdirat(place, "layout", 0755) == 0 &&
               mkdirat(place, "layout/blobs", 0755) == 0 &&
               mkdirat(place, "layout/blobs/sha256", 0755) == 0);
        for (int i = 0; i <= last; i++) {
                struct digest digest;
                size_t length;
                const char *part = next_part(&data, &n, &length);
                length = expand(part, length, values, i, text);
                if (i == last) {
                        put(place, is_docker ? "layout/manifest.json" : "layout/index.json", text,
                            length);
                        break;
                }
                assert(hash_begin(hash) == 0 && hash_add(hash, text, length) == 0 &&
                       hash_end(hash, &digest) == 0);
                digest_hex(&digest, hex);
                snprintf(path, sizeof(path), "layout/blobs/sha256/%s", hex);
                put(place, path, text, length);
                snprintf(values[i], sizeof(values[i]),
                         is_docker ? "blobs/sha256/%s" : "\"digest\":\"sha256:%s\",\"size\":%zu",
                         hex, length);
        }
        snprintf(path, sizeof(path), "%s/layout", folder);
        return read_manifest(path);
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        const char *rest = (const char *)data + 1;

        if (n == 0)
                return false;
        if (place < 0)
                make_place();
        switch (data[0]) {
        case 'L':
                return unpack_layers(rest, n - 1);
        case 'A':
                return read_archive(rest, n - 1);
        case 'O':
        case 'D':
                return read_parts(rest, n - 1, data[0] == 'D');
        default:
                return false;
        }
}

FUZZ_TARGET
