/* What the image commands teach. */
#include "supervisor/cli/commands.h"

const char cli_help_image_build[] =
        "Copies a CPython (3.9 or later), its standard library and packages, and\n"
        "the shared libraries that they need: no download, no privilege, a second or two.\n"
        "Without it the image is made at first use; after an upgrade, or when packages were\n"
        "installed, a new one is made by itself and the old one goes. An image that is there\n"
        "already stays.\n"
        "\n"
        "--python PATH is an interpreter, or the directory of a virtual environment, whose\n"
        "packages the sandbox then has. Without it: the config's, else /usr/bin/python3.\n"
        "\n"
        "--link says how the interpreter is brought in, which is chosen otherwise: embed, by its\n"
        "libpython, where it has one; module, where it has none: the interpreter loads Cloister.\n"
        "\n"
        "--with and --requirements add packages of an index. pip or uv of this machine finds and\n"
        "fetches them, as wheels only: sources are never built, nothing of a package is executed.\n"
        "They are kept by content, so that the same set needs no network the next time. Which index,\n"
        "say pip's and uv's own settings (PIP_INDEX_URL, pip.conf, UV_INDEX_URL, ...).\n"
        "\n"
        "--rootfs DIRECTORY is a whole root file system with a CPython 3.9 or later in it, such as\n"
        "mmdebstrap makes; --python is the interpreter's path inside then. It is copied, without\n"
        "setuid bits and devices; its Python is asked, confined, where its parts are.\n"
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
        "USED is when a sandbox was last made of it; \"stale\" is behind a name that was made here and\n"
        "that nobody will ask for any more ('cloister image prune' removes those).\n"
        "\n"
        "Examples:\n"
        "  cloister image list\n"
        "  cloister image list --json\n";

const char cli_help_image_show[] =
        "Packages of an index have the SHA-256 of the wheel that they came from; those of a virtual\n"
        "environment are named only.\n"
        "\n"
        "Examples:\n"
        "  cloister image show data\n"
        "  cloister image show data --json\n";

const char cli_help_image_path[] = "Examples:\n"
                                   "  du -sh \"$(cloister image path)\"\n"
                                   "  ls \"$(cloister image path py312)/root\"\n";

const char cli_help_image_remove[] =
        "An image that a running server uses stays, and the exit status is 1.\n"
        "\n"
        "Examples:\n"
        "  cloister image remove data\n"
        "  cloister image remove py311 py312\n";

const char cli_help_image_prune[] =
        "Removes images whose name was made here (default-..., packages-...) and whose interpreter or\n"
        "libraries are others by now, or gone; wheels that no image that stays was made of; and what\n"
        "builds that were killed have left. Images that you named stay, and so do those in use.\n"
        "\n"
        "Examples:\n"
        "  cloister image prune\n";
