/*
 * Where a running server listens for its owner (`cloister sessions`): DIRECTORY/<pid>.sock, the pid
 * being the monitor's. The directory is the user's own, mode 0700. That of a service (base/places.h) is made by the service manager:
 * others may enter it, and the socket's mode says who may connect.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

enum {
        CONTROL_DIRECTORIES_MAX = 6, /* with CONTROL_SERVICE_DIRECTORY */
        CONTROL_DIRECTORY_SIZE = 80, /* with ".sock" and a pid it fits sockaddr_un (unix(7)) */
        CONTROL_PATH_SIZE = 108,
};

/* In the user's home, whatever XDG_STATE_HOME says: a client may not pass that on to its server, and 'cloister sessions' must find
 * the same place. */
#define CONTROL_STATE_BELOW ".local/state"

/* That of the system's service: only root can make it. */
#define CONTROL_SERVICE_DIRECTORY "/run/cloister"

/* Candidates in order of preference. service: RUNTIME_DIRECTORY, or NULL; runtime_dir: XDG_RUNTIME_DIR, state_dir: Cloister's directory below
 * HOME/.local/state, or NULL. Each may be another user's, so the user of a directory checks its owner; /tmp is the last, because
 * there any user can be the first to create the name. Returns how many. */
size_t control_directories(uid_t euid, const char *service, const char *runtime_dir,
                           const char *state_dir,
                           char ret[CONTROL_DIRECTORIES_MAX][CONTROL_DIRECTORY_SIZE]);

/* Calls control_directories() with the user and the environment of this process. */
size_t control_directories_here(char ret[CONTROL_DIRECTORIES_MAX][CONTROL_DIRECTORY_SIZE]);

/* Whether it is a directory that only this user can enter. Otherwise it CONTROL_DIRECTORY_FAULT. */
bool control_directory_is_private(const struct stat *st, uid_t euid);
#define CONTROL_DIRECTORY_FAULT "belongs to another user or has another mode than 0700"

/* The directory that the service manager made for this service, or false. */
bool control_directory_of_service(char ret[CONTROL_DIRECTORY_SIZE]);

/* Whether only its owner can put sockets there. Otherwise it CONTROL_SERVICE_FAULT. */
bool control_directory_is_sound(const struct stat *st);
#define CONTROL_SERVICE_FAULT "belongs to another user or can be written by others"

/* The path of a server's socket. */
void control_path(const char *directory, pid_t pid, char ret[CONTROL_PATH_SIZE]);

/* Unlinks a socket, and removes its directory when that is empty then and no service manager's. */
void control_path_remove(const char *path);

/* The pid that a file's name tells; 0 if the file is not a socket of a server. */
pid_t control_pid_of(const char *name);
