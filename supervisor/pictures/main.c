/*
 * cloister-pictures: checks pictures before they become image content. The monitor starts it at the first picture, in
 * namespaces of its own, with the broker's socket and a filter as descriptors:
 *
 *     cloister-pictures UID
 *
 * Before the first request it makes its root empty, becomes UID (-1: it is that already), and gives up every privilege.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/landlock.h"
#include "base/mount.h"
#include "supervisor/pictures/serve.h"

enum { SOCKET_FD = 3, FILTER_FD };

static int give_up(struct error *err)
{
        struct error ignored = {};

        int r = capabilities_drop(err);
        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_errno(err, errno, "no_new_privs");
        landlock_confine(NULL, 0, false, &ignored);
        setrlimit(RLIMIT_CORE, &(struct rlimit){1, 1});
        return 0;
}

int main(int argc, char **argv)
{
        struct error err = {};

        if (argc != 2) {
                fprintf(stderr, "cloister-pictures is started by Cloister\n");
                return 2;
        }
        uid_t uid = (uid_t)strtol(argv[1], NULL, 10);
        int r = mount_empty_root(&err);
        if (r >= 0 && uid != (uid_t)-1)
                r = capabilities_become(uid, &err);
        if (r >= 0)
                r = give_up(&err);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (r >= 0)
                r = pictures_serve(SOCKET_FD, FILTER_FD, &err);
        if (r < 0)
                fprintf(stderr, "cloister-pictures: %s\n", err.text);
        return r < 0;
}
