#!/usr/bin/python3
"""CPython's own suite (Debian: libpython3.11-testsuite) in a sandbox, beside the same modules outside of it.

    cpython.py [--limits JSON] [--keep DIRECTORY] [MODULE]...

Each module runs twice at a time: by an ordinary user outside, and in a session of a profile with loopback. A test that fails, or is
skipped, in the sandbox only is a difference. cpython.json has those that are explained. Exit status 1: another one exists, or an explanation that
nothing needs. Environment: CLOISTER_BUILD.
"""

import argparse
import concurrent.futures
import fnmatch
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("CLOISTER_BUILD", f"{HERE}/../../build")
PYTHON = "/usr/bin/python3"
USER = 65534  # outside, if this is root
SECONDS = 300
SLOW = {"test_asyncio": 900, "test_concurrent_futures": 900, "test_multiprocessing_fork": 900, "test_multiprocessing_forkserver": 1500, "test_multiprocessing_spawn": 1500}
MODULES = """
    fcntl mmap os posix shutil tempfile socket
    multiprocessing_main_handling subprocess threading thread threading_local threadsignals signal sqlite3 dbm dbm_dumb
    dbm_gnu dbm_ndbm shelve ssl select selectors poll epoll pty resource io fileio file bufio largefile json pickle zipfile tarfile ctypes
    faulthandler gc importlib inspect traceback warnings builtin code doctest glob pathlib posixpath stat fork1 wait3 wait4 popen pipes
    openpty ioctl tty termios mailbox netrc pwd grp getpass platform sys site sysconfig socketserver asyncore asynchat smtplib
    poplib imaplib nntplib ftplib httplib httpservers urllib urllib2 urllib2_localnet urlparse xmlrpc wsgiref telnetlib robotparser
    fileinput filecmp gzip bz2 lzma zlib mimetypes marshal memoryio memoryview array struct time datetime zoneinfo calendar locale
    hashlib hmac random secrets uuid weakref queue sched atexit contextlib contextlib_async runpy pkgutil zipimport zipapp
    compileall py_compile cmd_line cmd_line_script venv logging syslog crypt spwd nis ossaudiodev readline rlcompleter
    descr class generators coroutines asyncgen exceptions except_star fstring re string unicode str bytes int long float complex
    decimal fractions statistics math cmath itertools functools operator collections dict list set tuple heapq bisect enum dataclasses
    typing abc copy pprint reprlib textwrap difflib csv configparser plistlib xml_etree sax minidom pyexpat html htmlparser email base64
    binascii codecs codeccallbacks charmapcodec ast compile dis tokenize tracemalloc trace profile cprofile pdb bdb timeit unittest
    unittest_mock peepholer peg_generator sys_settrace audit context contextvars devpoll eintr kqueue linuxaio posix_spawn
    repl utf8_mode isinstance int_literal optparse argparse getopt gettext shlex cmd exception_hierarchy
    asyncio multiprocessing_fork multiprocessing_forkserver multiprocessing_spawn concurrent_futures
""".split()

# In the session: runs the module with the interpreter of the image.
CODE = r"""
import os, subprocess, sys
os.makedirs("/workspace/out", exist_ok=True); os.makedirs("/workspace/cwd")
environ = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/workspace", "TMPDIR": "/tmp"}
with open("/workspace/out/log", "wb") as f:
    try:
        subprocess.run([sys.executable, *%r, "--junit-xml", "/workspace/out/result.xml", %r], env=environ, cwd="/workspace/cwd", stdout=f, stderr=f,
                       stdin=subprocess.DEVNULL, timeout=%d, check=False)
    except subprocess.TimeoutExpired:
        f.write(b"no end")
"""
# They end the run of their module, outside too if the kernel lacks the protocol.
IGNORED = {"test_socket": ["*UDPLITE*"]}


