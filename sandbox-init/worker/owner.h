/*
 * Tells the worker from its children, however they were made. Needs no system call where the kernel
 * can wipe a page in forked processes (MADV_WIPEONFORK, Linux 4.14).
 */
#pragma once

#include <stdbool.h>

void owner_set(void);
void owner_renew(void); /* as owner_set(), in memory that came from another process */
bool owner_is_us(void); /* also true in a child that shares the memory (vfork), until it execs */
