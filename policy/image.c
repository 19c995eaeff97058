/* image.json, the name of the default image, and the path of the image store. */
#include "policy/image.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/printable.h"
#include "base/utf8.h"

bool image_name_valid(const char *name)
{
        size_t n = strlen(name);

        return n > 0 && n < IMAGE_NAME_SIZE && name[0] != '.' &&
               strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") ==
                       n;
}

static const char *const link_names[] = {
        [TEMPLATE_LINK_EMBED] = "embed",
        [TEMPLATE_LINK_MODULE] = "module",
};
static_assert(ARRAY_SIZE(link_names) == TEMPLATE_LINK_MAX, "a name a link");

const char *image_link_name(enum template_link link)
{
        return link_names[link];
}

int image_link_parse(const char *word)
{
        for (int i = 0; i < TEMPLATE_LINK_MAX; i++)
                if (strcmp(link_names[i], word) == 0)
                        return i;
        return -1;
}

static bool printable(const char *text, size_t n)
{
        const unsigned char *s = (const unsigned char *)text;

        for (size_t at = 0; at < n;) {
                int length = utf8_next(s + at, n - at);
                if (length <= 0 || !printable_is(utf8_decode(s + at, length)))
                        return false;
                at += (size_t)length;
        }
        return true;
}

static int take_text(yyjson_val *object, const char *key, char *ret, size_t size, struct error *err)
{
        size_t n = 0;
        const char *text = json_string(object, key, &n);

        if (!text || n == 0 || n >= size || !printable(text, n))
                return error_set(err, EBADMSG, "image.json: \"%s\" is missing or not usable", key);
        memcpy(ret, text, n + 1);
        return 0;
}

static int take_path(yyjson_val *object, const char *key, char *ret, size_t size, struct error *err)
{
        int r = take_text(object, key, ret, size, err);
        if (r < 0)
                return r;
        if (!path_is_clean(ret))
                return error_set(err, EBADMSG, "image.json: \"%s\" is not an absolute path", key);
        return 0;
}

static int take_count(yyjson_val *object, const char *key, uint64_t *ret, struct error *err)
{
        int64_t n = 0;

        if (json_int64(yyjson_obj_get(object, key), &n) < 0 || n < 0)
                return error_set(err, EBADMSG, "image.json: \"%s\" is not a count", key);
        *ret = (uint64_t)n;
        return 0;
}

/* Reads how the interpreter is linked, and the path of libpython if that is needed. */
static int take_link(yyjson_val *object, struct image_info *info, struct error *err)
{
        char word[16] = "embed";

        if (yyjson_obj_get(object, "link")) {
                int r = take_text(object, "link", word, sizeof(word), err);
                if (r < 0)
                        return r;
        }
        int link = image_link_parse(word);
        if (link < 0)
                return error_set(err, EBADMSG,
                                 "image.json: \"link\" is \"%s\", not embed or module", word);
        info->link = (enum template_link)link;
        if (info->link == TEMPLATE_LINK_MODULE)
                return 0;
        return take_path(object, "libpython", info->libpython, sizeof(info->libpython), err);
}

/* Checks that each package has a name and a version, so that code that prints them need not. */
static int check_packages(yyjson_val *list, uint64_t *n, struct error *err)
{
        yyjson_val *package;
        size_t i, count;

        *n = 0;
        if (!list)
                return 0;
        yyjson_arr_foreach (list, i, count, package) {
                const char *name = json_string(package, "name", NULL),
                           *version = json_string(package, "version", NULL);
                if (!name || !version || !printable(name, strlen(name)) ||
                    !printable(version, strlen(version)))
                        return error_set(err, EBADMSG, "image.json: \"packages\" is not usable");
        }
        if (!yyjson_is_arr(list))
                return error_set(err, EBADMSG, "image.json: \"packages\" is not a list");
        *n = yyjson_arr_size(list);
        return 0;
}

static int check_format(yyjson_val *object, struct error *err)
{
        int64_t format = 0;

        if (json_int64(yyjson_obj_get(object, "format"), &format) < 0)
                return error_set(err, EBADMSG, "image.json: no \"format\"");
        if (format != IMAGE_FORMAT)
                return error_set(err, EBADMSG,
                                 "image.json: format %" PRId64 ", this build reads %d", format,
                                 IMAGE_FORMAT);
        return 0;
}

