/* Reads, changes and writes the text of a config file. */
#include "supervisor/cli/config/entry-text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/host-file.h"
#include "base/path.h"
#include "base/unguessable.h"
#include "policy/config/reader.h"
#include "supervisor/cli/command/process.h"
#include "supervisor/cli/config/value-text.h"
#include "supervisor/config/config-files.h"

static const char access_list[] = "system.posix_acl_access";

int entry_text_path(const struct options *o, const char *name, char ret[PATH_MAX],
                    struct error *err)
{
        struct stat st;

        if (o->n_configs > 1)
                return error_set(err, EINVAL, "--config: one file to write to is enough");
        if (o->n_configs == 0)
                return config_files_user_path(ret, PATH_MAX)
                               ? 0
                               : error_set(err, ENOENT, "HOME is not set: name a file by --config");
        bool directory = stat(o->configs[0], &st) == 0 && S_ISDIR(st.st_mode);
        if (snprintf(ret, PATH_MAX, "%s%s%s", o->configs[0], directory ? "/" : "",
                     directory ? name : "") >= PATH_MAX)
                return error_set(err, ENAMETOOLONG, "%s", o->configs[0]);
        return 0;
}

/*
 * Debian packages no TOML parser for C, and each machine that runs Cloister has a CPython, from which the images are
 * built. The interpreter gets the file on standard input.
 */
int entry_text_parse_toml(const char *path, yyjson_doc **ret, struct error *err)
{
        static const char program[] =
                "import sys, json\n"
                "try:\n"
                "    import tomllib\n"
                "except ImportError:\n"
                "    sys.exit(121)\n"
                "try:\n"
                "    document = tomllib.load(sys.stdin.buffer)\n"
                "except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:\n"
                "    sys.stdout.write(str(error))\n"
                "    sys.exit(122)\n"
                "json.dump(document, sys.stdout, default=str)\n";
        /* python3 may be too old; a newer interpreter has its version in its name. */
        static const char *const pythons[] = {
                "python3",    "python3.14",       "python3.13", "python3.12",
                "python3.11", "/usr/bin/python3", NULL,
        };
        _cleanup_free_ char *text = NULL;
        size_t n = 0;
        int r = python_program_run(pythons, program, path, &text, &n, err);

        if (r == PYTHON_WRONG)
                return error_set(err, EBADMSG, "%s: %s", path, text);
        if (r > 0)
                return error_set(
                        err, ENOENT,
                        "%s: reading TOML needs a python3 of version 3.11 or later in PATH", path);
        return r < 0 ? r : json_parse(text, n, ret, err);
}

int entry_text_read(struct entry_text *file, const char *path, size_t most, struct error *err)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

        if (fd < 0)
                return errno == ENOENT ? 0 : error_errno(err, errno, "%s", path);
        int r = fd_read_whole(fd, most, &file->text, &file->n, err);
        if (r >= 0 && file->is_toml) {
                r = entry_text_parse_toml(path, &file->doc, err);
                return r < 0 ? r : 1;
        }
        if (r >= 0)
                r = json_parse_config(file->text, file->n, &file->doc, err);
        return r < 0 ? error_context(err, "%s", path) : 1;
}

void entry_text_done(struct entry_text *file)
{
        free(file->text);
        yyjson_doc_free(file->doc);
}

static size_t count_keys(const struct entry_text *file)
{
        size_t n = 0;

        while (file->keys[n])
                n++;
        return n;
}

yyjson_val *entry_text_find(const struct entry_text *file, const char *name)
{
        yyjson_val *at = yyjson_doc_get_root(file->doc);

        for (size_t i = 0; file->keys[i]; i++)
                at = yyjson_obj_get(at, file->keys[i]);
        return yyjson_obj_get(at, name);
}

/* ---- adding ---- */

/* Where the entry goes. */
struct place {
        size_t at;    /* behind the brace of the innermost object that exists */
        size_t depth; /* of that object, the root's is 1; 0: there is no file */
        bool empty;
};

