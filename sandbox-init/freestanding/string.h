/* The functions of <string.h> that the sources of cloister-module use, and snprintf(). The compiler generates calls of memcpy(),
 * memmove(), memset() and memcmp(). */
#pragma once

#include <string.h>
