/* The tables of our own processes that read files which others wrote. */
#include "policy/seccomp/helper-rules.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "policy/seccomp/rule-words.h"

/* The image reader opens files for reading, answers on its socket, and exits. It creates no process, no socket and no executable
 * memory. */
const struct filter_rule filter_reader_all[] = {
        {"openat", ALLOW, {CLEAR(2, O_ACCMODE | O_CREAT | O_TRUNC)}},
        {"read pread64 lseek close utimensat stat lstat fstat newfstatat statx", ALLOW},
        {"getdents64", ALLOW}, /* of the store, for an image by the version of its Python */
        {"brk munmap mremap madvise futex getrandom sigaltstack rt_sigprocmask rt_sigreturn exit "
         "exit_group",
         ALLOW},
        {"mmap mprotect", ALLOW, {CLEAR(2, PROT_EXEC)}},
        {"fcntl", ALLOW, {EQUAL(1, F_DUPFD_CLOEXEC)}},
        {"fcntl", ALLOW, {EQUAL(1, F_OFD_SETLK)}},
        {"sendmsg", ALLOW, {CLEAR(2, MSG_DENIED)}},
        END_OF_RULES,
};

/* The child of cloister-pictures has the picture in memory: it writes an answer, and perhaps a picture, and exits. */
const struct filter_rule filter_picture_all[] = {
        {"write close brk munmap mremap madvise futex rt_sigreturn exit exit_group", ALLOW},
        {"mmap", ALLOW, {CLEAR(2, PROT_EXEC)}},
        END_OF_RULES,
};

/* cloister-journal opens, reads, appends to and removes files of one directory, and signs. It creates no process, no socket and no
 * executable memory; its only peer is the broker, by the socket that it was given. */
const struct filter_rule filter_journal_all[] = {
        {"read pread64 write lseek close fstat newfstatat statx getdents64 unlinkat ftruncate flock fsync "
         "fdatasync fchmod recvmsg sendmsg poll ppoll clock_gettime clock_nanosleep nanosleep getrandom "
         "getpid geteuid brk munmap mremap madvise futex rt_sigprocmask rt_sigreturn restart_syscall exit "
         "exit_group",
         ALLOW},
        {"openat", ALLOW, {CLEAR(3, S_ISUID | S_ISGID)}},
        {"fcntl", ALLOW, {EQUAL(1, 0)}, VALUES(F_GETFL, F_SETFD, F_DUPFD_CLOEXEC)},
        {"mmap mprotect", ALLOW, {CLEAR(2, PROT_EXEC)}},
        END_OF_RULES,
};

/* cloister-inject reads and writes the sockets that it was given, and waits for them. It opens no file, creates no process, no socket and no
 * executable memory. */
const struct filter_rule filter_inject_all[] = {
        {"read write close recvfrom recvmsg sendmsg shutdown epoll_ctl epoll_wait epoll_pwait epoll_pwait2 "
         "clock_gettime gettimeofday time getrandom getpid gettid brk munmap mremap madvise futex "
         "rt_sigprocmask rt_sigreturn restart_syscall exit exit_group",
         ALLOW},
        {"fcntl", ALLOW, {EQUAL(1, 0)}, VALUES(F_GETFL, F_SETFD, F_GETFD, F_SETFL)},
        {"mmap mprotect", ALLOW, {CLEAR(2, PROT_EXEC)}},
        END_OF_RULES,
};

/* cloister-unpacker reads the archives of an image, and makes files, directories and symbolic links. It creates no process, no
 * socket, no device, no hard link, no executable memory, and no set-uid or set-gid file. */
const struct filter_rule filter_unpacker_all[] = {
        {"read pread64 write pwrite64 lseek close openat2 fstat stat lstat newfstatat statx mkdirat "
         "getdents64 readlinkat symlinkat unlinkat renameat renameat2 ftruncate utimensat brk "
         "munmap mremap madvise futex getrandom clock_gettime rt_sigprocmask rt_sigreturn exit "
         "exit_group",
         ALLOW},
        {"openat", ALLOW, {CLEAR(3, S_ISUID | S_ISGID)}},
        {"fchmod", ALLOW, {CLEAR(1, S_ISUID | S_ISGID)}},
        {"fcntl", ALLOW, {EQUAL(1, F_GETFL)}},
        {"fcntl", ALLOW, {EQUAL(1, F_SETFD)}},
        {"mmap mprotect", ALLOW, {CLEAR(2, PROT_EXEC)}},
        END_OF_RULES,
};
