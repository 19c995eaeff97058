/*
 * Unpacks a container image: the builder's side of cloister-unpacker (rootfs/oci/), which reads the image's bytes. An image of a
 * registry is fetched first, by the user's own skopeo or crane.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "rootfs/plan.h"
#include "rootfs/progress.h"

#define OCI_REGISTRY "docker://"

struct oci_image {
        uint64_t bytes, files, left_out, layers;
        struct private_files private;
        char digest[65];    /* SHA-256 of its manifest (a docker-archive: config), in hexadecimal */
        char workdir[1024]; /* of its config; "" if there is none */
        char search[4096];  /* PATH of its config, or the usual one */
        struct buffer
                settings; /* JSON for the guest (sandbox-init/python/container.py), NUL-terminated */
};

/*
 * image: a path, PATH:TAG, or docker://REF. directory and path: the new directory in the store, which gets `root`. The tree has
 * modes 0755 and 0644, and nothing but files, directories and symbolic links: that is checked, as the unpacker read strangers'
 * bytes. -ENOSPC and -EDQUOT set no error text. Call oci_image_done() in any case.
 */
int oci_import(const char *image, int directory, const char *path, bool with_private,
               struct progress *progress, struct oci_image *ret, struct error *err);
void oci_image_done(struct oci_image *image);
