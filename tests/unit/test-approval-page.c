/* Pages of questions: who can answer there, and what closes them. */
#include "tests/unit/approval-world.h"

static void open_pages(struct world *w)
{
        open_world(w);
        snprintf(w->settings.page, sizeof(w->settings.page), "https://c.example");
}

enum { PAGE_SIZE = 64 };

/* The name of the page, from the text about the way to answer. */
static const char *page_of(const struct world *w)
{
        const char *page = strstr(w->way, "https://c.example/ask/");

        check(page && strlen(page) == 54);
        return page + 22;
}

static int page_says(struct world *w, enum question_scope scope)
{
        struct question_view view = view_of(w);
        const struct approval_answer answer = {.scope = scope};
        struct error err = {};
        char id[64];

        snprintf(id, sizeof(id), "%s", view.id);
        int r = approvals_answer(&w->all, APPROVAL_BY_PAGE, id, view.sha256, &answer, &err);
        settle(w);
        return r;
}

static void test_page(void)
{
        struct world *w = &world;
        char page[PAGE_SIZE];

        open_pages(w);
        w->has_client = false;
        ask_one(w, 0, 1);
        check_has(w->way, "terminal page https://c.example/ask/");
        check_eq_int(w->wait_ms, 50000);
        snprintf(page, sizeof(page), "%s", page_of(w));
        check(approvals_find_page(&w->all, page) == w->a);
        page[31] ^= 1;
        check(!approvals_find_page(&w->all, page));
        page[31] = '\0';
        check(!approvals_find_page(&w->all, page) && !approvals_find_page(&w->all, ""));
        check_eq_int(page_says(w, SCOPE_SESSION), 0);
        check_eq_int(w->outcome[0].state, 1);
        check_eq_str(w->events, "asked;answered page;");
        check_eq_int(add(w, 1, 1), APPROVAL_ALLOWED);
        /* Without the key there is none, and its answer counts for nothing. */
        w->settings.page[0] = '\0';
        check_eq_int(add_with(w, 2, 1, "other", "rule 1", 7), APPROVAL_WAITS);
        approvals_held(w->a);
        check_eq_str(w->way, "terminal");
        check_eq_int(page_says(w, SCOPE_ONCE), -ENOENT);
        check_eq_int(w->outcome[2].state, 0);
        close_world(w);
}

/* A page alone; each question has another one, and an old one is not found. */
static void test_page_alone(void)
{
        struct world *w = &world;
        char first[64];

        open_pages(w);
        w->has_client = w->settings.by_terminal = false;
        ask_one(w, 0, 1);
        check(strncmp(w->way, " page ", 6) == 0);
        check_eq_int(terminal_says(w, SCOPE_ONCE, NULL, NULL), -EACCES);
        snprintf(first, sizeof(first), "%s", page_of(w));
        check_eq_int(page_says(w, SCOPE_NO), 0);
        check_eq_int(w->outcome[0].state, -1);
        check(!approvals_find_page(&w->all, first));
        ask_one(w, 1, 1);
        check(strcmp(first, page_of(w)) != 0 && !approvals_find_page(&w->all, first));
        check_eq_int(page_says(w, SCOPE_ONCE), 0);
        w->has_terminal = false; /* the address is not shown */
        check_eq_int(add(w, 2, 1), APPROVAL_WAITS);
        approvals_held(w->a);
        settle(w);
        check_eq_str(w->outcome[2].why, "no person can be asked");
        close_world(w);
}

static void test_client_that_opens_addresses(void)
{
        struct world *w = &world;

        open_pages(w);
        w->settings.by_client = false; /* it cannot show a form, but opens an address */
        ask_one(w, 0, 1);
        check_eq_int(w->ask->request.kind, CLIENT_URL);
        check_eq_int(w->ask->request.needs, CLIENT_CAN_URL);
        check_has(buffer_bytes(&w->ask->request.params), page_of(w));
        check_has(buffer_bytes(&w->ask->request.params), "\"mode\":\"url\"");
        check_eq_int(w->wait_ms, 0);
        client_says(w, "{\"action\":\"accept\"}", 1);
        check_eq_int(approvals_state(w->a), APPROVAL_ASKED); /* that answers nothing */
        check_eq_int(w->wait_ms, 50000);
        check_eq_int(w->n_pages_done, 0);
        check_eq_int(page_says(w, SCOPE_ONCE), 0);
        check_eq_int(w->outcome[0].state, 1);
        check_eq_int(w->n_pages_done, 1);

        ask_one(w, 1, 1); /* it declines at once: no person has seen the address */
        client_says(w, "{\"action\":\"decline\"}", 100);
        check_eq_int(approvals_state(w->a), APPROVAL_ASKED);
        check_eq_int(w->wait_ms, 50000);
        check_eq_int(page_says(w, SCOPE_ONCE), 0);
        check_eq_int(w->outcome[1].state, 1);

        ask_one(w, 2, 1); /* a person declines */
        client_says(w, "{\"action\":\"decline\"}", 400);
        check_eq_int(w->outcome[2].state, -1);
        check_eq_str(w->outcome[2].why, "a person answered no");

        ask_one(w, 3, 1); /* the page is faster than the client */
        check_eq_int(page_says(w, SCOPE_ONCE), 0);
        check(!w->ask);
        check_eq_int(w->n_withdrawn, 1);
        check_eq_int(w->n_pages_done, 4);
        close_world(w);
}

