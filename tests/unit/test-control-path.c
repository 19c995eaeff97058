/* The paths of the sockets on which servers listen for their owner. */
#include "policy/control-path.h"

#include "tests/unit/test.h"

static char directories[CONTROL_DIRECTORIES_MAX][CONTROL_DIRECTORY_SIZE];

static void test_directories(void)
{
        check_eq_int(control_directories(0, NULL, "/run/user/1000", "/root/state", directories), 3);
        check_eq_str(directories[0], "/run/cloister");
        check_eq_str(directories[1], "/root/state/run");
        check_eq_str(directories[2], "/tmp/cloister-0");

        check_eq_int(
                control_directories(1000, NULL, "/run/user/1000", "/home/a/state", directories), 4);
        check_eq_str(directories[0], "/run/user/1000/cloister");
        check_eq_str(directories[1], "/run/user/1000/cloister");
        check_eq_str(directories[2], "/home/a/state/run");
        check_eq_str(directories[3], "/tmp/cloister-1000");

        check_eq_int(control_directories(1000, NULL, NULL, NULL, directories), 2);
        check_eq_str(directories[0], "/run/user/1000/cloister");
        check_eq_int(control_directories(1000, NULL, "relative", "relative", directories), 2);
}

/* The directory of a service comes first. Only its owner may write in it. */
static void test_service(void)
{
        struct stat st = {.st_mode = S_IFDIR | 0755};

        check_eq_int(control_directories(0, "/run/x", NULL, NULL, directories), 3);
        check_eq_str(directories[0], "/run/x");
        check_eq_str(directories[1], "/run/cloister");
        check_eq_int(control_directories(1000, "/run/x", "/r", "/s", directories), 5);
        check_eq_str(directories[0], "/run/x");

        check(control_directory_is_sound(&st));
        st.st_mode = S_IFDIR | 0775;
        check(!control_directory_is_sound(&st));
        st.st_mode = S_IFDIR | 0757;
        check(!control_directory_is_sound(&st));
        st.st_mode = S_IFREG | 0755;
        check(!control_directory_is_sound(&st));
}

/* A path that is too long for a socket address is not a candidate. */
static void test_long(void)
{
        char path[200], name[CONTROL_PATH_SIZE];

        memset(path, 'a', sizeof(path) - 1);
        path[0] = '/';
        path[sizeof(path) - 1] = '\0';
        check_eq_int(control_directories(1000, NULL, path, path, directories), 2);
        path[CONTROL_DIRECTORY_SIZE - sizeof("/cloister")] = '\0';
        check_eq_int(control_directories(1000, NULL, path, NULL, directories), 3);
        control_path(directories[0], 2147483647, name);
        check(strlen(name) < sizeof(name) - 1);
        check_has(name, "/2147483647.sock");
}

static void test_names(void)
{
        check_eq_int(control_pid_of("4711.sock"), 4711);
        static const char *const others[] = {"",        "sock",    ".sock",           "0.sock",
                                             "-1.sock", "12",      "12.sock.x",       "12.soc",
                                             " 1.sock", "1x.sock", "99999999999.sock"};
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
                check_eq_int(control_pid_of(others[i]), 0);
}

int main(void)
{
        run(test_directories);
        run(test_service);
        run(test_long);
        run(test_names);
        return 0;
}
