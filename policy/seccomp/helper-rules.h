/* The tables of our own processes that read files which others wrote (rules.h has all tables). */
#pragma once

#include "policy/seccomp/rule.h"

extern const struct filter_rule filter_reader_all[], filter_picture_all[], filter_journal_all[],
        filter_inject_all[], filter_unpacker_all[];
