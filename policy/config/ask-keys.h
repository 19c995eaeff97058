/* "ask" of a profile: who decides about calls that a rule does not decide (docs/questions.md). */
#pragma once

#include "policy/config/reader.h"

enum { CONFIG_ASK_PAGE_MAX = 200 }; /* bytes of the address */

/* The functions of the keys "by" and "page" (codes.def). */
config_code_fn config_check_ask_by, config_check_ask_page;

enum config_ask_by { CONFIG_ASK_CLIENT = 1, CONFIG_ASK_TERMINAL = 2, CONFIG_ASK_PAGE = 4 };

/* Returns bits of enum config_ask_by; CONFIG_ASK_PAGE only with an address. 0: no way to answer. */
unsigned config_ask_by(const struct config_ask *ask);
/* Whether those that are named can answer. Returns 0 or -EINVAL with an error that names the profile. */
int config_check_asks(const struct config *config, struct error *err);
/* Whether a profile has the address of a page. */
bool config_has_ask_page(const struct config *config);
/* Whether this origin is the address of a profile's pages. */
bool config_is_ask_page(const struct config *config, const char *origin);
/* There are no pages: removes the addresses. */
void config_drop_ask_pages(struct config *config);
