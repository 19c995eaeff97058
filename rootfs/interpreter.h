/* What the host's interpreter says of itself, asked through its sysconfig, and checked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "policy/template-link.h"

struct interpreter {
        yyjson_doc *answer;     /* owns all below */
        const char *asked;      /* the path that was asked (borrowed) */
        const char *executable; /* what sys.executable is to be: of a venv its own, else the real
                                   file */
        const char *real;       /* the binary, no links in its path */
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

/* How the interpreter is to be brought in; the first lets it be chosen (link.h). */
enum { INTERPRETER_LINK_ANY = -1 };

/* python: an absolute path; link: INTERPRETER_LINK_ANY or one of enum template_link. Refuses, in
 * one line that says what to do, all that no image can be made of. */
int interpreter_ask(const char *python, int link, struct interpreter *ret, struct error *err);
/* The same inside a root whose bytes are not trusted (confine.h). path and root name its directory;
 * python is a path inside. */
int interpreter_ask_inside(const char *path, int root, const char *python, int link,
                           struct interpreter *ret, struct error *err);

void interpreter_done(struct interpreter *interpreter);

#define _cleanup_interpreter_ _cleanup_(interpreter_done)
