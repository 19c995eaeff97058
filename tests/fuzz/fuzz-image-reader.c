/*
 * The answer of the child that reads the image store, and of the one that checks a sandbox's network. A
 * stand-in for child-task.c hands the monitor a valid answer with changes:
 *
 *     byte 0   'i' image, 'j' the same without an event loop, 'n' network
 *     byte 1   how many descriptors; bytes 2 and 3: which (files[])
 *     then     changes: two bytes of place, one of length, content
 *
 * Accepted when the monitor takes it as a success. Then everything that it took is valid.
 */
#include "supervisor/monitor/image/image-reader.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/monitor/template/network-check.h"
#include "tests/fuzz/descriptors.h"
#include "tests/fuzz/fuzz.h"

enum { HEADER = 4, IMAGES = 2 };

/* As in image-reader.c. */
struct image_reply {
        struct error error;
        char name[IMAGE_NAME_SIZE];
        struct image_info info;
        uint32_t packages;
};

static char folder[64];
static int files[8]; /* the first two are right */
static int n_kept;
static const uint8_t *input;
static size_t input_length;

/* ---- the stand-in ---- */

struct child_task {
        child_task_done *done;
        void *data;
        size_t reply_size;
};

static struct child_task task;

int child_tasks_new(struct event_base *base, struct children *children, struct child_tasks **ret,
                    struct error *err)
{
        return -ENOTSUP;
}

struct child_tasks *child_tasks_free(struct child_tasks *tasks)
{
        return NULL;
}

int child_task_start(struct child_tasks *tasks, const struct child_task_spec *spec,
                     child_task_done *done, void *data, struct child_task **ret, struct error *err)
{
        task = (struct child_task){done, data, spec->reply_size};
        *ret = &task;
        return 0;
}

struct child_task *child_task_cancel(struct child_task *t)
{
        return NULL;
}

static void fill_image(struct image_reply *reply)
{
        strcpy(reply->name, "mine");
        strcpy(reply->info.name, "mine");
        strcpy(reply->info.python, "/usr/bin/python3");
        strcpy(reply->info.libpython, "/usr/lib/libpython3.so");
        strcpy(reply->info.version, "3.11.2");
        strcpy(reply->info.created, "2026-01-01T00:00:00Z");
        strcpy(reply->info.source, "/usr/bin/python3");
}

static void change(uint8_t *reply, size_t size)
{
        const uint8_t *at = input + HEADER, *end = input + input_length;

        while (end - at > 3) {
                size_t place = (size_t)(at[0] | at[1] << 8) % size, n = at[2];
                at += 3;
                if (n > (size_t)(end - at))
                        n = (size_t)(end - at);
                if (n > size - place)
                        n = size - place;
                memcpy(reply + place, at, n);
                at += n;
        }
}

static size_t answer(void *reply, size_t size, int fds[CHILD_TASK_FDS])
{
        size_t n = input[1] % (CHILD_TASK_FDS + 1);

        memset(reply, 0, size);
        if (input[0] != 'n') {
                assert(size == sizeof(struct image_reply));
                fill_image(reply);
        }
        change(reply, size);
        for (size_t i = 0; i < n; i++)
                fds[i] = fcntl(files[input[2 + i % (HEADER - 2)] % ARRAY_SIZE(files)],
                               F_DUPFD_CLOEXEC, 0);
        return n;
}

int child_task_run(const struct child_task_spec *spec, void *reply, int fds[CHILD_TASK_FDS],
                   size_t *n_fds, struct error *err)
{
        *n_fds = answer(reply, spec->reply_size, fds);
        return 0;
}

/* ---- the store ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
        return remove(path);
}

static void remove_all(void)
{
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int make(const char *name, int flags)
{
        char path[128];

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        if (flags & O_DIRECTORY)
                assert(mkdir(path, 0755) == 0);
        int fd = open(path, flags | (flags & O_DIRECTORY ? 0 : O_CREAT) | O_CLOEXEC, 0644);
        assert(fd >= 0);
        return fd;
}

static void make_store(void)
{
        snprintf(folder, sizeof(folder), "/dev/shm/fuzz-image-reader-XXXXXX");
        assert(mkdtemp(folder));
        atexit(remove_all);
        files[7] = make("mine", O_DIRECTORY);
        files[0] = make("mine/root", O_DIRECTORY);
        files[1] = make("mine/" IMAGE_LOCK, O_RDONLY);
        files[6] = make("other", O_DIRECTORY);
        files[2] = make("other/root", O_DIRECTORY);
        files[3] = make("other/" IMAGE_LOCK, O_RDONLY);
        files[4] = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        files[5] = memfd_create("lock", MFD_CLOEXEC);
}

/* ---- what the monitor took ---- */

static bool took;

static void check_error(const struct error *error)
{
        assert(error->code > 0 && error->code < 4096);
        assert(memchr(error->text, '\0', sizeof(error->text)));
}

static void check_found(struct image_found *found)
{
        char link[64], real[PATH_MAX] = "", expected[PATH_MAX];

        assert(image_name_valid(found->name) && image_info_valid(&found->info));
        assert(!found->info.packages && found->info.n_packages == 0);
        snprintf(link, sizeof(link), "/proc/self/fd/%d", found->root);
        assert(readlink(link, real, sizeof(real) - 1) > 0);
        snprintf(expected, sizeof(expected), "%s/%s/root", folder, found->name);
        assert(strcmp(real, expected) == 0);
}

static void on_image(void *data, const struct error *error, struct image_found *found)
{
        took = !error;
        if (error)
                check_error(error);
        else
                check_found(found);
        /* It would tell the broker that the config has changed. */
        assert(!error || error->code != ESTALE);
}

static void on_network(void *data, const struct error *error, int listener)
{
        took = !error;
        if (listener >= 0)
                close(listener);
        if (error)
                check_error(error);
}

static void finish(void)
{
        int fds[CHILD_TASK_FDS] = {-1, -1, -1};
        _cleanup_free_ void *reply = malloc(task.reply_size);
        size_t n = answer(reply, task.reply_size, fds);

        task.done(task.data, NULL, reply, fds, n);
        fd_close_many(fds, n);
}

static void read_image(bool in_loop)
{
        struct image_choice choice = {.python = "/usr/bin/python3", .name = "mine"};
        struct upstream_user user = {};
        struct image_found found = {.root = -1};
        struct image_reader *reader = NULL;
        struct error err = {};

        snprintf(choice.store, sizeof(choice.store), "%s", folder);
        if (in_loop) {
                assert(image_reader_start(NULL, &choice, &user, on_image, NULL, &reader, NULL) ==
                       0);
                finish();
                return;
        }
        took = image_read(&choice, &user, &found, &err) >= 0;
        if (took)
                check_found(&found);
        else
                check_error(&err);
        if (found.root >= 0)
                close(found.root);
}

static void check_network(void)
{
        struct network_check *check = NULL;

        assert(network_check_start(NULL, getpid(), CONFIG_NETWORK_NONE, on_network, NULL, &check,
                                   NULL) == 0);
        finish();
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        if (n < HEADER)
                return false;
        if (!*folder)
                make_store();
        input = data;
        input_length = n;
        took = false;
        int before = count_descriptors();
        if (data[0] == 'i' || data[0] == 'j')
                read_image(data[0] == 'i');
        else if (data[0] == 'n')
                check_network();
        /* The lock of each image that was found is kept. */
        n_kept += count_descriptors() - before;
        assert(n_kept >= 0 && n_kept <= IMAGES);
        return took;
}

FUZZ_TARGET