int image_info_parse(const char *data, size_t n, struct image_info *ret, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct image_info info = {};

        if (n > IMAGE_JSON_MAX)
                return error_set(err, EFBIG, "image.json: larger than %d bytes", IMAGE_JSON_MAX);
        int r = json_parse(data, n, &doc, err);
        if (r < 0)
                return error_context(err, "image.json");
        yyjson_val *o = yyjson_doc_get_root(doc);
        if (!yyjson_is_obj(o))
                return error_set(err, EBADMSG, "image.json: not an object");

        if ((r = check_format(o, err)) < 0 ||
            (r = take_text(o, "name", info.name, sizeof(info.name), err)) < 0 ||
            (r = take_path(o, "python", info.python, sizeof(info.python), err)) < 0 ||
            (r = take_link(o, &info, err)) < 0 ||
            (r = take_text(o, "version", info.version, sizeof(info.version), err)) < 0 ||
            (r = take_text(o, "created", info.created, sizeof(info.created), err)) < 0 ||
            (r = take_text(o, "source", info.source, sizeof(info.source), err)) < 0 ||
            (r = take_count(o, "bytes", &info.bytes, err)) < 0 ||
            (r = take_count(o, "files", &info.files, err)) < 0 ||
            (r = check_packages(yyjson_obj_get(o, "packages"), &info.n_packages, err)) < 0)
                return r;
        if ((yyjson_obj_get(o, "node") &&
             (r = take_path(o, "node", info.node, sizeof(info.node), err)) < 0) ||
            (yyjson_obj_get(o, "pyodide") &&
             (r = take_path(o, "pyodide", info.pyodide, sizeof(info.pyodide), err)) < 0) ||
            (yyjson_obj_get(o, "base") &&
             (r = take_text(o, "base", info.base, sizeof(info.base), err)) < 0) ||
            (yyjson_obj_get(o, "set") &&
             (r = take_text(o, "set", info.set, sizeof(info.set), err)) < 0))
                return r;
        if (!image_name_valid(info.name))
                return error_set(err, EBADMSG, "image.json: \"name\" is not a name of an image");
        if ((*info.base && !image_name_valid(info.base)) ||
            strspn(info.set, "0123456789abcdef") != strlen(info.set))
                return error_set(err, EBADMSG, "image.json: \"base\" or \"set\" is not usable");
        *ret = info;
        return 0;
}

static bool is_text(const char *text, size_t size)
{
        size_t n = strnlen(text, size);

        return n < size && printable(text, n);
}

bool image_info_valid(const struct image_info *info)
{
        const struct {
                const char *text;
                size_t size;
        } texts[] = {
                {info->name, sizeof(info->name)},           {info->python, sizeof(info->python)},
                {info->libpython, sizeof(info->libpython)}, {info->version, sizeof(info->version)},
                {info->created, sizeof(info->created)},     {info->source, sizeof(info->source)},
                {info->base, sizeof(info->base)},           {info->set, sizeof(info->set)},
                {info->node, sizeof(info->node)},           {info->pyodide, sizeof(info->pyodide)},
        };

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                if (!is_text(texts[i].text, texts[i].size))
                        return false;
        }
        if (!image_name_valid(info->name) || !path_is_clean(info->python))
                return false;
        if (info->link == TEMPLATE_LINK_MODULE)
                return !*info->libpython;
        return info->link == TEMPLATE_LINK_EMBED && path_is_clean(info->libpython);
}

