/* Checks a dump before it is loaded: it comes from code of the guest (mappings.h names what may be used here). */
#pragma once

#include "sandbox-init/worker/memory/dump.h"

/* thread_pointer, channel, template_id: those of the process that is to be replaced. Returns 0 or what load_replace() does. */
long dump_check_header(const struct dump_header *header, const uint8_t template_id[16],
                       uint64_t thread_pointer, uint64_t channel);

/* Whether the mappings are in order, none is where the scratch memory is, and all of the kernel's and the program's are among
 * the process's own. Does not check files. */
bool dump_check_mappings(const struct mapping *list, uint64_t n, const struct mapping *own,
                         long n_own, uint64_t scratch_size);

/* The mapping with all pages of the run, which may be written to; or NULL. Runs come in the order of addresses:
 * *from is where the search begins, 0 at first. */
struct mapping *dump_find_run(struct mapping *list, uint64_t n, const struct dump_run *run,
                              uint64_t *from);

/* The one that is equal. The list is in the order of addresses, and so are the calls: *from is where the search begins. */
const struct mapping *mapping_find(const struct mapping *list, long n, long *from,
                                   const struct mapping *mapping);