/* A client that can show the form gets the form; the page can answer, too. */
static void test_form_and_page(void)
{
        struct world *w = &world;

        open_pages(w);
        ask_one(w, 0, 1);
        check_eq_int(w->ask->request.kind, CLIENT_FORM);
        check_eq_int(page_says(w, SCOPE_ONCE), 0);
        check(!w->ask);
        check_eq_int(w->outcome[0].state, 1);
        check_eq_int(w->n_pages_done, 0);
        ask_one(w, 1, 1);
        client_says(w, "{\"action\":\"accept\"}", 400);
        check_eq_int(w->outcome[1].state, 1);
        check_eq_int(page_says(w, SCOPE_ONCE), -ENOENT);
        close_world(w);
}

enum others { NO_OTHER, TERMINAL, CLIENT, OTHERS }; /* the way beside the page */

static void ask_with(struct world *w, enum others others, char page[PAGE_SIZE])
{
        open_pages(w);
        w->has_client = others == CLIENT;
        w->settings.by_terminal = others == TERMINAL;
        ask_one(w, 0, 1);
        snprintf(page, PAGE_SIZE, "%s", page_of(w));
}

/* The page answers nothing any more; the other way does, and without one the call is denied. */
static void check_closed(struct world *w, enum others others, const char *page, const char *why)
{
        check(!approvals_find_page(&w->all, page));
        check_eq_int(page_says(w, SCOPE_ONCE), -ENOENT);
        if (others == NO_OTHER)
                check_eq_str(w->outcome[0].why, why);
        else if (others == TERMINAL)
                check_eq_int(terminal_says(w, SCOPE_ONCE, NULL, NULL), 0);
        else
                client_says(w, "{\"action\":\"accept\"}", 400);
        check_eq_int(w->outcome[0].state, others == NO_OTHER ? -1 : 1);
        close_world(w);
}

static void test_wrong_tokens_close_the_page(void)
{
        struct world *w = &world;
        char page[PAGE_SIZE];

        for (enum others others = 0; others < OTHERS; others++) {
                ask_with(w, others, page);
                for (int i = 1; i < APPROVAL_WRONG_MAX; i++) {
                        approvals_wrong_token(w->a);
                        check(approvals_find_page(&w->all, page) == w->a);
                }
                approvals_wrong_token(w->a);
                settle(w);
                check_closed(w, others, page, "the page of the question got too many wrong tokens");
        }
        /* The client's address is withdrawn with it. */
        open_pages(w);
        w->settings.by_client = false;
        ask_one(w, 0, 1);
        for (int i = 0; i < APPROVAL_WRONG_MAX; i++)
                approvals_wrong_token(w->a);
        check(!w->ask);
        check_eq_int(w->n_pages_done, 1);
        check_eq_str(w->way, "terminal");
        check_eq_int(w->wait_ms, 50000);
        check_eq_int(terminal_says(w, SCOPE_ONCE, NULL, NULL), 0);
        check_eq_int(w->outcome[0].state, 1);
        close_world(w);
}

static bool is_served(const void *data, const char *address)
{
        return strcmp(data, address) == 0;
}

/* The config has lost the address, or has another one. */
static void test_pages_that_are_not_served(void)
{
        struct world *w = &world;
        char page[PAGE_SIZE];

        for (enum others others = 0; others < OTHERS; others++) {
                ask_with(w, others, page);
                approvals_close_pages(&w->all, "https://c.example", is_served);
                settle(w);
                check(approvals_find_page(&w->all, page) == w->a);
                approvals_close_pages(&w->all, "https://d.example", is_served);
                settle(w);
                check_closed(w, others, page,
                             "the page of the question is not served any more (ask.page)");
        }
}

int main(void)
{
        run(test_page);
        run(test_page_alone);
        run(test_client_that_opens_addresses);
        run(test_form_and_page);
        run(test_wrong_tokens_close_the_page);
        run(test_pages_that_are_not_served);
        return 0;
}