int image_info_append(struct buffer *b, const struct image_info *info)
{
        const struct {
                const char *key, *value;
        } texts[] = {
                {"name", info->name},
                {"python", info->python},
                {"link", link_names[info->link]},
                {"libpython", info->libpython},
                {"version", info->version},
                {"created", info->created},
                {"source", info->source},
                {"node", info->node},
                {"pyodide", info->pyodide},
        };

        int r = buffer_printf(b, "{\"format\": %d", IMAGE_FORMAT);
        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(texts); i++) {
                if (texts[i].value == info->libpython && info->link == TEMPLATE_LINK_MODULE)
                        continue;
                if ((texts[i].value == info->node || texts[i].value == info->pyodide) &&
                    !*texts[i].value)
                        continue;
                r = buffer_printf(b, ", \"%s\": ", texts[i].key);
                if (r >= 0)
                        r = json_append_string(b, texts[i].value, strlen(texts[i].value));
        }
        if (r < 0)
                return r;
        r = buffer_printf(b, ", \"bytes\": %" PRIu64 ", \"files\": %" PRIu64, info->bytes,
                          info->files);
        if (r >= 0 && *info->base)
                r = buffer_printf(b, ", \"base\": \"%s\"", info->base);
        if (r >= 0 && *info->set)
                r = buffer_printf(b, ", \"set\": \"%s\"", info->set);
        if (r >= 0 && info->packages)
                r = buffer_printf(b, ", \"packages\": %s", info->packages);
        return r < 0 ? r : buffer_append(b, "}\n", 2);
}

uint64_t image_hash(uint64_t hash, const void *data, size_t n)
{
        const unsigned char *p = data;

        for (size_t i = 0; i < n; i++)
                hash = (hash ^ p[i]) * 0x100000001b3U;
        return hash;
}

static uint64_t mix_stamp(uint64_t hash, const struct image_stamp *stamp)
{
        static_assert(sizeof(*stamp) == 3 * sizeof(uint64_t), "no padding: it is hashed as bytes");
        return image_hash(hash, stamp, sizeof(*stamp));
}

