/* The parser of URLs for conditions on a host. It is libcurl's, which this program does not load: cloister-oauth reads them. */
#pragma once

#include "policy/rules/condition.h"

/* Starts a process for each URL. */
rules_url_fn url_reader;
