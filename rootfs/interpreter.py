# Runs in the host's interpreter (python -I -c …): prints the paths of its parts as one line of JSON.
# Python 2 must be able to compile it, so that an old interpreter can report its version.
import json
import os
import sys
import sysconfig


def unique(paths):
    found = []
    for path in paths:
        if path and os.path.exists(path) and path not in found:
            found.append(path)
    return found


def variable(name):
    return sysconfig.get_config_var(name) or ""


def libpython_names():
    # INSTSONAME is a .a where the interpreter was built without --enable-shared; the distribution may ship
    # the shared library all the same.
    name = "libpython%d.%d%s.so.1.0" % (sys.version_info[0], sys.version_info[1], getattr(sys, "abiflags", ""))
    return unique_names([variable("INSTSONAME"), name, name[:-2]])


def unique_names(names):
    return sorted(set(n for n in names if ".so" in n), key=len, reverse=True)


def find_libpython():
    base = sys.base_prefix
    folders = [variable("LIBDIR"), os.path.join(variable("LIBDIR"), variable("MULTIARCH")),
               os.path.join(base, "lib"), os.path.join(base, "lib", variable("MULTIARCH")), os.path.join(base, "lib64")]
    for name in libpython_names():
        for folder in unique(folders):
            if os.path.isfile(os.path.join(folder, name)):
                return os.path.join(folder, name)
    return ""


def is_in(libpython, program):
    """Whether the interpreter itself runs that library's code."""
    with open(program, "rb") as f:
        return bool(libpython) and os.path.basename(libpython).split(".so")[0].encode() in f.read()


def version_of(libpython):
    try:
        import ctypes
        library = ctypes.CDLL(libpython)
        library.Py_GetVersion.restype = ctypes.c_char_p
        return library.Py_GetVersion().decode().split()[0]
    except Exception:
        return ""


def packages_and_others(standard):
    venv = sys.prefix != sys.base_prefix
    packages, others = [], []
    for path in unique(sys.path):
        real = os.path.realpath(path)
        if any(real == s or real.startswith(s + os.sep) for s in standard) and "-packages" not in path:
            continue
        if os.path.basename(path) not in ("site-packages", "dist-packages"):
            others.append(path)
        elif venv or sys.prefix != "/usr":
            packages.append(path)
    return packages, others


def place_of_packages():
    """The directory into which installers put packages: one that site searches, whether it exists or not."""
    import site
    wanted, known = sysconfig.get_paths()["purelib"], site.getsitepackages()
    return os.path.realpath(wanted if wanted in known or not known else known[0])


def describe():
    answer = {
        "implementation": sys.implementation.name,
        "version": "%d.%d.%d" % sys.version_info[:3],
        "full_version": sys.version.split()[0],
        "abiflags": getattr(sys, "abiflags", ""),
        "executable": sys.executable,
        "real": os.path.realpath(sys.executable),
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "cache_tag": sys.implementation.cache_tag or "",
    }
    import importlib.util
    answer["magic"] = int.from_bytes(importlib.util.MAGIC_NUMBER, "little")
    paths = sysconfig.get_paths()
    zipped = [p for p in sys.path if p.endswith(".zip") and p.startswith(sys.base_prefix)]
    answer["standard"] = unique([paths["stdlib"], paths["platstdlib"], variable("DESTSHARED")] + zipped)
    standard = [os.path.realpath(p) for p in answer["standard"]]
    answer["packages"], answer["others"] = packages_and_others(standard)
    answer["place"] = place_of_packages()
    answer["libpython"] = find_libpython()
    answer["libpython_runs"] = is_in(answer["libpython"], answer["real"])
    answer["libpython_name"] = (libpython_names() or [""])[0]
    answer["libpython_version"] = version_of(answer["libpython"]) if answer["libpython"] else ""
    return answer


if sys.version_info < (3, 9):
    print(json.dumps({"implementation": "cpython", "version": "%d.%d.%d" % sys.version_info[:3]}))
else:
    print(json.dumps(describe()))
