#include "supervisor/monitor/template/heap-files.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Its mode denies to open it by another process's /proc/PID/fd. */
static int make(const char *name, struct error *err)
{
        _cleanup_close_ int fd = memfd_create(name,
                                              MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

        /* Kernels before 6.3 reject MFD_NOEXEC_SEAL with EINVAL. */
        if (fd < 0 && errno == EINVAL)
                fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0 || fchmod(fd, 0) < 0)
                return error_errno(err, errno, "memfd %s", name);
        return take_fd(fd);
}

int heap_files_make(struct heap_files *ret, struct error *err)
{
        _cleanup_close_ int draft = make("cloister-draft", err);
        int heap = draft < 0 ? draft : make("heap", err);

        if (heap < 0)
                return heap;
        *ret = (struct heap_files){take_fd(draft), heap};
        return 0;
}

void heap_files_close(struct heap_files *files)
{
        fd_close_many(&files->draft, 1);
        fd_close_many(&files->heap, 1);
}

static uint64_t size_of(int fd)
{
        struct stat st;

        return fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

uint64_t heap_files_size(const struct heap_files *files)
{
        return size_of(files->draft) + size_of(files->heap);
}
