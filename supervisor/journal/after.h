/* The order of segments in a chain. */
#pragma once

#include <stdint.h>

/* The segment that a file begins after, as its first record says; 0: none, or it has no such record. */
uint32_t segment_after(int directory, uint32_t number);
