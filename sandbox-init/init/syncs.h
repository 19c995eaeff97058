/*
 * fsync(), fdatasync(), sync_file_range() and msync() with MS_SYNC, where a mount is writable. Their number is bounded, because the
 * kernel charges the commits of a file system's journal to no process. All sessions of a template have a bound together,
 * in memory that their inits share.
 */
#pragma once

/* Takes INIT_SYNCS_FD. Returns 0, or negative errno. */
int syncs_open(void);

/* One more call: CALL_GOES_ON, or CALL_WAITS if it is above the bound now (caller.h). */
int syncs_call(void);
