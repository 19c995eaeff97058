/* Large results in memfds. */
#include "supervisor/session/channel/memfd-queue.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

void memfd_queue_init(struct memfd_queue *p)
{
        *p = (struct memfd_queue){};
        TAILQ_INIT(&p->list);
}

void memfd_queue_remove(struct memfd_queue *p, struct memfd_frame *frame)
{
        TAILQ_REMOVE(&p->list, frame, link);
        p->n--;
        p->bytes -= frame->length;
        (void)!ftruncate(frame->fd, 0);
        close(frame->fd);
        free(frame);
}

void memfd_queue_done(struct memfd_queue *p)
{
        while (!TAILQ_EMPTY(&p->list))
                memfd_queue_remove(p, TAILQ_FIRST(&p->list));
}

int memfd_queue_add(struct memfd_queue *p, int fd, size_t length, uint64_t id, uint64_t at)
{
        struct memfd_frame *frame = malloc(sizeof(*frame));

        if (!frame) {
                close(fd);
                return -ENOMEM;
        }
        *frame = (struct memfd_frame){.fd = fd, .id = id, .length = length, .at = at};
        TAILQ_INSERT_TAIL(&p->list, frame, link);
        p->n++;
        p->bytes += length;
        return 0;
}

struct memfd_frame *memfd_queue_unsent(const struct memfd_queue *p)
{
        struct memfd_frame *frame;

        TAILQ_FOREACH (frame, &p->list, link) {
                if (!frame->sent)
                        return frame;
        }
        return NULL;
}

static bool is_read(const struct memfd_frame *frame)
{
        struct stat st;

        return frame->sent && fstat(frame->fd, &st) == 0 && st.st_size == 0;
}

void memfd_queue_reap(struct memfd_queue *p)
{
        struct memfd_frame *frame = TAILQ_FIRST(&p->list);

        while (frame) {
                struct memfd_frame *next = TAILQ_NEXT(frame, link);
                if (is_read(frame))
                        memfd_queue_remove(p, frame);
                frame = next;
        }
}

void memfd_queue_take_back(struct memfd_queue *p, uint64_t id)
{
        struct memfd_frame *frame;

        TAILQ_FOREACH (frame, &p->list, link) {
                if (frame->sent && frame->id == id) {
                        memfd_queue_remove(p, frame);
                        return;
                }
        }
}

void memfd_queue_shift(struct memfd_queue *p, size_t bytes)
{
        struct memfd_frame *frame;

        TAILQ_FOREACH (frame, &p->list, link) {
                if (!frame->sent)
                        frame->at += bytes;
        }
}
