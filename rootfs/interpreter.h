/* The parts of the host's interpreter, as its sysconfig reports them, checked. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "policy/template-link.h"

struct interpreter {
        yyjson_doc *answer;     /* owns all below */
        const char *asked;      /* the path that was run (borrowed) */
        const char *executable; /* the future sys.executable: of a venv its own, else the real
                                   file */
        const char *real;       /* the binary, its path without links */
        const char *version;    /* "3.11.2" */
        const char *prefix;
        const char *base_prefix;
        const char *libpython; /* "" for TEMPLATE_LINK_MODULE */
        const char *place;     /* the site-packages that further packages go to; may be missing */
        const char *cache_tag; /* "cpython-311" */
        uint32_t magic;        /* the first four bytes of its .pyc files, little-endian */
        bool venv;
        enum template_link link;
        yyjson_val *standard; /* array of directories (or zip files) of the standard library */
        yyjson_val *packages; /* array of site-packages directories */
        yyjson_val *others;   /* array of further entries of sys.path, which an image leaves out */
};

/* How the interpreter and Cloister are linked (enum template_link): cloister-worker opens its libpython, where
 * the interpreter itself does and where cloister-worker can run at all: it is linked to the libc of this
 * machine. Else the interpreter loads cloister-module, which needs no libc. INTERPRETER_LINK_ANY: chosen so. */
enum {
        INTERPRETER_LINK_ANY = -1,
        INTERPRETER_LINK_LAUNCHED =
                -2, /* as a module, of an interpreter that a launcher starts (borrowed-python.h) */
};

/* python: an absolute path; link: INTERPRETER_LINK_ANY or one of enum template_link. An
 * interpreter that cannot be used is refused with a line that says what to do. */
int interpreter_ask(const char *python, int link, struct interpreter *ret, struct error *err);
/* The same inside a root whose bytes are not trusted (process.h). path and root name its directory;
 * python is a path inside. */
int interpreter_ask_inside(const char *path, int root, const char *python, int link,
                           struct interpreter *ret, struct error *err);

void interpreter_done(struct interpreter *interpreter);

#define _cleanup_interpreter_ _cleanup_(interpreter_done)

/* The loader named by an open program. Returns 0, or -ENOEXEC if it is not a dynamically linked
 * 64-bit program. */
int link_read_loader(int fd, char ret[PATH_MAX]);

/* Whether a program of this machine is started by the dynamic loader that starts us. */
bool link_loader_is_ours(const char *program);

/*
 * For a root file system that was made elsewhere. root: its directory; python: the interpreter's
 * path inside; libpython: the path of its libpython inside, NULL or "" for none. Embedded only
 * where the root has our loader and a libc no older than ours. Links are followed inside the root.
 */
int link_of_root(int root, const char *python, const char *libpython, enum template_link *ret,
                 struct error *err);