static int find_place(const struct entry_text *file, struct place *ret, struct error *err)
{
        yyjson_val *at = yyjson_doc_get_root(file->doc), *inner = at;
        size_t n_keys = count_keys(file);
        struct config_lines lines;

        if (!file->text)
                return 0;
        while (yyjson_is_obj(inner)) {
                at = inner;
                inner = ret->depth < n_keys ? yyjson_obj_get(at, file->keys[ret->depth]) : NULL;
                ret->depth++;
        }
        if (ret->depth == 0 || inner)
                return error_set(err, EINVAL, "%s must be an object: correct the config first",
                                 ret->depth ? file->keys[ret->depth - 1] : "the file");
        config_lines_init(&lines, file->text, file->n, yyjson_doc_get_root(file->doc));
        config_line_of(&lines, at);
        ret->at = (size_t)(lines.p - file->text) + 1;
        ret->empty = yyjson_obj_size(at) == 0;
        return 0;
}

static int append_indented(struct buffer *to, const char *text, size_t depth)
{
        int r = 0;

        for (; r >= 0; text++) {
                size_t n = strcspn(text, "\n");
                r = buffer_append(to, text, n);
                text += n;
                if (*text == '\0')
                        break;
                if (r >= 0)
                        r = buffer_printf(to, "\n%*s", 2 * (int)depth, "");
        }
        return r;
}

/* The objects that are missing, with the entry in the innermost. */
static int append_new(struct buffer *to, const struct entry_text *file, const struct place *place,
                      const char *name, const char *value)
{
        size_t depth = place->depth, inner = count_keys(file) + 1;
        int r = 0;

        if (depth == 0) {
                r = buffer_append_text(to, "{");
                depth = 1;
        }
        for (; r >= 0 && depth < inner; depth++)
                r = buffer_printf(to, "\n%*s\"%s\": {", 2 * (int)depth, "", file->keys[depth - 1]);
        if (r >= 0)
                r = buffer_printf(to, "\n%*s", 2 * (int)depth, "");
        if (r >= 0)
                r = json_append_string(to, name, strlen(name));
        if (r >= 0)
                r = buffer_append_text(to, ": ");
        if (r >= 0)
                r = append_indented(to, value, depth);
        while (r >= 0 && depth > (place->depth > 0 ? place->depth : 1)) {
                depth--;
                r = buffer_printf(to, "\n%*s}", 2 * (int)depth, "");
        }
        return r < 0 || place->depth > 0 ? r : buffer_append_text(to, "\n}\n");
}

static int make_text(const struct entry_text *file, const struct place *place, const char *name,
                     const char *value, struct buffer *to)
{
        int r = place->depth > 0 ? buffer_append(to, file->text, place->at) : 0;

        if (r >= 0)
                r = append_new(to, file, place, name, value);
        if (r < 0 || place->depth == 0)
                return r;
        r = buffer_append_text(to, place->empty ? "" : ",");
        if (r >= 0 && file->text[place->at] != '\n')
                r = buffer_printf(to, "\n%*s", 2 * (int)(place->depth - place->empty), "");
        return r < 0 ? r : buffer_append(to, file->text + place->at, file->n - place->at);
}

/* ---- removing ---- */

size_t entry_text_position(const struct entry_text *file, const yyjson_val *value)
{
        struct config_lines lines;

        config_lines_init(&lines, file->text, file->n, yyjson_doc_get_root(file->doc));
        config_line_of(&lines, value);
        return (size_t)(lines.p - file->text);
}

/* The text between two positions is left out; with it the rest of its line, if the line is otherwise empty. */
static void widen(const struct entry_text *file, size_t *from, size_t *to)
{
        size_t begin = *from;

        while (begin > 0 && strchr(" \t", file->text[begin - 1]))
                begin--;
        if (begin > 0 && file->text[begin - 1] == '\n' && *to < file->n &&
            strchr("\r\n", file->text[*to]))
                *from = begin - 1 - (begin > 1 && file->text[begin - 2] == '\r');
}

