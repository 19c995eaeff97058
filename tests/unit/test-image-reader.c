/* A hostile store causes an error without delay; a valid one gives its image. */
#include "supervisor/monitor/image/image-reader.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/test.h"

static char store[] = "/tmp/image-reader-XXXXXX";
static struct upstream_user user;

static const char good[] =
        "{\"format\": 1, \"name\": \"mine\", \"python\": \"/usr/bin/python3\", \"link\": \"module\","
        " \"version\": \"3.11.2\", \"created\": \"2026-01-01T00:00:00Z\", \"source\": \"/usr/bin/python3\","
        " \"bytes\": 1, \"files\": 1, \"packages\": [{\"name\": \"x\", \"version\": \"1\"}]}\n";

static const char *in_store(const char *name)
{
        static char path[2][256];
        static int turn;

        turn = !turn;
        snprintf(path[turn], sizeof(path[turn]), "%s/%s", store, name);
        return path[turn];
}

static void put(const char *name, const char *text, size_t n, mode_t mode)
{
        unlink(in_store(name));
        int fd = open(in_store(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        check(fd >= 0);
        check_eq_int(fd_write_all(fd, text, n), 0);
        close(fd);
}

static void put_good(void)
{
        rmdir(in_store("mine/image.json"));
        put("mine/image.json", good, strlen(good), 0644);
}

static struct image_choice choice_of(const char *name, const char *python)
{
        struct image_choice choice;
        struct error err = {};

        check_ok(image_choose(name, python, &choice, &err));
        return choice;
}

static int read_image(const struct image_choice *choice, struct image_found *found,
                      struct error *err)
{
        *err = (struct error){};
        int r = image_read(choice, &user, found, err);
        if (r >= 0)
                check(found->root >= 0);
        else
                check_eq_int(found->root, -1);
        if (found->root >= 0)
                close(found->root);
        return r;
}

/* An image.json that is refused with this text; the files before and after it are valid. */
static void refuse(const char *text)
{
        struct image_choice choice = choice_of("mine", NULL);
        struct image_found found = {.root = -1, .packages = -1};
        struct error err;

        check(read_image(&choice, &found, &err) < 0);
        check_has(err.text, text);
        put_good();
        check_ok(read_image(&choice, &found, &err));
}

static void test_good(void)
{
        struct image_choice choice = choice_of("mine", NULL);
        struct image_found found = {.root = -1, .packages = -1};
        struct error err = {};
        struct stat st, expected;

        check_ok(image_read(&choice, &user, &found, &err));
        check_eq_str(found.name, "mine");
        check_eq_str(found.info.python, "/usr/bin/python3");
        check_eq_str(found.info.version, "3.11.2");
        check_eq_int(found.info.link, TEMPLATE_LINK_MODULE);
        check(!found.info.packages);
        check_eq_int(fstat(found.root, &st), 0);
        check_eq_int(stat(in_store("mine/root"), &expected), 0);
        check_eq_int(st.st_ino, expected.st_ino);
        close(found.root);
}

static void test_missing(void)
{
        struct image_choice choice = choice_of("other", NULL);
        struct image_found found = {.root = -1, .packages = -1};
        struct error err;

        check_eq_int(read_image(&choice, &found, &err), -ENOENT);
        check_has(err.text, "there is no image 'other'");
        snprintf(choice.store, sizeof(choice.store), "%s/none", store);
        check_eq_int(read_image(&choice, &found, &err), -ENOENT);
        check_eq_str(found.name, "other");
}

/* Opening a FIFO for reading would wait for a writer forever. */
static void test_fifo(void)
{
        unlink(in_store("mine/image.json"));
        check_eq_int(mkfifo(in_store("mine/image.json"), 0644), 0);
        refuse("image mine: image.json: not a regular file");
}

static void test_link(void)
{
        put("elsewhere.json", good, strlen(good), 0644);
        unlink(in_store("mine/image.json"));
        check_eq_int(symlink("../elsewhere.json", in_store("mine/image.json")), 0);
        refuse("image.json: Too many levels of symbolic links");
        unlink(in_store("elsewhere.json"));
}

static void test_device(void)
{
        unlink(in_store("mine/image.json"));
        if (mknod(in_store("mine/image.json"), S_IFCHR | 0666, makedev(1, 5)) < 0) {
                put_good(); /* without root, devices cannot be created */
                return;
        }
        refuse("image.json: ");
}

static void test_socket(void)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        unlink(in_store("mine/image.json"));
        snprintf(address.sun_path, sizeof(address.sun_path), "%s", in_store("mine/image.json"));
        check_eq_int(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        refuse("image.json: No such device or address");
        close(fd);
}

static void test_directory(void)
{
        unlink(in_store("mine/image.json"));
        check_eq_int(mkdir(in_store("mine/image.json"), 0755), 0);
        refuse("image.json: not a regular file");
}

static void test_oversized(void)
{
        size_t n = IMAGE_JSON_MAX + 1;
        char *text = malloc(n);

        memset(text, ' ', n);
        put("mine/image.json", text, n, 0644);
        free(text);
        refuse("image.json");
}

static void test_hostile_json(void)
{
        size_t n = IMAGE_JSON_MAX;
        char *text = malloc(n);
        static const char *const texts[] = {
                "", "[", "{\"format\": 1}", "\xff\xfe",
                "{\"format\": 1, \"name\": \"mine\", \"python\": \"/usr/../bin/python3\"}"};

        memset(text, '[', n);
        put("mine/image.json", text, n, 0644);
        free(text);
        refuse("image.json");
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                put("mine/image.json", texts[i], strlen(texts[i]), 0644);
                refuse("image.json");
        }
}

static void test_root_is_a_link(void)
{
        struct image_choice choice = choice_of("mine", NULL);
        struct image_found found = {.root = -1, .packages = -1};
        struct error err;

        check_eq_int(rename(in_store("mine/root"), in_store("mine/kept")), 0);
        check_eq_int(symlink("/", in_store("mine/root")), 0);
        check(read_image(&choice, &found, &err) < 0);
        check_has(err.text, "image mine: root");
        check_eq_int(unlink(in_store("mine/root")), 0);
        check_eq_int(rename(in_store("mine/kept"), in_store("mine/root")), 0);
        check_ok(read_image(&choice, &found, &err));
}

/* The name of a default image depends on the interpreter and on a note; a note that cannot be read is
 * ignored. */
static void test_notes(void)
{
        struct image_choice choice = choice_of(NULL, "/bin/sh");
        struct image_found found = {.root = -1, .packages = -1};
        struct error err;
        char note[64], key[IMAGE_KEY_SIZE], without[IMAGE_NAME_SIZE];

        check_ok(image_choice_check(&choice, &err));
        image_parts_key("/bin/sh", key);
        snprintf(note, sizeof(note), ".parts-%s", key);
        check_eq_int(read_image(&choice, &found, &err), -ENOENT);
        check(*found.name);
        memcpy(without, found.name, sizeof(without));
        put(note, "/bin/cat\n", 9, 0644);
        check_eq_int(read_image(&choice, &found, &err), -ENOENT);
        check(strcmp(found.name, without) != 0);
        unlink(in_store(note));
        check_eq_int(mkfifo(in_store(note), 0644), 0);
        check_eq_int(read_image(&choice, &found, &err), -ENOENT);
        check_eq_str(found.name, without);
        unlink(in_store(note));

        choice = choice_of(NULL, "/bin/none");
        check_eq_int(image_choice_check(&choice, &err), -ENOENT);
        check_eq_int(read_image(&choice, &found, &err), -ENOENT);
        check_eq_str(found.name, "");
}

static void test_set_note(void)
{
        struct package_set set = {.with = {"six"}, .n_with = 1};
        struct image_choice choice;
        struct image_found found = {.root = -1, .packages = -1};
        struct error err = {};
        char note[64];

        check_ok(image_choose_set(&set, "/bin/sh", &choice, &err));
        check_eq_int(read_image(&choice, &found, &err), -ENOENT);
        check(strncmp(found.name, "set-", 4) == 0);
        snprintf(note, sizeof(note), ".set-%s", found.name + 4);
        put(note, "mine", 4, 0644);
        check_ok(read_image(&choice, &found, &err));
        check_eq_str(found.name, "mine");
        put(note, "../mine", 7, 0644);
        check_eq_int(read_image(&choice, &found, &err), -ENOENT);
        check(strncmp(found.name, "set-", 4) == 0);
        unlink(in_store(note));
}

/* Without an interpreter of a version, the reader finds an image that has it: under the filter. */
static void test_version(void)
{
        static const char other[] =
                "{\"format\": 1, \"name\": \"newer\", \"python\": \"/usr/bin/python3\", \"link\": \"module\","
                " \"version\": \"%s\", \"created\": \"2026-01-01T00:00:00Z\", \"source\": \"/x\", \"bytes\": 1, \"files\": 1%s}\n";
        struct image_choice choice = choice_of(NULL, "3.11");
        struct image_found found = {.root = -1, .packages = -1};
        const char *path = getenv("PATH");
        _cleanup_free_ char *kept = strdup(path ? path : "");
        struct error err;
        char text[512];

        setenv("PATH", "/nonexistent", 1);
        setenv("PYENV_ROOT", "/nonexistent", 1);
        setenv("UV_PYTHON_INSTALL_DIR", "/nonexistent", 1);
        check_ok(image_choice_check(&choice, &err));
        check_ok(read_image(&choice, &found, &err));
        check_eq_str(found.name, "mine");
        check_eq_int(mkdir(in_store("newer"), 0755), 0);
        check_eq_int(mkdir(in_store("newer/root"), 0755), 0);
        int n = snprintf(text, sizeof(text), other, "3.11.10", "");
        put("newer/image.json", text, (size_t)n, 0644);
        check_ok(read_image(&choice, &found, &err));
        check_eq_str(found.name, "newer");
        n = snprintf(text, sizeof(text), other, "3.11.10", ", \"set\": \"0123\"");
        put("newer/image.json", text, (size_t)n, 0644);
        check_ok(read_image(&choice, &found, &err));
        check_eq_str(found.name, "mine");
        choice = choice_of(NULL, "3.11.10");
        check_eq_int(read_image(&choice, &found, &err), -ENOENT);
        check_eq_str(found.name, "python-3.11.10");
        choice = choice_of(NULL, "3.11; rm");
        check_eq_int(read_image(&choice, &found, &err), -EINVAL);
        check_eq_int(unlink(in_store("newer/image.json")), 0);
        check_eq_int(rmdir(in_store("newer/root")), 0);
        check_eq_int(rmdir(in_store("newer")), 0);
        setenv("PATH", kept, 1);
}

/* The reader has the rights of the store's owner. */
static void test_rights(void)
{
        struct image_choice choice = choice_of("mine", NULL);
        struct image_found found = {.root = -1, .packages = -1};
        struct error err;

        if (geteuid() != 0)
                return;
        put("mine/image.json", good, strlen(good), 0600);
        check_ok(read_image(&choice, &found, &err));
        user = (struct upstream_user){.uid = 65534, .gid = 65534};
        check_eq_int(read_image(&choice, &found, &err), -EACCES);
        put_good();
        check_ok(read_image(&choice, &found, &err));
        user = (struct upstream_user){.uid = geteuid(), .gid = getegid(), .drop_capabilities = 1};
        /* Without capabilities root has no rights over the files of others. */
        check_eq_int(chown(in_store("mine/image.json"), 65534, 65534), 0);
        check_eq_int(chmod(in_store("mine/image.json"), 0600), 0);
        check_eq_int(read_image(&choice, &found, &err), -EACCES);
        put_good();
}

static void on_read(void *data, const struct error *error, struct image_found *found)
{
        int *seen = data;

        check(!error);
        check_eq_str(found->name, "mine");
        check(found->root >= 0);
        ++*seen;
}

static void test_in_a_loop(void)
{
        struct event_base *base = event_base_new();
        struct image_choice choice = choice_of("mine", NULL);
        struct child_tasks *tasks;
        struct children *children;
        struct image_reader *reader;
        struct error err = {};
        int seen = 0;

        check_ok(children_new(&children, &err));
        check_ok(child_tasks_new(base, children, &tasks, &err));
        check_ok(image_reader_start(tasks, &choice, &user, on_read, &seen, &reader, &err));
        event_base_dispatch(base);
        check_eq_int(seen, 1);
        check_ok(image_reader_start(tasks, &choice, &user, on_read, &seen, &reader, &err));
        check(!image_reader_cancel(reader));
        event_base_dispatch(base);
        check_eq_int(seen, 1);
        child_tasks_free(tasks);
        children_free(children);
        event_base_free(base);
        check_eq_int(waitpid(-1, NULL, WNOHANG), -1);
}

int main(void)
{
        user = (struct upstream_user){.uid = geteuid(), .gid = getegid(), .drop_capabilities = 1};
        check(mkdtemp(store));
        check_eq_int(chmod(store, 0755), 0);
        setenv("CLOISTER_IMAGE_STORE", store, 1);
        check_eq_int(mkdir(in_store("mine"), 0755), 0);
        check_eq_int(mkdir(in_store("mine/root"), 0755), 0);
        put_good();
        run(test_good);
        run(test_missing);
        run(test_fifo);
        run(test_link);
        run(test_device);
        run(test_socket);
        run(test_directory);
        run(test_oversized);
        run(test_hostile_json);
        run(test_root_is_a_link);
        run(test_notes);
        run(test_set_note);
        run(test_version);
        run(test_rights);
        run(test_in_a_loop);
        unlink(in_store("mine/image.json"));
        rmdir(in_store("mine/root"));
        rmdir(in_store("mine"));
        rmdir(store);
        return 0;
}
