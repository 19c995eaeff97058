/*
 * Finds an image in the store.
 *
 * The store belongs to the user that images are built as, and upstream servers run as that user too.
 * The monitor therefore neither opens nor parses a file of the store. A child (child-task.h) does:
 * it becomes that user, gives up every capability and loads FILTER_READER, then reads the store's
 * notes (.parts-KEY, .set-KEY) and image.json. It answers with a struct of fixed size and two
 * descriptors. The monitor checks the struct, and that the descriptors are the image's directories.
 */
#pragma once

#include "base/error.h"
#include "policy/image.h"
#include "supervisor/monitor/image/image-store.h"
#include "supervisor/monitor/process/child-task.h"

enum { IMAGE_READ_MS = 10000 };

struct image_found {
        char name[IMAGE_NAME_SIZE];
        struct image_info info; /* without packages */
        int root;               /* O_PATH directory */
        int packages; /* the same, of the profile's packages (docs/packages.md); -1: none */
};

struct image_reader;

/*
 * Called once from the event loop. found->name is the image's name as of now, "" if it could not be
 * told; an image has another name after a build of packages, or when its interpreter was upgraded.
 * error: -ENOENT means that there is no image of that name, ETIMEDOUT that the store did not answer.
 * The callee takes found->root and found->packages when it sets them to -1.
 */
typedef void image_reader_done(void *data, const struct error *error, struct image_found *found);

/* An image that was found is kept from being removed until this process ends. user: the owner of the
 * store. */
int image_reader_start(struct child_tasks *tasks, const struct image_choice *choice,
                       const struct upstream_user *user, image_reader_done *done, void *data,
                       struct image_reader **ret, struct error *err);
/* done() is not called. Not needed once done() was called. NULL is allowed. Returns NULL. */
struct image_reader *image_reader_cancel(struct image_reader *reader);

/* The same without an event loop; waits for IMAGE_READ_MS at most. found->root is the caller's. */
int image_read(const struct image_choice *choice, const struct upstream_user *user,
               struct image_found *found, struct error *err);
