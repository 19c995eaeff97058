/* Starts the process of a template in the namespaces of its stub. */
#pragma once

#include "base/error.h"
#include "supervisor/monitor/process/children.h"
#include "supervisor/monitor/template/stub.h"

/* Limits of its process; UINT64_MAX: none. Sessions inherit them, and may only lower them. */
struct template_rlimits {
        uint64_t files;     /* open ones */
        uint64_t data;      /* bytes */
        uint64_t file_size; /* bytes */
        uint64_t processes; /* of its id, and of sessions with that id */
};

/* Descriptors, all borrowed. */
struct template_launch {
        int control;  /* the template's end of its socket */
        int init;     /* sealed memfd: cloister-init */
        int messages; /* its standard error; standard input and output are /dev/null, never our
                         client's */
        struct template_rlimits rlimits;
        int cgroup; /* version 2: its control group; -1: the monitor's */
};

/* Returns its pid, which is added to children. */
pid_t template_launch(const struct stub *stub, struct children *children,
                      const struct template_launch *how, struct error *err);
