/*
 * Makes a filter that libseccomp has compiled shorter: the kernel translates it for each process
 * that loads it, and takes as long as it has instructions.
 *
 * Two things are in it that do nothing. libseccomp asks for each number by itself, also where a
 * hundred neighbours have the same answer; and it loads the upper half of an argument of which only
 * the lower one is compared, takes no bit of it, and sees that none is set.
 *
 * What comes out is to be held against the table (filter_check()), as what went in.
 */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

/* In place. Returns the new length, or n where the program is of another shape, is not shorter
 * after it, or memory has run out: it is as it was then. */
size_t bpf_shrink(struct sock_filter *program, size_t n);
