/*
 * Which layers an image has, and its config: from an OCI layout (index.json, image-spec 1.1) or a docker-archive (manifest.json).
 * Every file that is named by a digest is checked against it before its content is used.
 */
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "rootfs/oci/digest.h"
#include "rootfs/oci/source.h"

enum {
        MANIFEST_PATH_MAX = 256,
        MANIFEST_ENV_MAX = 256,             /* variables */
        MANIFEST_ENV_BYTES_MAX = 64 * 1024, /* of all */
};

struct manifest_layer {
        char path[MANIFEST_PATH_MAX]; /* in the source */
        struct digest digest;
        bool is_unpacked; /* the digest is that of the uncompressed bytes */
        bool has_size;
        uint64_t size;
};

struct manifest {
        struct manifest_layer *layers; /* lowest first */
        size_t n;
        struct digest digest; /* of the manifest, or in a docker-archive of the config */
        yyjson_doc *config;
        yyjson_val *env;     /* array of "NAME=value", or NULL */
        const char *workdir; /* "" if there is none */
};

/*
 * tag: which image of several; "" for the only one. Of several platforms, that of this machine is taken; an image of another one
 * is an error that names both.
 */
int manifest_read(const struct source *source, const char *tag, struct hash *hash,
                  struct manifest *ret, struct error *err);
void manifest_done(struct manifest *manifest);

/* The architecture of this machine, as images name it: "amd64". */
const char *manifest_architecture(void);
