/*
 * Serves checks of pictures: the process that reads no picture.
 *
 * For each request (rpc/picture-messages.h) it forks a child, which gets the picture, a memfd for the one to send, and a pipe for the
 * answer, loads FILTER_PICTURE, and ends after its answer. A child has PICTURE_CPU_MS of processor time, PICTURE_WALL_MS of
 * time, and CHILD_MEMORY of address space. PICTURE_CHILDREN_MAX run at a time: a request above that is answered with
 * PICTURE_REASON_ENDED.
 */
#pragma once

#include "base/error.h"

/* socket: of the broker; filter: a memfd with FILTER_PICTURE. Returns 0 when the broker has ended, or negative errno. */
int pictures_serve(int socket, int filter, struct error *err);
