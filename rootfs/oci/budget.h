/* The bounds of one import: what an image may make the unpacker write, read and keep. */
#pragma once

#include <stdint.h>

#include "base/error.h"

enum {
        BUDGET_ENTRIES_MAX = 1000 * 1000, /* entries of all layers */
        BUDGET_LAYERS_MAX = 512,
        BUDGET_MEMBERS_MAX = 16384,    /* files in an archive of blobs */
        BUDGET_JSON_MAX = 1024 * 1024, /* bytes of an index, a manifest or a config */
        BUDGET_RATIO_MAX = 100,        /* uncompressed bytes for each compressed byte */
        BUDGET_RATIO_FROM = 64 << 20,  /* uncompressed bytes from which the ratio counts */
};

/* CLOISTER_IMAGE_MAX where it is not set. */
#define BUDGET_BYTES_DEFAULT (UINT64_C(16) << 30)

/* Each count grows; the import ends when one exceeds its bound. */
struct budget {
        uint64_t bytes_max;
        uint64_t written; /* bytes of files, holes included */
        uint64_t read;    /* uncompressed bytes of layers */
        uint64_t entries;
};

int budget_write(struct budget *budget, uint64_t bytes, struct error *err);
int budget_entry(struct budget *budget, struct error *err);
/* n more bytes of one stream: so far it has become `out` bytes, made of `in` compressed ones. */
int budget_read(struct budget *budget, uint64_t n, uint64_t out, uint64_t in, struct error *err);
