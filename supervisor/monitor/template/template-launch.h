/* Starts the process of a template in its stub's namespaces. */
#pragma once

#include "base/error.h"
#include "supervisor/monitor/process/children.h"
#include "supervisor/monitor/template/stub.h"

/* What it is started with; all borrowed. */
struct template_launch {
        int control;  /* the template's end of its socket */
        int init;     /* sealed memfd: cloister-init */
        int messages; /* its standard error; standard input and output are /dev/null, never our
                         client's */
        int cgroup;   /* version 2: where it is made; -1: where we are */
};

/* Returns its pid, registered as a child of ours. */
pid_t template_launch(const struct stub *stub, struct children *children,
                      const struct template_launch *how, struct error *err);
