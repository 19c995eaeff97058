/* Help texts of the image commands. */
#include "supervisor/cli/commands.h"

const char cli_help_image_build[] =
        "Copies a CPython (3.9 or later), its standard library, its packages and the shared\n"
        "libraries that they need. This needs no download and no privilege, and takes a second or\n"
        "two. Otherwise the image is built at first use. After an upgrade of Python or of a package\n"
        "a new image is built automatically, and the old one is removed. An existing image of that\n"
        "name is kept.\n"
        "\n"
        "--python PATH is an interpreter, or the directory of a virtual environment, whose\n"
        "packages the image contains. Default: the config's python, else /usr/bin/python3.\n"
        "\n"
        "--link says how Cloister and the interpreter are linked. embed: Cloister opens its\n"
        "libpython. module: the interpreter loads Cloister. Default: what the interpreter supports.\n"
        "\n"
        "--with and --requirements add packages of an index. The machine's pip or uv resolves and\n"
        "fetches them, as wheels only: nothing is built from source, no code of a package runs.\n"
        "Wheels are cached by content, so that the same set needs no network the next time. pip's and\n"
        "uv's own settings name the index (PIP_INDEX_URL, pip.conf, UV_INDEX_URL, ...).\n"
        "\n"
        "--rootfs DIRECTORY is a root file system that contains a CPython 3.9 or later, such as\n"
        "mmdebstrap makes; --python is then the interpreter's path inside it. It is copied without\n"
        "setuid bits and devices. Its Python runs confined, to find its standard library.\n"
        "\n"
        "Examples:\n"
        "  cloister image build\n"
        "  cloister image build --rootfs ./bookworm --name bookworm\n"
        "  cloister image build --with pandas,numpy --name data\n"
        "  cloister image build -r requirements.txt --name report\n"
        "  cloister image build --with ours --find-links ./wheels --offline --name ours\n"
        "  cloister image build --python ~/project/.venv\n"
        "  cloister image build --python /opt/python/bin/python3.12 --name py312\n"
        "  cloister run --image data -c 'import pandas; print(pandas.__version__)'\n";

const char cli_help_image_list[] =
        "USED is when a sandbox was last created from the image. \"stale\" marks an image with a\n"
        "generated name that is outdated; 'cloister image prune' removes those.\n"
        "\n"
        "Examples:\n"
        "  cloister image list\n"
        "  cloister image list --json\n";

const char cli_help_image_show[] =
        "Packages of an index are listed with the SHA-256 of their wheel; those of a virtual\n"
        "environment have none.\n"
        "\n"
        "Examples:\n"
        "  cloister image show data\n"
        "  cloister image show data --json\n";

const char cli_help_image_path[] = "Examples:\n"
                                   "  du -sh \"$(cloister image path)\"\n"
                                   "  ls \"$(cloister image path py312)/root\"\n";

const char cli_help_image_remove[] =
        "An image that a running server uses is kept, and the exit status is 1.\n"
        "\n"
        "Examples:\n"
        "  cloister image remove data\n"
        "  cloister image remove py311 py312\n";

const char cli_help_image_prune[] =
        "Removes images with a generated name (default-..., packages-...) whose interpreter or\n"
        "libraries have changed or are gone, wheels that no remaining image needs, and leftovers of\n"
        "killed builds. Images that you named are kept, and so are those in use.\n"
        "\n"
        "Examples:\n"
        "  cloister image prune\n";