def package():
    found = subprocess.run([PYTHON, "-c", "import test; from test import support; import importlib.util as u; assert u.find_spec('test.test_fcntl'); print(test.__path__[0])"], capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit("cpython.py: the suite of /usr/bin/python3 is missing: install libpython3.11-testsuite")
    return found.stdout.strip()


def seconds_for(module):
    return SLOW.get(module, SECONDS)


def words_for(module):
    return ["-m", "test", "-v", "--timeout", str(seconds_for(module) - 60), *(word for pattern in IGNORED.get(module, ()) for word in ("-i", pattern))]


def build_image(folder, place):
    """The image that has the suite and the modules of C for tests, which images leave out, as a package: python -I finds it too."""
    names = {os.path.basename(path): os.path.realpath(path) for path in glob.glob(f"{folder}/../lib-dynload/_test*.so")}
    for directory, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        names.update({f"test/{os.path.relpath(os.path.join(directory, name), folder)}": os.path.join(directory, name) for name in files})
    info = "cloister_suite-1.dist-info"
    texts = {f"{info}/METADATA": "Metadata-Version: 2.1\nName: cloister-suite\nVersion: 1\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: cpython.py\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    texts[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*names, *texts, f"{info}/RECORD"))
    with zipfile.ZipFile(f"{place}/cloister_suite-1-py3-none-any.whl", "w") as wheel:
        for name, path in names.items():
            wheel.write(path, name)
        for name, text in texts.items():
            wheel.writestr(name, text)
    words = [f"{BUILD}/cloister", "image", "build", "--python", PYTHON, "--with", "cloister-suite", "--find-links", place, "--offline", "--name", "suite"]
    built = subprocess.run(words, env=environment(place), capture_output=True, text=True, check=False)
    if built.returncode:
        sys.exit(f"cpython.py: the image with the suite: {built.stderr}")


def environment(place):
    return {**os.environ, "CLOISTER_IMAGE_STORE": f"{place}/images"}


def outside(module, folder):
    os.chmod(folder, 0o777)
    user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if os.geteuid() == 0 else []
    environ = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": folder, "TMPDIR": folder}
    with open(f"{folder}/log", "wb") as log:
        with subprocess.Popen([*user, PYTHON, *words_for(module), "--junit-xml", f"{folder}/result.xml", module], env=environ, cwd=folder, stdout=log, stderr=log,
                              stdin=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                process.wait(seconds_for(module))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)


def inside(module, folder, config, place):
    seconds = seconds_for(module)
    words = [f"{BUILD}/cloister", "run", "--config", config, "--profile", "suite",
             "--timeout", str(seconds + 20), "--out", folder, "-c", CODE % (words_for(module), module, seconds)]
    with open(f"{folder}.run", "wb") as log:
        subprocess.run(words, env=environment(place), stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False, timeout=seconds + 120)


def results(folder, said):
    """{test: "ok", "failed" or "skipped"}; {"": reason}: the module itself. said: gets the ends of their messages."""
    try:
        tree = xml.etree.ElementTree.parse(f"{folder}/result.xml")
    except (OSError, xml.etree.ElementTree.ParseError):
        tree = None
    found = {}
    for case in tree.iter("testcase") if tree is not None else ():
        bad, skipped = case.find("failure") is not None or case.find("error") is not None, case.find("skipped") is not None
        found[case.get("name")] = "failed" if bad else "skipped" if skipped else "ok"
        for one in case:
            said[case.get("name")] = " ".join((one.get("message") or one.text or "").split())[-300:]
    if not found:
        try:
            with open(f"{folder}/log", encoding="utf-8", errors="replace") as f:
                text = f.read()
        except OSError:
            text = ""
        said[""] = " ".join(line for line in text.splitlines() if " skipped -- " in line or "Timeout" in line or "Error" in line)[-300:]
        found[""] = "skipped" if " skipped" in text else "no result" if "no end" in text or "Timeout" in text or not text else "failed"
    return found


def compare(module, there, here):
    """The tests that fail or are skipped inside only."""
    if "" in there or "" in here:
        return {f"{module}": f"{there.get('', 'ok')} outside, {here.get('', 'ok')} inside"} if there.get("") != here.get("") else {}
    found = {}
    for name, result in here.items():
        other = there.get(name, "absent")
        if result in ("failed", "skipped") and other != result and not (result == "skipped" and other == "absent"):
            found[name] = f"{other} outside, {result} inside"
    for name in there.keys() - here.keys():
        if there[name] == "ok":
            found[name] = "ok outside, absent inside"
    return found


def run(module, place, config):
    folders = {where: f"{place}/{module}-{where}" for where in ("outside", "inside")}
    if not os.path.exists(f"{place}/{module}.done"):
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            both = [pool.submit(outside, module, folders["outside"]), pool.submit(inside, module, folders["inside"], config, place)]
            for one in both:
                one.result()
        with open(f"{place}/{module}.done", "wb"):
            pass
    said = {}
    return results(folders["outside"], {}), results(folders["inside"], said), said


class Explained:
    """The differences that have a reason: [{"reason", "said", "tests": {module: [name]}}] of cpython.json.

    A name lacks "test." and the module; "*" stands for a class or a part of its name, "" is the module itself. said: patterns of what the test said,
    so that it cannot begin to fail in another way. A name that no difference needs, and a test with two names, are errors.
    """

    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.rows = json.load(f)
        self.used = set()
        for row in self.rows:
            for module, names in row["tests"].items():
                for name in names:
                    if "*" in name.rpartition(".")[2] or (name and "." not in name) or len(set(names)) != len(names):
                        sys.exit(f"cpython.json: {module}: {name!r} does not name one test: write CLASS.TEST, each once")

    def reason(self, module, name, said):
        found = None
        for i, row in enumerate(self.rows):
            for one in row["tests"].get(module, ()):
                full = f"test.{module}.{one}" if one else module
                if fnmatch.fnmatchcase(name, full) and any(fnmatch.fnmatchcase(said, pattern) for pattern in row["said"]):
                    self.used.add((i, module, one))
                    found = row["reason"]
        return found

    def unused(self, modules):
        return [f"{module}: {name or 'itself'}" for i, row in enumerate(self.rows) for module, names in row["tests"].items() if module in modules
                for name in names if (i, module, name) not in self.used]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limits", type=json.loads, default={})
    parser.add_argument("--keep", help="a directory that keeps logs and results; modules whose results it has do not run again")
    parser.add_argument("modules", nargs="*")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start what runs in the background without it, and tests send it
    suite = package()
    explained = Explained(f"{HERE}/cpython.json")
    modules = options.modules or [f"test_{name}" for name in dict.fromkeys(MODULES) if os.path.exists(f"{suite}/test_{name}.py") or os.path.isdir(f"{suite}/test_{name}")]
    place = os.path.abspath(options.keep) if options.keep else tempfile.mkdtemp(prefix="cloister-cpython-", dir="/var/tmp")
    os.makedirs(place, exist_ok=True)
    os.chmod(place, 0o755)
    with open(f"{place}/config.json", "w", encoding="ascii") as f:
        limits = {"memory": "3G", "pids": 512, "tmp": "1G", "workspace": "1G", **options.limits}
        json.dump({"mcpServers": {}, "timeout_max": max(SLOW.values()) + 60,
                   "profiles": {"suite": {"agent": True, "image": "suite", "network": "loopback", "limits": limits}}}, f)
    sums, differ, unexplained = {}, 0, []
    try:
        if not os.path.exists(f"{place}/images/suite"):
            build_image(suite, place)
        for module in modules:
            there, here, said = run(module, place, f"{place}/config.json")
            for result in here.values():
                sums[result] = sums.get(result, 0) + 1
            differences = compare(module, there, here)
            differ += len(differences)
            for name, what in differences.items():
                text = said.get("" if name == module else name, "")
                reason = explained.reason(module, name, text)
                print(f"  {module}: {name}: {what} ({reason or 'unexplained: ' + text[-300:]})", flush=True)
                if not reason:
                    unexplained.append(f"{module}: {name}")
            failed = sum(result == "failed" for result in there.values())
            print(f"{module}: {len(here)} tests, {len(differences)} differ; {failed} fail outside", flush=True)
    finally:
        if not options.keep:
            shutil.rmtree(place, ignore_errors=True)
    unused = explained.unused(modules)
    print(f"{len(modules)} modules, tests inside: {sums}, {differ} differ, unexplained: {unexplained}, explanations that nothing needs: {unused}")
    return 1 if unexplained or unused else 0


if __name__ == "__main__":
    sys.exit(main())
