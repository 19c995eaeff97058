/* Functions for memory and strings. */
#include "sandbox-init/freestanding/string.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "sandbox-init/freestanding/format.h"

/* The compiler would replace a plain loop by a call of this same function. */
static void move_up(unsigned char *to, const unsigned char *from, size_t n)
{
#if defined(__x86_64__)
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
#else
        for (; n >= sizeof(uint64_t); n -= sizeof(uint64_t)) {
                uint64_t word;
                __builtin_memcpy(&word, from, sizeof(word));
                __builtin_memcpy(to, &word, sizeof(word));
                to += sizeof(word);
                from += sizeof(word);
                __asm__ volatile("" : : : "memory");
        }
        while (n-- > 0) {
                *to++ = *from++;
                __asm__ volatile("" : : : "memory");
        }
#endif
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
        move_up(to, from, n);
        return to;
}

void *memmove(void *to, const void *from, size_t n)
{
        unsigned char *t = to;
        const unsigned char *f = from;

        if ((uintptr_t)t - (uintptr_t)f >= n) {
                move_up(t, f, n);
                return to;
        }
        while (n-- > 0) {
                t[n] = f[n];
                __asm__ volatile("" : : : "memory");
        }
        return to;
}

void *memset(void *to, int value, size_t n)
{
        unsigned char *t = to;

        while (n-- > 0) {
                *t++ = (unsigned char)value;
                __asm__ volatile("" : : : "memory");
        }
        return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
        const unsigned char *x = a, *y = b;

        for (; n > 0; n--, x++, y++)
                if (*x != *y)
                        return *x < *y ? -1 : 1;
        return 0;
}

size_t strlen(const char *text)
{
        size_t n = 0;

        while (text[n])
                n++;
        return n;
}

int strcmp(const char *a, const char *b)
{
        while (*a && *a == *b) {
                a++;
                b++;
        }
        return (unsigned char)*a - (unsigned char)*b;
}

int strncmp(const char *a, const char *b, size_t n)
{
        for (; n > 0 && *a && *a == *b; n--) {
                a++;
                b++;
        }
        return n == 0 ? 0 : (unsigned char)*a - (unsigned char)*b;
}

char *strchr(const char *text, int c)
{
        for (; *text != (char)c; text++)
                if (!*text)
                        return NULL;
        return (char *)(uintptr_t)text;
}

size_t strcspn(const char *text, const char *ends)
{
        size_t n = 0;

        while (text[n] && !strchr(ends, text[n]))
                n++;
        return n;
}

char *strrchr(const char *text, int c)
{
        char *found = NULL;

        for (;; text++) {
                if (*text == (char)c)
                        found = (char *)(uintptr_t)text;
                if (!*text)
                        return found;
        }
}

int vsnprintf(char *restrict text, size_t size, const char *restrict format, va_list args)
{
        return format_text(text, size, format, args);
}

int snprintf(char *restrict text, size_t size, const char *restrict format, ...)
{
        va_list args;

        va_start(args, format);
        int r = format_text(text, size, format, args);
        va_end(args);
        return r;
}

/* The errors that may occur when a session is made. */
const char *strerrordesc_np(int code)
{
        static const struct {
                int code;
                const char *text;
        } list[] = {
                {EPERM, "Operation not permitted"},
                {ENOENT, "No such file or directory"},
                {ESRCH, "No such process"},
                {EINTR, "Interrupted system call"},
                {EIO, "Input/output error"},
                {ENXIO, "No such device or address"},
                {E2BIG, "Argument list too long"},
                {ENOEXEC, "Exec format error"},
                {EBADF, "Bad file descriptor"},
                {ECHILD, "No child processes"},
                {EAGAIN, "Resource temporarily unavailable"},
                {ENOMEM, "Cannot allocate memory"},
                {EACCES, "Permission denied"},
                {EFAULT, "Bad address"},
                {EBUSY, "Device or resource busy"},
                {EEXIST, "File exists"},
                {EXDEV, "Invalid cross-device link"},
                {ENODEV, "No such device"},
                {ENOTDIR, "Not a directory"},
                {EISDIR, "Is a directory"},
                {EINVAL, "Invalid argument"},
                {ENFILE, "Too many open files in system"},
                {EMFILE, "Too many open files"},
                {EFBIG, "File too large"},
                {ENOSPC, "No space left on device"},
                {EROFS, "Read-only file system"},
                {EPIPE, "Broken pipe"},
                {ENAMETOOLONG, "File name too long"},
                {ENOSYS, "Function not implemented"},
                {ELOOP, "Too many levels of symbolic links"},
                {EOVERFLOW, "Value too large for defined data type"},
                {EUSERS, "Too many users"},
                {EMSGSIZE, "Message too long"},
                {EOPNOTSUPP, "Operation not supported"},
                {ENOBUFS, "No buffer space available"},
                {ECONNRESET, "Connection reset by peer"},
                {ETIMEDOUT, "Connection timed out"},
        };

        for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
                if (list[i].code == code)
                        return list[i].text;
        return NULL;
}
