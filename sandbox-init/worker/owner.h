/*
 * Which process the worker is: the one that claimed it, none of its children, however they were
 * made. Without a system call, where the kernel can wipe a page in whoever is forked (4.14).
 */
#pragma once

#include <stdbool.h>

void owner_claim(void);
bool owner_is_us(void); /* a child that shares our memory (vfork) counts as us until it execs */
