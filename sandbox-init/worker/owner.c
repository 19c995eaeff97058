/* Tells the worker from its children. */
#include "sandbox-init/worker/owner.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox-init/raw.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { PAGE = 4096 };

static struct {
        pid_t pid;
        volatile uint8_t *mark; /* not 0 in the owner; NULL: ask for the pid */
} owner;

static uint8_t *wiped_page(void)
{
        long at = raw_call(SYS_mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                           -1, 0);

        if (at < 0 && at >= -4095)
                return NULL;
        if (raw_call(SYS_madvise, at, PAGE, MADV_WIPEONFORK, 0, 0, 0) < 0) {
                raw_call(SYS_munmap, at, PAGE, 0, 0, 0, 0);
                return NULL;
        }
        return (uint8_t *)(uintptr_t)at;
}

static pid_t own_pid(void)
{
        return (pid_t)raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

void owner_set(void)
{
        /* In a fork of an owner the page exists, and is wiped. */
        if (!owner.mark)
                owner.mark = wiped_page();
        if (owner.mark)
                *owner.mark = 1;
        owner.pid = own_pid();
}

/* The kernel wipes pages of the mapping, not of the address. */
void owner_renew(void)
{
        owner.mark = NULL;
        owner_set();
}

bool owner_is_us(void)
{
        return owner.mark ? *owner.mark != 0 : owner.pid != 0 && owner.pid == own_pid();
}
