/* Names that cannot be guessed. */
#pragma once

enum { UNGUESSABLE_LENGTH = 32 }; /* hexadecimal digits: 128 bits */

/* Writes the digits and a NUL byte. Aborts if the kernel has no random bytes. */
void unguessable(char name[UNGUESSABLE_LENGTH + 1]);
