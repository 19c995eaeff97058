/* Codes of the errors of templates. */
#include "supervisor/monitor/template/template-errors.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/mount.h"
#include "rpc/monitor-messages.h"

void template_error_mark(struct error *error)
{
        static const int others[] = {EAGAIN, ENOMEM, EMFILE,          ENFILE,  ECANCELED,
                                     EINTR,  ELOOP,  MOUNT_CODE_TREE, ENOTDIR, EXDEV};

        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                if (error->code == others[i])
                        return;
        error->code = MONITOR_CODE_NO_SANDBOX;
}

/* ESTALE would tell the owner that this template has ended. */
void template_error_sanitize(struct error *error)
{
        error_sanitize(error);
        if (error->code == ESTALE || error->code == 0)
                error->code = EIO;
}
