/* Which layers an image has, and its config. */
#include "rootfs/oci/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

enum { INDEX_DEPTH_MAX = 4, TAGS_SHOWN = 300, VALUES_MAX = 100 * 1000, SHOWN = 100 };

static const char ref_name[] = "org.opencontainers.image.ref.name";
static const char full_name[] = "io.containerd.image.name";

const char *manifest_architecture(void)
{
#if defined(__x86_64__)
        return "amd64";
#elif defined(__aarch64__)
        return "arm64";
#else
#error "the name of this architecture in images"
#endif
}

static void escape(char ret[SHOWN], const char *text)
{
        printable_escape(ret, SHOWN, text ? text : "");
}

static int parse(const char *name, const char *data, size_t n, yyjson_doc **ret, struct error *err)
{
        int r = json_parse_bounded(data, n, VALUES_MAX, ret, err);

        if (r < 0)
                return error_context(err, "\"%s\"", name);
        return 0;
}

static int read_json(const struct source *source, const char *name, struct hash *hash,
                     const struct digest *expected, yyjson_doc **ret, struct error *err)
{
        _cleanup_free_ char *data = NULL;
        size_t n = 0;

        int r = source_read(source, name, hash, expected, &data, &n, err);
        return r < 0 ? r : parse(name, data, n, ret, err);
}

/* ---- descriptors ---- */

struct descriptor {
        struct digest digest;
        uint64_t size;
        const char *type;
};

static int take_descriptor(yyjson_val *value, struct descriptor *ret, struct error *err)
{
        int64_t size = 0;

        int r = digest_parse(json_string(value, "digest", NULL), &ret->digest, err);
        if (r < 0)
                return r;
        if (json_int64(yyjson_obj_get(value, "size"), &size) < 0 || size < 0)
                return error_set(err, EBADMSG, "a descriptor has no size");
        ret->size = (uint64_t)size;
        ret->type = json_string(value, "mediaType", NULL);
        if (!ret->type)
                ret->type = "";
        return 0;
}

static void blob_path(const struct digest *digest, char ret[MANIFEST_PATH_MAX])
{
        char hex[DIGEST_HEX + 1];

        digest_hex(digest, hex);
        snprintf(ret, MANIFEST_PATH_MAX, "blobs/sha256/%s", hex);
}

static int read_blob(const struct source *source, const struct descriptor *d, struct hash *hash,
                     yyjson_doc **ret, struct error *err)
{
        char path[MANIFEST_PATH_MAX];
        _cleanup_free_ char *data = NULL;
        size_t n = 0;

        if (d->size > BUDGET_JSON_MAX)
                return error_set(err, EFBIG, "a manifest or config is larger than %d bytes",
                                 BUDGET_JSON_MAX);
        blob_path(&d->digest, path);
        int r = source_read(source, path, hash, &d->digest, &data, &n, err);
        if (r < 0)
                return r;
        if (n != d->size)
                return error_set(err, EBADMSG, "\"%s\" has %zu bytes, not %" PRIu64, path, n,
                                 d->size);
        return parse(path, data, n, ret, err);
}

static bool is_index(const char *type)
{
        return strcmp(type, "application/vnd.oci.image.index.v1+json") == 0 ||
               strcmp(type, "application/vnd.docker.distribution.manifest.list.v2+json") == 0;
}

static bool is_manifest(const char *type)
{
        return !*type || strcmp(type, "application/vnd.oci.image.manifest.v1+json") == 0 ||
               strcmp(type, "application/vnd.docker.distribution.manifest.v2+json") == 0;
}

