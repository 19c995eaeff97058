/* Unpacks an image into an empty directory. */
#include "rootfs/oci/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "rootfs/oci/layer.h"
#include "rootfs/oci/manifest.h"
#include "rootfs/oci/merge.h"

static const char staging[] = "layer";

struct unpacking {
        const struct source *source;
        const struct unpack_options *options;
        struct budget *budget;
        struct hash *hash;
        uint64_t left_out;
};

/* The digest of uncompressed bytes. */
static int check_unpacked(struct unpacking *u, const struct blob *blob,
                          const struct digest *expected, struct error *err)
{
        _cleanup_stream_ struct stream *stream = NULL;
        struct budget own = {.bytes_max = u->budget->bytes_max};
        struct digest digest;
        const void *data;
        ssize_t n;

        int r = stream_open(blob, &own, &stream, err);
        if (r < 0)
                return r;
        if (hash_begin(u->hash) < 0)
                return error_errno(err, EIO, "SHA-256");
        while ((n = stream_next(stream, &data, err)) > 0)
                if (hash_add(u->hash, data, (size_t)n) < 0)
                        return error_errno(err, EIO, "SHA-256");
        if (n < 0)
                return (int)n;
        if (hash_end(u->hash, &digest) < 0)
                return error_errno(err, EIO, "SHA-256");
        return memcmp(&digest, expected, sizeof(digest)) == 0
                       ? 0
                       : error_set(err, EBADMSG,
                                   "its content does not have the digest that the config names");
}

static int check_blob(struct unpacking *u, const struct blob *blob,
                      const struct manifest_layer *layer, struct error *err)
{
        if (layer->has_size && blob->size != layer->size)
                return error_set(err, EBADMSG, "it has %llu bytes, not %llu: cut off, or changed",
                                 (unsigned long long)blob->size, (unsigned long long)layer->size);
        if (layer->is_unpacked)
                return check_unpacked(u, blob, &layer->digest, err);
        return source_check(blob, u->hash, &layer->digest, err);
}

static int unpack_blob(struct unpacking *u, const struct blob *blob, struct error *err)
{
        _cleanup_stream_ struct stream *stream = NULL;

        int r = stream_open(blob, u->budget, &stream, err);
        if (r < 0)
                return r;
        if (mkdirat(u->options->work, staging, 0700) < 0)
                return error_errno(err, errno, "make a directory");
        _cleanup_close_ int directory = openat(u->options->work, staging,
                                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (directory < 0)
                return error_errno(err, errno, "open a directory");
        struct tree own = TREE_INIT(directory);
        const struct tree below = TREE_INIT(u->options->root);
        const struct layer layer = {.tree = &own,
                                    .below = &below,
                                    .budget = u->budget,
                                    .readers = u->options->with_private ? 0 : S_IRGRP | S_IROTH,
                                    .left_out = &u->left_out};
        r = layer_unpack(&layer, stream, err);
        tree_done(&own);
        if (r >= 0)
                r = merge_layer(directory, u->options->root, err);
        if (r >= 0 && unlinkat(u->options->work, staging, AT_REMOVEDIR) < 0)
                r = error_errno(err, errno, "remove a directory");
        return r;
}

/* Its digest was checked before it was unpacked. */
static bool has_changed(const struct blob *blob, const struct stat *before)
{
        struct stat now;

        return fstat(blob->fd, &now) < 0 || now.st_size != before->st_size ||
               now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
               now.st_mtim.tv_nsec != before->st_mtim.tv_nsec ||
               now.st_ctim.tv_sec != before->st_ctim.tv_sec ||
               now.st_ctim.tv_nsec != before->st_ctim.tv_nsec;
}

static int unpack_layer(struct unpacking *u, const struct manifest_layer *layer, struct error *err)
{
        struct blob blob;
        struct stat before;

        int r = source_find(u->source, layer->path, &blob, err);
        if (r < 0)
                return r;
        if (fstat(blob.fd, &before) < 0)
                r = error_errno(err, errno, "read it");
        if (r >= 0)
                r = check_blob(u, &blob, layer, err);
        if (r >= 0)
                r = unpack_blob(u, &blob, err);
        if (r >= 0 && has_changed(&blob, &before))
                r = error_set(err, EBADMSG, "it changed while it was read");
        source_release(u->source, &blob);
        return r;
}

static int unpack_layers(struct unpacking *u, const struct manifest *m, struct error *err)
{
        char line[80], hex[DIGEST_HEX + 1];

        for (size_t i = 0; i < m->n; i++) {
                snprintf(line, sizeof(line), "unpacking layer %zu of %zu", i + 1, m->n);
                if (u->options->progress)
                        u->options->progress(line);
                int r = unpack_layer(u, &m->layers[i], err);
                if (r < 0) {
                        digest_hex(&m->layers[i].digest, hex);
                        return error_context(err, "layer %zu of %zu (sha256:%.12s)", i + 1, m->n,
                                             hex);
                }
        }
        return 0;
}

static void describe(const struct unpacking *u, const struct manifest *m,
                     const struct merge_totals *totals, struct json_out *out)
{
        char hex[DIGEST_HEX + 1];
        yyjson_val *value;
        size_t i, n;

        digest_hex(&m->digest, hex);
        json_out_text(out, "digest", hex);
        json_out_int(out, "layers", (int64_t)m->n);
        json_out_int(out, "bytes", (int64_t)totals->bytes);
        json_out_int(out, "files", (int64_t)totals->files);
        json_out_int(out, "left_out", (int64_t)u->left_out);
        json_out_int(out, "private", (int64_t)totals->private.n);
        json_out_begin(out, "named", '[');
        for (size_t k = 0; k < totals->private.n && k < PRIVATE_NAMED_MAX; k++)
                json_out_text(out, NULL, totals->private.named[k]);
        json_out_end(out, ']');
        json_out_begin(out, "env", '[');
        yyjson_arr_foreach (m->env, i, n, value)
                json_out_value(out, NULL, value);
        json_out_end(out, ']');
        json_out_text(out, "workdir", m->workdir);
}

int unpack_image(const struct source *source, const struct unpack_options *options,
                 struct budget *budget, struct hash *hash, struct json_out *out, struct error *err)
{
        struct unpacking u = {.source = source, .options = options, .budget = budget, .hash = hash};
        struct merge_totals totals = {};
        struct manifest m = {};

        int r = manifest_read(source, options->tag, hash, &m, err);
        if (r >= 0)
                r = unpack_layers(&u, &m, err);
        if (r >= 0)
                r = merge_finish(options->root, &totals, err);
        if (r >= 0)
                describe(&u, &m, &totals, out);
        manifest_done(&m);
        return r;
}
