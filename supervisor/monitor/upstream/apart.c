/* Namespaces of a server. */
#include "supervisor/monitor/upstream/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mount.h"
#include "supervisor/monitor/ids/ids.h"

/* The id that stat(2) gives of an owner who is not mapped. */
enum { ID_UNMAPPED = 65534 };

pid_t apart_fork(struct error *err)
{
        pid_t pid = userns_fork(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS);

        if (pid < 0)
                error_set(err, -pid, "no namespaces of its own (%s): %s; or " APART_WAY_BACK,
                          strerrordesc_np(-pid), ids_namespace_hint(-pid));
        return pid;
}

int apart_map(pid_t pid, struct error *err)
{
        struct error why = {};
        int r = userns_map_same(pid, &why);

        return r < 0 ? error_set(err, -r, "namespaces of its own: %s; " APART_WAY_BACK, why.text)
                     : 0;
}

static int mount_proc(struct error *err)
{
        /* Mounts of the host that come later arrive here; those made here stay here. */
        if (mount("", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
                return error_errno(err, errno, "mounts");
        _cleanup_close_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return error_errno(err, errno, "open /");
        _cleanup_close_ int proc = mount_proc_new(MOUNT_PROC_WHOLE, err);
        return proc < 0 ? proc : mount_attach(proc, root, "proc", err);
}

int apart_enter(struct error *err)
{
        /* With the first a process could remove the mount. A user namespace that a server makes gets all capabilities in itself, and
         * finds the mount locked. */
        static const int never[] = {CAP_SYS_ADMIN, CAP_SYS_PTRACE};
        struct error why = {};
        int r = mount_proc(&why);

        if (r < 0)
                return error_set(err, -r, "a /proc of its own: %s; " APART_WAY_BACK, why.text);
        for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
                if (prctl(PR_CAPBSET_DROP, never[i], 0, 0, 0) < 0)
                        return error_errno(err, errno, "drop capabilities");
        }
        return 0;
}

int apart_check_program(const char *path, struct error *err)
{
        struct stat st;

        if (stat(path, &st) < 0 || !(st.st_mode & S_ISUID) || st.st_uid != ID_UNMAPPED)
                return 0;
        return error_set(
                err, EPERM,
                "%s changes its user, which it cannot in namespaces of its own: " APART_WAY_BACK,
                path);
}

void apart_kill_all(void)
{
        kill(-1, SIGKILL);
}
