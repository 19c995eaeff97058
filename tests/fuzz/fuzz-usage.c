/* Counters of a session as text: of a process, whose name the code in it chooses, or of a cgroup. The
 * first byte says which. Accepted when a number was found. */
#include "supervisor/session/cell/meter.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <sys/mman.h>
#include <unistd.h>

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        static int fd = -1;

        if (n < 1)
                return false;
        if (fd < 0)
                fd = memfd_create("usage", MFD_CLOEXEC);
        assert(fd >= 0 && ftruncate(fd, 0) == 0);
        assert(pwrite(fd, data + 1, n - 1, 0) == (ssize_t)(n - 1));
        enum monitor_usage kind = (enum monitor_usage)(data[0] % MONITOR_USAGE_MAX);
        const struct meter meter = {.fds = {fd, fd, fd}};
        return meter_cpu_us(&meter, kind) > 0 || meter_memory(&meter, kind) > 0 ||
               meter_most(&meter, kind) > 0;
}

FUZZ_TARGET
