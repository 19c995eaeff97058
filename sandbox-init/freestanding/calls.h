/*
 * The system call functions of libc that the sources of cloister-module use. Their prototypes are those of
 * the libc headers.
 *
 * errno is one variable for all threads: only code that holds the interpreter's lock, or that is the only
 * thread between clone and exec, may call these. The channel, which several threads use, makes raw calls.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
