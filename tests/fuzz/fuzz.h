/* A fuzz target: takes any bytes, returns whether it accepted them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool fuzz_accepts(const uint8_t *data, size_t n);

/* libFuzzer's entry */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define FUZZ_TARGET                                                                                \
        int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)                                  \
        {                                                                                          \
                fuzz_accepts(data, n);                                                             \
                return 0;                                                                          \
        }