static bool is_layer(const char *type)
{
        static const char *const types[] = {
                "application/vnd.oci.image.layer.v1.tar",
                "application/vnd.oci.image.layer.v1.tar+gzip",
                "application/vnd.oci.image.layer.v1.tar+zstd",
                "application/vnd.oci.image.layer.nondistributable.v1.tar",
                "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
                "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
                "application/vnd.docker.image.rootfs.diff.tar",
                "application/vnd.docker.image.rootfs.diff.tar.gzip",
                "application/vnd.docker.image.rootfs.diff.tar.zstd",
                "application/vnd.docker.image.rootfs.foreign.diff.tar",
                "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        };

        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
                if (strcmp(type, types[i]) == 0)
                        return true;
        return false;
}

/* ---- the choice ---- */

/* The manifests that the indexes of an image name. */
struct choice {
        const struct source *source;
        struct hash *hash;
        const char *tag;
        bool found;
        struct descriptor best; /* the type is not kept */
        bool is_ambiguous;
        size_t n_tags;
        char tags[TAGS_SHOWN]; /* of the first index, printable */
        char platform[SHOWN];  /* the last one that is not of this machine */
};

static bool ends_with_tag(const char *name, const char *tag)
{
        size_t n = strlen(name), length = strlen(tag);

        return strcmp(name, tag) == 0 ||
               (n > length && name[n - length - 1] == ':' && strcmp(name + n - length, tag) == 0);
}

static void note_tag(struct choice *c, const char *name)
{
        char shown[SHOWN];
        size_t n = strlen(c->tags);

        escape(shown, name);
        c->n_tags++;
        snprintf(c->tags + n, sizeof(c->tags) - n, "%s%s", n > 0 ? ", " : "", shown);
}

static bool has_tag(struct choice *c, yyjson_val *value)
{
        yyjson_val *notes = yyjson_obj_get(value, "annotations");
        const char *name = json_string(notes, ref_name, NULL);
        const char *full = json_string(notes, full_name, NULL);

        if (name || full)
                note_tag(c, name ? name : full);
        return !*c->tag || (name && ends_with_tag(name, c->tag)) ||
               (full && ends_with_tag(full, c->tag));
}

/* Attestations have the platform unknown/unknown. */
static bool is_for_us(struct choice *c, yyjson_val *value)
{
        yyjson_val *platform = yyjson_obj_get(value, "platform");
        const char *os = json_string(platform, "os", NULL);
        const char *architecture = json_string(platform, "architecture", NULL);
        char text[2 * SHOWN];

        if (!platform || !os || !architecture)
                return true;
        if (strcmp(os, "linux") == 0 && strcmp(architecture, manifest_architecture()) == 0)
                return true;
        if (strcmp(os, "unknown") != 0) {
                snprintf(text, sizeof(text), "%.40s/%.40s", os, architecture);
                escape(c->platform, text);
        }
        return false;
}

static int choose_below(struct choice *c, yyjson_val *index, int depth, struct error *err);

static int take_entry(struct choice *c, yyjson_val *value, int depth, struct error *err)
{
        struct descriptor d;

        if ((depth == 0 && !has_tag(c, value)) || !is_for_us(c, value))
                return 0;
        int r = take_descriptor(value, &d, err);
        if (r < 0)
                return r;
        if (is_index(d.type)) {
                _cleanup_json_ yyjson_doc *doc = NULL;
                if (depth + 1 == INDEX_DEPTH_MAX)
                        return error_set(err, ELOOP, "indexes name each other %d levels deep",
                                         INDEX_DEPTH_MAX);
                r = read_blob(c->source, &d, c->hash, &doc, err);
                return r < 0 ? r : choose_below(c, yyjson_doc_get_root(doc), depth + 1, err);
        }
        if (!is_manifest(d.type))
                return 0;
        if (!c->found)
                c->best = d;
        else if (memcmp(&c->best.digest, &d.digest, sizeof(d.digest)) != 0)
                c->is_ambiguous |= depth == 0;
        c->found = true;
        return 0;
}

/* Of several manifests below one index of platforms, the first that fits is taken. */
static int choose_below(struct choice *c, yyjson_val *index, int depth, struct error *err)
{
        yyjson_val *list = yyjson_obj_get(index, "manifests"), *value;
        bool had = c->found;
        size_t i, n;

        if (!yyjson_is_arr(list))
                return error_set(err, EBADMSG, "an index has no list \"manifests\"");
        if (yyjson_arr_size(list) > BUDGET_LAYERS_MAX)
                return error_set(err, E2BIG, "an index has more than %d manifests",
                                 BUDGET_LAYERS_MAX);
        yyjson_arr_foreach (list, i, n, value) {
                int r = take_entry(c, value, depth, err);
                if (r < 0)
                        return r;
                if (depth > 0 && c->found && !had)
                        break;
        }
        /* The second of two tags may be an index too. */
        if (depth > 0 && had)
                c->is_ambiguous = true;
        return 0;
}

static int refuse_choice(const struct choice *c, struct error *err)
{
        char tag[SHOWN];

        escape(tag, c->tag);
        if (c->is_ambiguous)
                return error_set(
                        err, EINVAL,
                        "it has several images: append one of their tags, as in PATH:TAG (%s)",
                        *c->tags ? c->tags : "they have none");
        if (*c->platform)
                return error_set(err, ENOEXEC, "it is for %s; this machine needs linux/%s",
                                 c->platform, manifest_architecture());
        if (*c->tag)
                return error_set(err, ENOENT, "it has no image with the tag \"%s\" (it has: %s)",
                                 tag, *c->tags ? c->tags : "none");
        return error_set(err, ENOENT, "its index names no image");
}

/* ---- the config ---- */

static int wrong_platform(const char *os, const char *architecture, struct error *err)
{
        char text[2 * SHOWN], shown[SHOWN];

        snprintf(text, sizeof(text), "%.40s/%.40s", os ? os : "?",
                 architecture ? architecture : "?");
        escape(shown, text);
        return error_set(err, ENOEXEC, "it is for %s; this machine needs linux/%s", shown,
                         manifest_architecture());
}

static bool is_variable(yyjson_val *value)
{
        const char *text = yyjson_get_str(value);

        return text && strlen(text) == yyjson_get_len(value) && *text != '=' && strchr(text, '=');
}

static int check_env(yyjson_val *env, struct error *err)
{
        size_t i, n, bytes = 0;
        yyjson_val *value;

        if (yyjson_is_null(env) || !env)
                return 0;
        if (!yyjson_is_arr(env))
                return error_set(err, EBADMSG, "\"Env\" of its config is not a list");
        yyjson_arr_foreach (env, i, n, value) {
                if (!is_variable(value))
                        return error_set(
                                err, EBADMSG,
                                "\"Env\" of its config has an entry that is not NAME=value");
                bytes += yyjson_get_len(value);
        }
        if (yyjson_arr_size(env) > MANIFEST_ENV_MAX || bytes > MANIFEST_ENV_BYTES_MAX)
                return error_set(err, E2BIG,
                                 "\"Env\" of its config has more than %d variables or %d KiB",
                                 MANIFEST_ENV_MAX, MANIFEST_ENV_BYTES_MAX / 1024);
        return 1;
}

static int take_config(struct manifest *m, struct error *err)
{
        yyjson_val *root = yyjson_doc_get_root(m->config);
        yyjson_val *config = yyjson_obj_get(root, "config");
        const char *os = json_string(root, "os", NULL);
        const char *architecture = json_string(root, "architecture", NULL);
        size_t length = 0;

        if (!os || !architecture || strcmp(os, "linux") != 0 ||
            strcmp(architecture, manifest_architecture()) != 0)
                return wrong_platform(os, architecture, err);
        int r = check_env(yyjson_obj_get(config, "Env"), err);
        if (r < 0)
                return r;
        if (r > 0)
                m->env = yyjson_obj_get(config, "Env");
        const char *workdir = json_string(config, "WorkingDir", &length);
        m->workdir = workdir ? workdir : "";
        if (strlen(m->workdir) != length || length >= 1024 || (*m->workdir && *m->workdir != '/'))
                return error_set(err, EBADMSG,
                                 "\"WorkingDir\" of its config is not an absolute path");
        return 0;
}

/* The digests of the uncompressed layers, one for each. */
static yyjson_val *diff_ids(const struct manifest *m)
{
        yyjson_val *root = yyjson_doc_get_root(m->config);

        return yyjson_obj_get(yyjson_obj_get(root, "rootfs"), "diff_ids");
}

static int make_layers(struct manifest *m, yyjson_val *list, struct error *err)
{
        size_t n = yyjson_arr_size(list);

        if (!yyjson_is_arr(list) || n == 0)
                return error_set(err, EBADMSG, "it has no layers");
        if (n > BUDGET_LAYERS_MAX)
                return error_set(err, E2BIG, "it has more than %d layers", BUDGET_LAYERS_MAX);
        if (yyjson_arr_size(diff_ids(m)) != n)
                return error_set(err, EBADMSG,
                                 "it has %zu layers, its config has %zu (\"diff_ids\")", n,
                                 yyjson_arr_size(diff_ids(m)));
        m->layers = calloc(n, sizeof(*m->layers));
        if (!m->layers)
                return error_errno(err, ENOMEM, "layers");
        m->n = n;
        return 0;
}

/* ---- an OCI layout ---- */

static int take_layer(yyjson_val *value, struct manifest_layer *layer, struct error *err)
{
        struct descriptor d;
        char shown[SHOWN];

        int r = take_descriptor(value, &d, err);
        if (r < 0)
                return r;
        if (!is_layer(d.type)) {
                escape(shown, d.type);
                return error_set(err, ENOTSUP,
                                 "a layer has the type \"%s\", which is not supported", shown);
        }
        blob_path(&d.digest, layer->path);
        layer->digest = d.digest;
        layer->size = d.size;
        layer->has_size = true;
        return 0;
}

static int take_manifest(const struct source *source, const struct descriptor *d, struct hash *hash,
                         struct manifest *m, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct descriptor config;
        yyjson_val *value;
        size_t i, n;

        m->digest = d->digest;
        int r = read_blob(source, d, hash, &doc, err);
        if (r < 0)
                return r;
        yyjson_val *root = yyjson_doc_get_root(doc);
        yyjson_val *layers = yyjson_obj_get(root, "layers");
        if (take_descriptor(yyjson_obj_get(root, "config"), &config, err) < 0)
                return error_context(err, "its config");
        if ((r = read_blob(source, &config, hash, &m->config, err)) < 0 ||
            (r = take_config(m, err)) < 0 || (r = make_layers(m, layers, err)) < 0)
                return r;
        yyjson_arr_foreach (layers, i, n, value)
                if ((r = take_layer(value, &m->layers[i], err)) < 0)
                        return r;
        return 0;
}

static int read_layout(const struct source *source, const char *tag, struct hash *hash,
                       struct manifest *m, struct error *err)
{
        struct choice c = {.source = source, .hash = hash, .tag = tag};
        _cleanup_json_ yyjson_doc *doc = NULL;

        int r = read_json(source, "index.json", hash, NULL, &doc, err);
        if (r >= 0)
                r = choose_below(&c, yyjson_doc_get_root(doc), 0, err);
        if (r < 0)
                return r;
        if (!c.found || c.is_ambiguous)
                return refuse_choice(&c, err);
        return take_manifest(source, &c.best, hash, m, err);
}

/* ---- a docker-archive ---- */

static bool has_repo_tag(struct choice *c, yyjson_val *image)
{
        yyjson_val *tags = yyjson_obj_get(image, "RepoTags"), *value;
        bool found = !*c->tag;
        size_t i, n;

        yyjson_arr_foreach (tags, i, n, value) {
                const char *name = yyjson_get_str(value);
                if (!name)
                        continue;
                note_tag(c, name);
                found |= ends_with_tag(name, c->tag);
        }
        return found;
}

/* "HEX.json" or "blobs/sha256/HEX". */
static int config_digest(const char *path, struct digest *ret, struct error *err)
{
        const char *slash = path ? strrchr(path, '/') : NULL, *name = slash ? slash + 1 : path;
        char shown[SHOWN];

        if (name && digest_parse_hex(name, strcspn(name, "."), ret))
                return 0;
        escape(shown, path);
        return error_set(err, EBADMSG, "the config \"%s\" is not named by its SHA-256 digest",
                         shown);
}

static int take_docker_layers(struct manifest *m, yyjson_val *image, struct error *err)
{
        yyjson_val *layers = yyjson_obj_get(image, "Layers"), *value;
        size_t i, n;

        int r = make_layers(m, layers, err);
        if (r < 0)
                return r;
        yyjson_arr_foreach (layers, i, n, value) {
                const char *path = yyjson_get_str(value);
                const char *id = yyjson_get_str(yyjson_arr_get(diff_ids(m), i));
                if (!path ||
                    snprintf(m->layers[i].path, MANIFEST_PATH_MAX, "%s", path) >= MANIFEST_PATH_MAX)
                        return error_set(err, EBADMSG, "manifest.json: a layer has no path");
                m->layers[i].is_unpacked = true;
                if ((r = digest_parse(id, &m->layers[i].digest, err)) < 0)
                        return r;
        }
        return 0;
}

static int read_docker(const struct source *source, const char *tag, struct hash *hash,
                       struct manifest *m, struct error *err)
{
        struct choice c = {.tag = tag};
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *image = NULL, *value;
        size_t i, n;

        int r = read_json(source, "manifest.json", hash, NULL, &doc, err);
        if (r < 0)
                return r;
        yyjson_val *list = yyjson_doc_get_root(doc);
        if (!yyjson_is_arr(list))
                return error_set(err, EBADMSG, "manifest.json is not a list");
        yyjson_arr_foreach (list, i, n, value) {
                if (!has_repo_tag(&c, value))
                        continue;
                c.is_ambiguous |= image != NULL;
                image = value;
        }
        if (!image || c.is_ambiguous)
                return refuse_choice(&c, err);
        const char *config = json_string(image, "Config", NULL);
        if ((r = config_digest(config, &m->digest, err)) < 0 ||
            (r = read_json(source, config, hash, &m->digest, &m->config, err)) < 0 ||
            (r = take_config(m, err)) < 0)
                return r;
        return take_docker_layers(m, image, err);
}

/* ---- all ---- */

int manifest_read(const struct source *source, const char *tag, struct hash *hash,
                  struct manifest *ret, struct error *err)
{
        struct manifest m = {};
        int r;

        if (source_has(source, "index.json"))
                r = read_layout(source, tag, hash, &m, err);
        else if (source_has(source, "manifest.json"))
                r = read_docker(source, tag, hash, &m, err);
        else
                return error_set(
                        err, ENOENT,
                        "it has neither index.json (an OCI layout) nor manifest.json (a docker-archive)");
        if (r < 0) {
                manifest_done(&m);
                return r;
        }
        *ret = m;
        return 0;
}

void manifest_done(struct manifest *manifest)
{
        free(manifest->layers);
        yyjson_doc_free(manifest->config);
        *manifest = (struct manifest){};
}
