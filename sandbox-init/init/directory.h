/* Directories without a heap: entries as getdents64(2) writes them. */
#pragma once

#include <stdint.h>

struct directory_entry {
        uint64_t inode;
        int64_t offset;
        uint16_t length; /* to the next entry */
        uint8_t type;    /* DT_DIR… */
        char name[];
};
