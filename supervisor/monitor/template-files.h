/*
 * The files that every template gets: our programs and the system call filters, as sealed memfds
 * that all templates share. Each is made when it is first needed.
 */
#pragma once

#include "base/error.h"
#include "policy/config/config.h"
#include "policy/seccomp/rules.h"
#include "supervisor/monitor/template/template.h"

struct template_files {
        int worker, module, init;                   /* our executables, opened for reading */
        int worker_memfd, module_memfd, init_memfd; /* sealed copies, or -1 */
        int filters[FILTER_KIND_MAX];               /* memfds, or -1 */
};

void template_files_init(struct template_files *files);
void template_files_done(struct template_files *files);

/* Opens the executables. Call before privilege goes: a build tree below a home directory is closed
 * to a root without CAP_DAC_OVERRIDE. */
int template_files_open(struct template_files *files, struct error *err);

/* Returns the sealed filter of a kind (borrowed), or negative errno. */
int template_files_filter(struct template_files *files, enum filter_kind kind, struct error *err);

/* Fills the programs and filters of parts, by parts->image and the profile. */
int template_files_get(struct template_files *files, const struct config_profile *settings,
                       struct template_parts *parts, struct error *err);
