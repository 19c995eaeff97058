/* Which URLs and addresses cloister-oauth contacts, how it reads a challenge, scopes, PKCE. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "supervisor/oauth/login.h"
#include "supervisor/oauth/proof.h"
#include "supervisor/oauth/store.h"
#include "tests/unit/test.h"

static bool url_is_allowed(const char *url, bool loopback)
{
        const struct oauth_reach reach = {.loopback = loopback};

        return oauth_url_check(url, &reach, "it", NULL) == 0;
}

static void test_urls(void)
{
        static const char *const never[] = {
                "http://example.org/",
                "ftp://example.org/",
                "file:///etc/passwd",
                "https://",
                "example.org",
                "https://user@example.org/",
                "https://a:b@example.org/",
                "https://e.org/#part",
                "https://e.org/a b",
                "https://e.org/\"",
                "http://127.0.0.1.e.org/",
                "http://localhost.e.org/",
                "http://10.0.0.1/",
                "javascript:alert(1)",
                "https://h%99/",
                "https://a%20b/",
                "https://a%2fb/",
                "",
        };

        for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
                check(!url_is_allowed(never[i], true));
                check(!url_is_allowed(never[i], false));
        }
        check(url_is_allowed("https://example.org/mcp?x=1", false));
        check(url_is_allowed("http://127.0.0.1:8080/mcp", true));
        check(url_is_allowed("http://localhost/mcp", true));
        check(url_is_allowed("http://[::1]:80/", true));
        check(!url_is_allowed("http://127.0.0.1:8080/mcp", false));
        check(!url_is_allowed("http://localhost/mcp", false));
}

static void test_reach(void)
{
        check(oauth_reach_of("http://127.0.0.1:1/mcp", false).loopback);
        check(oauth_reach_of("https://localhost/mcp", false).loopback);
        check(!oauth_reach_of("https://localhost.example.org/mcp", false).loopback);
        check(!oauth_reach_of("https://example.org/mcp", false).loopback);
        check(oauth_reach_of("https://example.org/mcp", true).private);
}

static bool address_is_allowed(const char *text, bool loopback, bool private)
{
        const struct oauth_reach reach = {loopback, private};
        struct sockaddr_in v4 = {.sin_family = AF_INET};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

        if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
                return oauth_address_allowed((const struct sockaddr *)&v4, &reach);
        check(inet_pton(AF_INET6, text, &v6.sin6_addr) == 1);
        return oauth_address_allowed((const struct sockaddr *)&v6, &reach);
}

static void test_addresses(void)
{
        static const struct {
                const char *address;
                char kind; /* public, loopback, private network, never */
        } rows[] = {
                {"93.184.216.34", 'u'},
                {"2606:2800:220:1::1", 'u'},
                {"172.15.0.1", 'u'},
                {"172.32.0.1", 'u'},
                {"100.128.0.1", 'u'},
                {"127.0.0.1", 'l'},
                {"127.255.0.9", 'l'},
                {"::1", 'l'},
                {"::ffff:127.0.0.1", 'l'},
                {"10.1.2.3", 'p'},
                {"172.16.0.1", 'p'},
                {"172.31.255.255", 'p'},
                {"192.168.1.1", 'p'},
                {"100.64.0.1", 'p'},
                {"198.19.0.1", 'p'},
                {"fd00::1", 'p'},
                {"fc00::1", 'p'},
                {"::ffff:10.0.0.1", 'p'},
                {"64:ff9b::a00:1", 'p'},
                {"2002:a00:1::", 'p'},
                {"169.254.169.254", 'n'},
                {"0.0.0.0", 'n'},
                {"0.1.2.3", 'n'},
                {"224.0.0.1", 'n'},
                {"255.255.255.255", 'n'},
                {"240.0.0.1", 'n'},
                {"192.0.0.8", 'n'},
                {"fe80::1", 'n'},
                {"ff02::1", 'n'},
                {"::", 'n'},
                {"::ffff:169.254.169.254", 'n'},
                {"2001::1", 'n'},
                {"2001:db8::1", 'n'},
                {"::127.0.0.1", 'n'},
                {"64:ff9b::a9fe:a9fe", 'n'},
                {"2002:a9fe:a9fe::", 'n'},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                char kind = rows[i].kind;
                const char *address = rows[i].address;
                if (address_is_allowed(address, false, false) != (kind == 'u') ||
                    address_is_allowed(address, true, false) != (kind == 'u' || kind == 'l') ||
                    address_is_allowed(address, false, true) != (kind != 'n')) {
                        fprintf(stderr, "%s\n", address);
                        check(false);
                }
        }
}