/* Where the member before ends, if there is one: its comma goes when the last member goes. */
static size_t comma_before(const struct entry_text *file, const yyjson_val *before)
{
        if (!before)
                return SIZE_MAX;
        const struct value_text text = {file->text, file->n, false};
        return value_text_skip_blank(&text,
                                     value_text_end(&text, entry_text_position(file, before)));
}

static int cut(const struct entry_text *file, yyjson_val *object, const char *name,
               struct buffer *to)
{
        yyjson_val *key, *value = NULL, *before = NULL;
        yyjson_obj_iter members = yyjson_obj_iter_with(object);

        while ((key = yyjson_obj_iter_next(&members))) {
                value = yyjson_obj_iter_get_val(key);
                if (yyjson_equals_str(key, name))
                        break;
                before = value;
        }
        if (!key)
                return -ENOENT;
        const struct value_text text = {file->text, file->n, false};
        size_t from = entry_text_position(file, key), comma = SIZE_MAX;
        size_t end = value_text_end(&text, entry_text_position(file, value));
        size_t next = value_text_skip_blank(&text, end);
        if (next < file->n && file->text[next] == ',')
                end = next + 1;
        else
                comma = comma_before(file, before);
        widen(file, &from, &end);
        size_t copied = 0;
        int r = 0;
        if (comma < from) {
                r = buffer_append(to, file->text, comma);
                copied = comma + 1;
        }
        if (r >= 0)
                r = buffer_append(to, file->text + copied, from - copied);
        return r < 0 ? r : buffer_append(to, file->text + end, file->n - end);
}

/* ---- both ---- */

bool entry_text_only_adds(yyjson_val *with, yyjson_val *without, const char *const *keys,
                          const char *name, yyjson_val *entry)
{
        const char *key = *keys ? *keys : name;
        yyjson_val *inner = yyjson_obj_get(with, key), *other = yyjson_obj_get(without, key);
        yyjson_val *member, *value;
        size_t i, n;

        if (!inner || (without && !yyjson_is_obj(without)) ||
            yyjson_obj_size(with) != yyjson_obj_size(without) + !other)
                return false;
        yyjson_obj_foreach (without, i, n, member, value) {
                if (value != other &&
                    !yyjson_equals(value, yyjson_obj_getn(with, yyjson_get_str(member),
                                                          yyjson_get_len(member))))
                        return false;
        }
        if (*keys)
                return entry_text_only_adds(inner, other, keys + 1, name, entry);
        return !other && (!entry || yyjson_equals(inner, entry));
}

/* The new text has this change and no other. value NULL: the entry is removed. */
static int check(const struct entry_text *file, const char *name, const char *value,
                 const struct buffer *text, struct error *err)
{
        _cleanup_json_ yyjson_doc *parsed = NULL, *entry = NULL;
        yyjson_val *old = yyjson_doc_get_root(file->doc), *new;
        struct error ignored = {};
        bool good = false;

        int r = json_parse_config(buffer_bytes(text), text->length, &parsed, &ignored);
        if (r >= 0 && value)
                r = json_parse(value, strlen(value), &entry, &ignored);
        new = yyjson_doc_get_root(parsed);
        if (r >= 0)
                good = value ? entry_text_only_adds(new, old, file->keys, name,
                                                    yyjson_doc_get_root(entry))
                             : entry_text_only_adds(old, new, file->keys, name, NULL);
        return good ? 0
                    : error_set(err, EBADMSG,
                                "its layout cannot be edited without a risk: edit it by hand");
}

int entry_text_add(const struct entry_text *file, const char *name, const char *value,
                   struct buffer *to, struct error *err)
{
        struct place place = {};
        int r = find_place(file, &place, err);

        if (r < 0)
                return r;
        r = make_text(file, &place, name, value, to);
        return r < 0 ? error_errno(err, -r, "%s", name) : check(file, name, value, to, err);
}

int entry_text_remove(const struct entry_text *file, const char *name, struct buffer *to,
                      struct error *err)
{
        yyjson_val *at = yyjson_doc_get_root(file->doc);