/* The prefix of …/bin/python, "" for /bin/python. Returns -EINVAL for a path of another form. */
static int prefix_of(const char *python, char *ret, size_t size)
{
        const char *file = strrchr(python, '/');

        if (!file)
                return -EINVAL;
        const char *folder = file;
        while (folder > python && folder[-1] != '/')
                folder--;
        if (folder == python)
                return -EINVAL;
        int n = snprintf(ret, size, "%.*s", (int)(folder - 1 - python), python);
        return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* Hashes what pip or uv change when they install: the directory of the packages. Skips that of the
 * system's own interpreter, whose packages are not in the image. */
static uint64_t mix_packages(uint64_t hash, const char *prefix,
                             int (*look)(const char *path, struct image_stamp *ret))
{
        struct image_stamp stamp = {};
        char path[4096 + 64];

        snprintf(path, sizeof(path), "%s/pyvenv.cfg", prefix);
        if (look(path, &stamp) >= 0)
                hash = mix_stamp(hash, &stamp);
        if (strcmp(prefix, "") == 0 || strcmp(prefix, "/usr") == 0)
                return hash;
        for (int minor = 9; minor < 30; minor++) {
                snprintf(path, sizeof(path), "%s/lib/python3.%d/site-packages", prefix, minor);
                if (look(path, &stamp) >= 0)
                        hash = mix_stamp(hash, &stamp);
        }
        return hash;
}

/* A missing part also changes the hash. */
static uint64_t mix_parts(uint64_t hash, const char *parts,
                          int (*look)(const char *path, struct image_stamp *ret))
{
        char path[4096];

        for (const char *line = parts; *line;) {
                size_t n = strcspn(line, "\n");
                struct image_stamp stamp = {};
                if (n < sizeof(path) && line[0] == '/') {
                        memcpy(path, line, n);
                        path[n] = '\0';
                        if (look(path, &stamp) < 0)
                                stamp = (struct image_stamp){};
                        hash = mix_stamp(hash, &stamp);
                }
                line += n + (line[n] == '\n');
        }
        return hash;
}

int image_default_name(const char *python, const char *parts,
                       int (*look)(const char *path, struct image_stamp *ret),
                       char ret[IMAGE_NAME_SIZE], struct error *err)
{
        static const uint32_t recipe = IMAGE_RECIPE;
        struct image_stamp stamp = {};
        char prefix[4096];

        if (!python)
                python = IMAGE_PYTHON_DEFAULT;
        if (python[0] != '/')
                return error_set(err, EINVAL, "%s: the interpreter's path must be absolute",
                                 python);
        int r = look(python, &stamp);
        if (r < 0)
                return error_errno(err, -r, "%s", python);

        uint64_t hash = image_hash(IMAGE_HASH_START, &recipe, sizeof(recipe));
        hash = image_hash(hash, python, strlen(python) + 1);
        hash = mix_stamp(hash, &stamp);
        if (prefix_of(python, prefix, sizeof(prefix)) >= 0)
                hash = mix_packages(hash, prefix, look);
        if (parts)
                hash = mix_parts(hash, parts, look);
        snprintf(ret, IMAGE_NAME_SIZE, "default-%012" PRIx64, hash >> 16);
        return 0;
}

static int add_file(char name[IMAGE_NAME_SIZE], const char *path, const char *parts,
                    int (*look)(const char *path, struct image_stamp *ret), const char *what,
                    struct error *err)
{
        struct image_stamp stamp = {};

        int r = look(path, &stamp);
        if (r < 0)
                return error_errno(err, -r, "%s: %s", what, path);
        uint64_t hash = image_hash(IMAGE_HASH_START, name, strlen(name) + 1);
        hash = mix_stamp(image_hash(hash, path, strlen(path) + 1), &stamp);
        if (parts)
                hash = mix_parts(hash, parts, look);
        snprintf(name, IMAGE_NAME_SIZE, "node-%012" PRIx64, hash >> 16);
        return 0;
}

int image_name_add_node(char name[IMAGE_NAME_SIZE], const char *node, const char *parts,
                        int (*look)(const char *path, struct image_stamp *ret), struct error *err)
{
        return node && *node ? add_file(name, node, parts, look, "Node", err) : 0;
}

int image_name_add_pyodide(char name[IMAGE_NAME_SIZE], const char *pyodide,
                           int (*look)(const char *path, struct image_stamp *ret),
                           struct error *err)
{
        char path[1024];

        if (!pyodide || !*pyodide)
                return 0;
        if (snprintf(path, sizeof(path), "%s/" PYODIDE_FILE, pyodide) >= (int)sizeof(path))
                return error_errno(err, ENAMETOOLONG, "Pyodide: %s", pyodide);
        return add_file(name, path, NULL, look, "Pyodide", err);
}

bool image_name_is_default(const char *name)
{
        return strncmp(name, "default-", 8) == 0 || strncmp(name, "node-", 5) == 0;
}

void image_parts_key(const char *python, char ret[IMAGE_KEY_SIZE])
{
        const char *path = python ? python : IMAGE_PYTHON_DEFAULT;

        snprintf(ret, IMAGE_KEY_SIZE, "%016" PRIx64,
                 image_hash(IMAGE_HASH_START, path, strlen(path)));
}

int image_store_path(uid_t euid, const struct image_store_env *env, char *ret, size_t size,
                     struct error *err)
{
        static const char below[] = "cloister/images";
        int n = 0, r = 0;

        if (env->store && env->store[0] == '/')
                n = snprintf(ret, size, "%s", env->store);
        else if (env->state && env->state[0] == '/')
                n = snprintf(ret, size, "%s/images", env->state);
        else if (euid == 0)
                n = snprintf(ret, size, "/var/lib/%s", below);
        else
                r = path_in_base(env->data_home, env->home, ".local/share", below, ret, size);
        if (r == -ENOENT)
                return error_set(
                        err, ENOENT,
                        "no place for images: none of STATE_DIRECTORY, XDG_DATA_HOME and HOME is set");
        if (r < 0 || n < 0 || (size_t)n >= size)
                return error_errno(err, ENAMETOOLONG, "path of the image store");
        return 0;
}

int image_store_owned(const char *path, int compared, const struct owner_difference *d,
                      struct error *err)
{
        if (compared < 0)
                return error_errno(err, -compared, "image store %s", path);
        if (compared == 0)
                return 0;
        if (!*d->name)
                return error_set(
                        err, EPERM,
                        "image store %s belongs to %s and images are made as %s: name that user in the config (\"user\"), or chown -Rh %s: %s",
                        path, d->found, d->expected, d->expected_name, path);
        return error_set(
                err, EPERM,
                "image store %s: %s in it belongs to %s and images are made as %s: chown -Rh %s: %s",
                path, d->name, d->found, d->expected, d->expected_name, path);
}