static void test_places(void)
{
        static const struct {
                const char *url;
                enum oauth_place place;
                const char *expected;
        } rows[] = {
                {"https://a.example/t/x", OAUTH_INSERTED, "https://a.example/.well-known/s/t/x"},
                {"https://a.example/t/", OAUTH_INSERTED, "https://a.example/.well-known/s/t"},
                {"https://a.example", OAUTH_INSERTED, "https://a.example/.well-known/s"},
                {"https://A.example:8443/t?q", OAUTH_AT_ROOT,
                 "https://a.example:8443/.well-known/s"},
                {"https://a.example:443/t", OAUTH_APPENDED, "https://a.example/t/.well-known/s"},
        };
        char place[OAUTH_URL_MAX + 1], small[20];

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                check_eq_int(
                        oauth_url_well_known(rows[i].url, "s", rows[i].place, place, sizeof(place)),
                        0);
                check_eq_str(place, rows[i].expected);
        }
        check(oauth_url_well_known("https://a.example", "s", OAUTH_AT_ROOT, small, sizeof(small)) <
              0);
        check(oauth_url_same("https://a.example", "https://A.EXAMPLE:443/"));
        check(!oauth_url_same("https://a.example/x", "https://a.example/X"));
        check(!oauth_url_same("https://a.example/x", "https://a.example/x?y"));
        check(oauth_url_below("https://a.example", "https://a.example/x"));
        check(oauth_url_below("https://a.example/x", "https://a.example/x/y"));
        check(!oauth_url_below("https://a.example/x", "https://a.example/xy"));
        check(!oauth_url_below("https://a.example", "https://a.example.org/x"));
        check(!oauth_url_below("https://a.example", "http://a.example/x"));
}

static struct challenge parsed(const char *text)
{
        struct challenge challenge;

        check_eq_int(challenge_parse(text, strlen(text), &challenge), 0);
        return challenge;
}

static void test_challenge(void)
{
        struct challenge c = parsed(
                "Basic realm=\"Bearer scope=x\", Bearer error=\"insufficient_scope\", "
                "scope=\"a  b a\", resource_metadata=\"https://a.example/\\\"x\", scope=\"z\"");
        check_eq_str(c.error, "insufficient_scope");
        check_eq_str(c.scope, "a b");
        check_eq_str(c.resource_metadata, "https://a.example/\"x");
        check_eq_str(parsed("bearer").scope, "");
        check_eq_str(parsed("Negotiate a==, BEARER  scope = a").scope, "a");
        check_eq_str(parsed("Bearer scope=a, Bearer scope=b").scope, "a");
        check_eq_str(parsed("Bearer scope=\"a\\\\b\"").scope, "");
        check_eq_str(parsed("Bearer scope=\"a\tb\"").scope, "");
        check_eq_int(challenge_parse("Digest scope=a", 14, &c), -ENOENT);
        check_eq_int(challenge_parse("", 0, &c), -ENOENT);
        check_eq_str(c.scope, "");
}

static void test_scopes(void)
{
        char set[8] = "", large[CHALLENGE_SCOPE_MAX + 1] = "";

        check_eq_int(scope_add(set, sizeof(set), " ab  c ab"), 0);
        check_eq_str(set, "ab c");
        check_eq_int(scope_add(set, sizeof(set), "d efgh"), -EMSGSIZE);
        check_eq_str(set, "ab c");
        check_eq_int(scope_add(set, sizeof(set), "d"), 0);
        check_eq_int(scope_add(large, sizeof(large), "x\"y"), -EINVAL);
        check_eq_str(set, "ab c d");
}

/* The example of RFC 7636, appendix B. */
static void test_pkce(void)
{
        char challenge[PKCE_LENGTH + 1], one[PKCE_LENGTH + 1], other[PKCE_LENGTH + 1];

        check_eq_int(pkce_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", challenge, NULL),
                     0);
        check_eq_str(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        check(pkce_random(one, NULL) == 0 && pkce_random(other, NULL) == 0);
        check(strcmp(one, other) != 0);
        check_eq_int((int)strlen(one), PKCE_LENGTH);
        check_eq_int(
                (int)strspn(one,
                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"),
                PKCE_LENGTH);
}

static void test_authorization_url(void)
{
        _cleanup_buffer_ struct buffer url = BUFFER_INIT(4096);
        static struct oauth_record record = {.client.id = "a&b=c", .resource = "https://r/?x#"};

        check_eq_int(oauth_authorization_url(&record, "https://as/a?x=1",
                                             "http://127.0.0.1:1/callback", "S", "C", &url),
                     0);
        buffer_append(&url, "", 1);
        check_eq_str(buffer_bytes(&url),
                     "https://as/a?x=1&response_type=code&client_id=a%26b%3Dc&redirect_uri="
                     "http%3A%2F%2F127.0.0.1%3A1%2Fcallback&state=S&code_challenge=C&"
                     "code_challenge_method=S256&resource=https%3A%2F%2Fr%2F%3Fx%23");
}

static void test_shell_word(void)
{
        char word[64];

        check_eq_str(oauth_shell_word("files:read", word, sizeof(word)), "files:read");
        check_eq_str(oauth_shell_word("a b", word, sizeof(word)), "'a b'");
        check_eq_str(oauth_shell_word("it's $(x)", word, sizeof(word)), "'it'\\''s $(x)'");
        check_eq_str(oauth_shell_word("-x", word, sizeof(word)), "'-x'");
        check_eq_str(oauth_shell_word("", word, sizeof(word)), "''");
}

int main(void)
{
        run(test_urls);
        run(test_reach);
        run(test_addresses);
        run(test_places);
        run(test_challenge);
        run(test_scopes);
        run(test_pkce);
        run(test_authorization_url);
        run(test_shell_word);
        return 0;
}