        for (size_t i = 0; file->keys[i]; i++)
                at = yyjson_obj_get(at, file->keys[i]);
        int r = cut(file, at, name, to);
        return r < 0 ? error_errno(err, -r, "%s", name) : check(file, name, NULL, to, err);
}

/* ---- writing ---- */

static int check_owner(const char *path, const struct stat *st, struct error *err)
{
        char owner[OWNER_TEXT_SIZE];

        if (st->st_uid == geteuid())
                return 0;
        owner_describe(st->st_uid, owner);
        return error_set(err, EPERM, "%s belongs to %s: run this as that user", path, owner);
}

int entry_text_check_owner(const char *path, struct error *err)
{
        struct stat st;

        if (lstat(path, &st) < 0)
                return errno == ENOENT ? 0 : error_errno(err, errno, "%s", path);
        int r = check_owner(path, &st, err);
        if (r >= 0 && stat(path, &st) < 0)
                return error_errno(err, errno, "%s", path);
        if (r >= 0)
                r = check_owner(path, &st, err);
        if (r >= 0 && !S_ISREG(st.st_mode))
                r = error_set(err, EINVAL, "%s is not a regular file", path);
        return r;
}

int entry_text_unchanged(const struct entry_text *file, const char *path, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t n = 0;

        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0 && errno != ENOENT)
                return error_errno(err, errno, "%s", path);
        if (fd >= 0 && fd_read_whole(fd, file->n + 1, &text, &n, NULL) < 0)
                n = SIZE_MAX;
        if (!text == !file->text && n == file->n && (n == 0 || memcmp(text, file->text, n) == 0))
                return 0;
        return error_set(err, EBUSY,
                         "%s was changed by another program meanwhile: nothing was written", path);
}

/* Gives the new file the readers and writers of the old one. A group that cannot be kept, or that an access
 * control list made out of several users, would be another set of them. */
static int keep_mode(int fd, const char *target)
{
        struct stat st;

        if (stat(target, &st) < 0)
                return 0;
        /* Which the directory gives to its new files. */
        bool listed = fremovexattr(fd, access_list) < 0 && errno != ENODATA && errno != EOPNOTSUPP;
        bool other = fchown(fd, (uid_t)-1, st.st_gid) < 0 || listed ||
                     getxattr(target, access_list, NULL, 0) > 0;
        return fchmod(fd, st.st_mode & (other ? 0707 : 0777)) < 0 ? -errno : 0;
}

static int write_temporary(const char *name, const struct buffer *text, const char *like,
                           struct error *err)
{
        _cleanup_close_ int fd = host_file_open(HOST_FILE_CONFIG, AT_FDCWD, name, err);

        if (fd < 0)
                return error_context(err, "%s", name);
        int r = fd_write_all(fd, buffer_bytes(text), text->length);
        if (r >= 0 && like)
                r = keep_mode(fd, like);
        if (r >= 0 && fsync(fd) < 0)
                r = -errno;
        return r < 0 ? error_errno(err, -r, "%s", name) : 0;
}

int entry_text_write(const char *path, const struct buffer *text, bool private, struct error *err)
{
        /* Writes to the target of a symbolic link, so that the link stays. */
        _cleanup_free_ char *real = realpath(path, NULL), *name = NULL;
        _cleanup_free_ char *target = strdup(real ? real : path);
        char suffix[UNGUESSABLE_LENGTH + 1];

        unguessable(suffix);
        if (!target || asprintf(&name, "%s.%.8s", target, suffix) < 0) {
                name = NULL;
                return error_errno(err, ENOMEM, "%s", path);
        }
        int r = path_make_parents(target, 0700);
        if (r < 0)
                return error_errno(err, -r, "make the directory of %s", target);
        r = write_temporary(name, text, private ? NULL : target, err);
        if (r >= 0 && rename(name, target) < 0)
                r = error_errno(err, errno, "%s", target);
        if (r < 0)
                unlink(name);
        return r;
}
