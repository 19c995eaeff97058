/* Payloads in memfds. */
#include "rpc/memfd-frame.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/fd.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Kernels before 6.3 do not know MFD_NOEXEC_SEAL. */
static int new_memfd(void)
{
        int fd = memfd_create("cloister-result", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

        if (fd < 0 && errno == EINVAL)
                fd = memfd_create("cloister-result", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return fd < 0 ? -errno : fd;
}

int memfd_frame_make(const struct iovec *parts, size_t n)
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
