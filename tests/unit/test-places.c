/* Cloister's own directories: those of a service, and those of a user. */
#include "base/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/test.h"

static char path[256];

static void forget(void)
{
        static const char *const names[] = {"STATE_DIRECTORY",       "RUNTIME_DIRECTORY",
                                            "LOGS_DIRECTORY",        "CONFIGURATION_DIRECTORY",
                                            "CREDENTIALS_DIRECTORY", "SYSTEMD_EXEC_PID",
                                            "XDG_STATE_HOME",        "XDG_CONFIG_HOME"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                unsetenv(names[i]);
        setenv("HOME", "/h", 1);
}

static void test_user(void)
{
        forget();
        check_eq_int(place_state("oauth", path, sizeof(path)), 0);
        check_eq_str(path, "/h/.local/state/cloister/oauth");
        check_eq_int(place_state("", path, sizeof(path)), 0);
        check_eq_str(path, "/h/.local/state/cloister");
        check_eq_int(place_config("config.json", path, sizeof(path)), 0);
        check_eq_str(path, "/h/.config/cloister/config.json");
        setenv("XDG_STATE_HOME", "/x", 1);
        check_eq_int(place_state("", path, sizeof(path)), 0);
        check_eq_str(path, "/x/cloister");
        check(!place_runtime(path, sizeof(path)));
        check(!place_logs(path, sizeof(path)));
        check(!place_service_state(path, sizeof(path)));
}

static void test_service(void)
{
        forget();
        setenv("STATE_DIRECTORY", "/s:/other", 1);
        setenv("CONFIGURATION_DIRECTORY", "/c", 1);
        setenv("RUNTIME_DIRECTORY", "/r", 1);
        setenv("LOGS_DIRECTORY", "/l", 1);
        check_eq_int(place_state("oauth", path, sizeof(path)), 0);
        check_eq_str(path, "/s/oauth");
        check_eq_int(place_state("", path, sizeof(path)), 0);
        check_eq_str(path, "/s");
        check_eq_int(place_config("config.json", path, sizeof(path)), 0);
        check_eq_str(path, "/c/config.json");
        check(place_runtime(path, sizeof(path)));
        check_eq_str(path, "/r");
        check(place_logs(path, sizeof(path)));
        check_eq_str(path, "/l");
        check(!place_logs(path, 2));
}

/* A value that is not the path of a directory does not count. */
static void test_values(void)
{
        static const char *const values[] = {"", ":/s", "s", "/", "/s/", "/a/../b", "/a//b"};

        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
                forget();
                setenv("STATE_DIRECTORY", values[i], 1);
                check_eq_int(place_state("", path, sizeof(path)), 0);
                check_eq_str(path, "/h/.local/state/cloister");
        }
}

static void begin_as(const char *pid)
{
        forget();
        setenv("STATE_DIRECTORY", "/s", 1);
        setenv("RUNTIME_DIRECTORY", "/r", 1);
        setenv("CREDENTIALS_DIRECTORY", "/d", 1);
        setenv("SYSTEMD_EXEC_PID", pid, 1);
        places_begin();
}

/* A service that starts Cloister keeps its directories for itself. */
static void test_of_another_service(void)
{
        char pid[32];

        snprintf(pid, sizeof(pid), "%d", (int)getpid());
        begin_as(pid);
        check(place_service_state(path, sizeof(path)));
        check(place_runtime(path, sizeof(path)));
        check(!getenv("SYSTEMD_EXEC_PID"));
        begin_as("1");
        check(!place_service_state(path, sizeof(path)));
        check(!place_runtime(path, sizeof(path)));
        check(place_credentials(path, sizeof(path)));
        check(!getenv("SYSTEMD_EXEC_PID"));
}

static void put(const char *directory, const char *name, const char *bytes, size_t n)
{
        snprintf(path, sizeof(path), "%s/%s", directory, name);
        FILE *file = fopen(path, "w");
        check(file && fwrite(bytes, 1, n, file) == n);
        fclose(file);
}

static void refused(const char *name, const char *part)
{
        char *value = NULL;
        struct error err = {};

        check(credential_read(name, &value, &err) < 0);
        check_has(err.text, part);
        check(!value);
}

static void test_credentials(void)
{
        char directory[] = "/tmp/cloister-test-places-XXXXXX", *value = NULL;
        struct error err = {};
        static char large[CREDENTIAL_SIZE_MAX + 1];

        forget();
        refused("key", "LoadCredential=key:FILE");
        check(mkdtemp(directory) != NULL);
        setenv("CREDENTIALS_DIRECTORY", directory, 1);
        put(directory, "key", "s3cret\n\n", 8);
        check_ok(credential_read("key", &value, &err));
        check_eq_str(value, "s3cret\n");
        free(value);
        refused("other", "there is no credential \"other\"");
        refused("../key", "not the name");
        refused("..", "not the name");
        refused("", "not the name");
        put(directory, "zero", "a\0b", 3);
        refused("zero", "byte 0");
        memset(large, 'x', sizeof(large));
        put(directory, "large", large, sizeof(large));
        refused("large", "credential \"large\"");
        snprintf(path, sizeof(path), "%s/pipe", directory);
        check_eq_int(mkfifo(path, 0600), 0);
        refused("pipe", "is not a file");

        static const char *const names[] = {"key", "zero", "large", "pipe"};
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
                unlink(path);
        }
        rmdir(directory);
}

int main(void)
{
        run(test_user);
        run(test_service);
        run(test_values);
        run(test_of_another_service);
        run(test_credentials);
        return 0;
}
