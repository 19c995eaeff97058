/* How the interpreter of an image is brought into a template (docs/architecture.md, "Two links of the worker"). */
#pragma once

/* How CPython comes into the template. */
enum template_link {
        TEMPLATE_LINK_EMBED,  /* cloister-worker opens the image's libpython */
        TEMPLATE_LINK_MODULE, /* the image's interpreter loads cloister-module: there is no
                                 libpython, or its libc is not ours */
        TEMPLATE_LINK_MAX,
};
