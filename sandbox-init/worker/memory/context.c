/* Saving and resuming registers. */
#include "sandbox-init/worker/memory/context.h"

#define FUNCTION(name) ".globl " name "\n.hidden " name "\n.type " name ",%function\n" name ":\n"

#if defined(__x86_64__)

/* With the control words of SSE and x87, which a callee preserves too. */
__asm__(".text\n" FUNCTION(
        "cloister_context_save") "mov (%rsp), %rax\n\tlea 8(%rsp), %rcx\n\tmov %rbx, 0(%rdi)\n\tmov %rbp, 8(%rdi)\n\t"
                                 "mov %r12, 16(%rdi)\n\tmov %r13, 24(%rdi)\n\tmov %r14, 32(%rdi)\n\tmov %r15, 40(%rdi)\n\t"
                                 "mov %rcx, 48(%rdi)\n\tmov %rax, 56(%rdi)\n\tstmxcsr 64(%rdi)\n\tfnstcw 68(%rdi)\n\t"
                                 "xor %eax, %eax\n\tret\n" FUNCTION(
                                         "cloister_context_resume") "mov 0(%rdi), %rbx\n\tmov 8(%rdi), %rbp\n\tmov 16(%rdi), %r12\n\tmov 24(%rdi), %r13\n\t"
                                                                    "mov 32(%rdi), %r14\n\tmov 40(%rdi), %r15\n\tmov 48(%rdi), %rsp\n\tldmxcsr 64(%rdi)\n\t"
                                                                    "fldcw 68(%rdi)\n\tmov $1, %eax\n\tjmp *56(%rdi)\n" FUNCTION(
                                                                            "cloister_context_enter") "mov %rdi, %rsp\n\tand $-16, %rsp\n\txor %ebp, %ebp\n\tmov %rdx, %rdi\n\tcall *%rsi\n\thlt\n");

#elif defined(__aarch64__)

__asm__(".text\n" FUNCTION(
        "cloister_context_save") "stp x19, x20, [x0, #0]\n\tstp x21, x22, [x0, #16]\n\tstp x23, x24, [x0, #32]\n\t"
                                 "stp x25, x26, [x0, #48]\n\tstp x27, x28, [x0, #64]\n\tstp x29, x30, [x0, #80]\n\t"
                                 "mov x1, sp\n\tmrs x2, fpcr\n\tstp x1, x2, [x0, #96]\n\tstp d8, d9, [x0, #112]\n\t"
                                 "stp d10, d11, [x0, #128]\n\tstp d12, d13, [x0, #144]\n\tstp d14, d15, [x0, #160]\n\t"
                                 "mov w0, #0\n\tret\n" FUNCTION(
                                         "cloister_context_resume") "ldp x19, x20, [x0, #0]\n\tldp x21, x22, [x0, #16]\n\tldp x23, x24, [x0, #32]\n\t"
                                                                    "ldp x25, x26, [x0, #48]\n\tldp x27, x28, [x0, #64]\n\tldp x29, x30, [x0, #80]\n\t"
                                                                    "ldp x1, x2, [x0, #96]\n\tmov sp, x1\n\tmsr fpcr, x2\n\tldp d8, d9, [x0, #112]\n\t"
                                                                    "ldp d10, d11, [x0, #128]\n\tldp d12, d13, [x0, #144]\n\tldp d14, d15, [x0, #160]\n\t"
                                                                    "mov w0, #1\n\tret\n" FUNCTION(
                                                                            "cloister_context_enter") "mov sp, x0\n\tmov x29, xzr\n\tmov x30, xzr\n\tmov x0, x2\n\tblr x1\n\tbrk #0\n");

#endif
