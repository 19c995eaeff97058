/*
 * Third-party packages of an image. pip or uv of the host resolves and fetches them, as wheels
 * only, so that none of their code runs. Wheels are cached by content in STORE/.cache, so that a
 * second image of the same set needs no network. Packages of npm are resolved by npm, and fetched as archives. packages.py does the work in the host's
 * interpreter: all that reads an index or a wheel in the sandbox of installer-sandbox.h, in a process
 * that packages_become_builder() makes.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json-out.h"
#include "base/json.h"
#include "policy/package-set.h"
#include "rootfs/progress.h"

struct packages;

/* The target of the packages. */
struct packages_target {
        const char *host;    /* the host's interpreter that runs the installer */
        const char *python;  /* the target interpreter if it is the host's, or NULL */
        const char *version; /* "3.11.2" */
        const char
                *platform;  /* prefix of wheels' tags ("manylinux_2_36"), or NULL: the host's own */
        const char *place;  /* the directory of packages in the image, which compiled files name */
        const char *loader; /* that lists the libraries which packages need */
};

/* Resolves and fetches what the set needs. An error is one line that says what to do. */
int packages_resolve(const struct package_set *set, const struct packages_target *target,
                     const char *store, struct progress *progress, struct packages **ret,
                     struct error *err);
struct packages *packages_free(struct packages *packages);
DEFINE_CLEANUP(struct packages *, packages_free)
#define _cleanup_packages_ _cleanup_(cleanup_packages_free)

/* Whether there are packages of npm. */
bool packages_have_npm(const struct packages *packages);

/* Unpacks the wheels into an existing empty directory, as site-packages holds them (bin/ has their
 * programs), and compiles their sources; and packages of npm, if there are any, into node_modules of a directory that does
 * not exist yet, npm_directory. Then only files and directories exist, 0644 or 0755. Adds to *bytes, *files.
 */
int packages_unpack(struct packages *packages, const char *directory, const char *npm_directory,
                    struct progress *progress, uint64_t *bytes, uint64_t *files, struct error *err);

/* Paths of the host's libraries that the unpacked packages need, as a process in the sandbox names them: not to be believed. */
yyjson_val *packages_libraries(const struct packages *packages);

/* Becomes the program that installs packages for a session (docs/packages.md): it reads one request
 * from standard input and answers on standard output, in lines of JSON. python: an interpreter, or the
 * directory of a virtual environment. Returns only on failure. */
int packages_become_installer(const char *python, const char *store, struct error *err);

/* Becomes the process that packages.py starts to fetch or unpack the packages of an image. request: its argument, JSON
 * with "top", "root" and "shown" (struct installer_sandbox). Returns only on failure. */
int packages_become_builder(const char *python, const char *request, struct error *err);

/* A hash over names, versions and hashes of wheels. */
uint64_t packages_key(const struct packages *packages);

/* Writes the items of a list for image.json: {"name", "version", "sha256"}, of npm also "path" and "sha512". */
void packages_list(const struct packages *packages, struct json_out *out);

/* Patterns (fnmatch, relative to site-packages) of what an older copy of these packages has there:
 * NULL-terminated, owned by packages. directory: where they are unpacked. */
int packages_replaced(struct packages *packages, const char *directory, const char *const **ret,
                      struct error *err);
