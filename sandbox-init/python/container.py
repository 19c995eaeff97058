"""What the config of an imported container image asks for: variables of the environment, and a working directory
(docs/images.md). The builder writes them into the image."""

import os
import sys

SETTINGS = "/etc/cloister/container.json"
BYTES_MAX = 1024 * 1024


def _read():
    try:
        with open(SETTINGS, "rb") as f:
            text = f.read(BYTES_MAX)
    except OSError:
        return {}
    import json

    return json.loads(text)


def _is_taken(name):
    """Cloister's own variables stay, except for PATH. A proxy that the image names does not exist here."""
    return name != "PATH" and (name in os.environ or name.lower().endswith("_proxy"))


def apply():
    """In the template. Returns the working directory of sessions, or None for the usual one."""
    settings = _read()
    for variable in settings.get("env", ()):
        name, _, value = variable.partition("=")
        if not _is_taken(name):
            os.environ[name] = value
    # The interpreter was started isolated, so that it has not read it. The first entry is that of the working directory.
    sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(":") if path.startswith("/")]
    return settings.get("workdir")


def enter(folder):
    """In a worker."""
    try:
        os.chdir(folder)
    except OSError:
        pass  # it was left out of the image
