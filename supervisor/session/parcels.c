/* Large results in memfds. */
#include "supervisor/session/parcels.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

void parcels_init(struct parcels *p)
{
        *p = (struct parcels){};
        TAILQ_INIT(&p->list);
}

void parcels_remove(struct parcels *p, struct parcel *parcel)
{
        TAILQ_REMOVE(&p->list, parcel, link);
        p->n--;
        p->bytes -= parcel->length;
        (void)!ftruncate(parcel->fd, 0);
        close(parcel->fd);
        free(parcel);
}

void parcels_done(struct parcels *p)
{
        while (!TAILQ_EMPTY(&p->list))
                parcels_remove(p, TAILQ_FIRST(&p->list));
}

/* Kernels before 6.3 do not know MFD_NOEXEC_SEAL. */
static int new_memfd(void)
{
        int fd = memfd_create("cloister-result", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

        if (fd < 0 && errno == EINVAL)
                fd = memfd_create("cloister-result", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return fd < 0 ? -errno : fd;
}

int parcel_make(const struct iovec *parts, size_t n)
{
        _cleanup_close_ int fd = new_memfd();

        if (fd < 0)
                return fd;
        for (size_t i = 0; i < n; i++) {
                int r = fd_write_all(fd, parts[i].iov_base, parts[i].iov_len);
                if (r < 0)
                        return r;
        }
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
                return -errno;
        return take_fd(fd);
}

int parcels_add(struct parcels *p, int fd, size_t length, uint64_t id, uint64_t at)
{
        struct parcel *parcel = malloc(sizeof(*parcel));

        if (!parcel) {
                close(fd);
                return -ENOMEM;
        }
        *parcel = (struct parcel){.fd = fd, .id = id, .length = length, .at = at};
        TAILQ_INSERT_TAIL(&p->list, parcel, link);
        p->n++;
        p->bytes += length;
        return 0;
}

struct parcel *parcels_unsent(const struct parcels *p)
{
        struct parcel *parcel;

        TAILQ_FOREACH(parcel, &p->list, link)
        {
                if (!parcel->sent)
                        return parcel;
        }
        return NULL;
}

static bool is_read(const struct parcel *parcel)
{
        struct stat st;

        return parcel->sent && fstat(parcel->fd, &st) == 0 && st.st_size == 0;
}

void parcels_reap(struct parcels *p)
{
        struct parcel *parcel = TAILQ_FIRST(&p->list);

        while (parcel) {
                struct parcel *next = TAILQ_NEXT(parcel, link);
                if (is_read(parcel))
                        parcels_remove(p, parcel);
                parcel = next;
        }
}

void parcels_take_back(struct parcels *p, uint64_t id)
{
        struct parcel *parcel;

        TAILQ_FOREACH(parcel, &p->list, link)
        {
                if (parcel->sent && parcel->id == id) {
                        parcels_remove(p, parcel);
                        return;
                }
        }
}

void parcels_shift(struct parcels *p, size_t bytes)
{
        struct parcel *parcel;

        TAILQ_FOREACH(parcel, &p->list, link)
        {
                if (!parcel->sent)
                        parcel->at += bytes;
        }
}
