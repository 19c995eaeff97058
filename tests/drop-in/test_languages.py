"""llm-sandbox's further languages: code that programs of an imported image run. The image has a C++ compiler, a shell and no Python."""

import json
import os
import re
import shutil
import subprocess
import tempfile

import container_images as containers
import harness
import systems
from container_images import Image, tar

HELLO = """#include <cstdio>
#include <cstdlib>
int main() {
    std::puts("out");
    std::fputs("err\\n", stderr);
    return %s;
}
"""
SHELL = {"image": "cpp", "agent": True, "program": {"language": "shell", "file": "code.sh", "commands": ["sh -n code.sh", "sh code.sh 'two words'"]}}


def compiler_files():
    """Paths of this machine: g++ with all that one small program needs, and sh."""
    asked = lambda *words: subprocess.check_output(["g++", *words], text=True, input=HELLO % 0).split()
    programs = [shutil.which("g++", path="/usr/bin:/bin"), "/bin/sh", shutil.which("cat"), *asked("-print-prog-name=cc1plus"), *asked("-print-prog-name=collect2"),
                shutil.which("as"), shutil.which("ld")]
    libraries = [path for program in programs for path in subprocess.check_output(["ldd", program], text=True).split() if path.startswith("/")]
    headers = [word for word in asked("-M", "-x", "c++", "-") if word.startswith("/")]
    names = "crt1.o Scrt1.o crti.o crtn.o crtbegin.o crtbeginS.o crtend.o crtendS.o libgcc.a libgcc_s.so libgcc_s.so.1 libstdc++.so libm.so libm.so.6 libmvec.so.1 "
    names += "libc.so libc.so.6 libc_nonshared.a ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 liblto_plugin.so"
    objects = [path for name in names.split() for path in asked("-print-file-name=" + name) if path.startswith("/")]
    merged = lambda path: os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return sorted({merged(path) for path in [*programs, *libraries, *headers, *objects]})


def compiler_layer():
    """Each file by the name by which it is known; of links, only those of the root are links."""
    files = {}
    for path in compiler_files():
        with open(path, "rb") as f:
            files[path] = f.read(), 0o755 if os.access(path, os.X_OK) else 0o644
    links = [containers.link(name, "usr/" + name) for name in ("bin", "lib", "lib64") if os.path.islink("/" + name)]
    return tar(*links, *(containers.file(path[1:], data, mode) for path, (data, mode) in files.items()))


class Languages(systems.SystemCase):
    SYSTEM = "llm-sandbox"
    place = None

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.env = {"CLOISTER_IMAGE_STORE": f"{cls.place}/images"}
        image = Image(("plain", compiler_layer()), Env=["PATH=/usr/bin:/bin", "OF_IMAGE=yes"], WorkingDir="/nowhere")
        path = image.archive(f"{cls.place}/cpp.tar")
        done = subprocess.run([harness.CLOISTER, "image", "build", "--oci", path, "--name", "cpp"], env=harness.environment(**cls.env),
                              capture_output=True, timeout=harness.patient(300), check=False)
        cls.built = done.returncode, done.stderr.decode()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.place, ignore_errors=True)

    def setUp(self):
        super().setUp()
        self.assertEqual(self.built[0], 0, self.built[1])

    def start(self, *args, env=None, **rest):
        return super().start(*args, env={**self.env, **(env or {})}, **rest)

    def test_image_without_python(self):
        """Without --python-from it gets the Python of the default image, which starts its programs."""
        self.assertRegex(self.built[1], r"image cpp: Python 3\.\d+\.\d+ of image default-[0-9a-f]{12}, ")
        self.assertEqual(len([name for name in os.listdir(f"{self.place}/images") if name.startswith("default-")]), 1)
        code = "import os, subprocess; print(os.environ['OF_IMAGE'], subprocess.check_output(['sh', '-c', 'echo $((6 * 7))'], text=True))"
        done = self.run_cloister("run", "--image", "cpp", "-c", code, env=harness.environment(**self.env))
        self.assertEqual(done.stdout, b"yes 42\n\n", done.stderr)

    def test_compiled_language(self):
        self.both(self.check_compiled)

    def check_compiled(self, server):
        run = lambda code, **rest: self.value(server, "execute_code", code=code, language="cpp", **rest)
        self.assertEqual(run(HELLO % 0), {"exit_code": 0, "stderr": "err\n", "stdout": "out\n"})
        self.assertEqual(run(HELLO % 3), {"exit_code": 3, "stderr": "err\n", "stdout": "out\n"})
        self.assertEqual(run(HELLO % "(std::fflush(stdout), std::abort(), 0)")["exit_code"], 128 + 6)
        wrong = run("int main() { return no_such_name; }")
        self.assertEqual((wrong["exit_code"], wrong["stdout"]), (1, ""))
        self.assertRegex(wrong["stderr"], r"main\.cpp:1:21: error: .no_such_name. was not declared")
        late = run("int main() { for (volatile int i = 0;; i = i + 1); }", timeout=1)
        self.assertEqual((late["exit_code"], late["stdout"]), (1, ""))
        self.assertRegex(late["stderr"], "(?i)timeout|timed out|1 s")
        refused = run("int main() {}", libraries=["boost"])
        self.assertEqual(refused, {"exit_code": 1, "stdout": "", "stderr": 'libraries: packages can be installed for python only: cpp has those of its image "cpp"'})
        # Each call has its own sandbox.
        self.assertEqual(run("#include <cstdio>\nint main() { return std::fopen(\"left\", \"r\") != nullptr; }")["exit_code"], 0)

    def test_languages_that_are_listed(self):
        """Those whose image exists. A call in another one names the command that makes its image."""
        server = self.start(config={"profiles": {"sh": SHELL, "tcl": {**SHELL, "image": "none", "program": {**SHELL["program"], "language": "tcl"}}}})
        listed = json.loads(self.told(server, "get_supported_languages"))
        self.assertEqual(listed, ["python", "javascript", "cpp", "shell"])
        details = [self.value(server, "get_language_details", language=name) for name in listed]
        for one in details:
            self.assertEqual(list(one), ["version", "package_manager", "preinstalled_libraries", "use_cases", "visualization_support", "examples"])
        read = server.ask("resources/read", {"uri": "sandbox://languages"})["contents"][0]["text"]
        self.assertEqual(json.loads(read), dict(zip(listed, details)))
        self.assertEqual(self.value(server, "get_language_details", language="go"), {"error": "Unsupported language: go"})
        missing = lambda name: self.value(server, "execute_code", code="x", language=name)["stderr"]
        for name, image in ("go", "golang:"), ("java", "eclipse-temurin:"), ("ruby", "ruby:"), ("r", "r-base:"):
            self.assertRegex(missing(name), rf"there is no image '{name}' \(make it with 'cloister image build --oci docker://docker\.io/library/{image}\S+ --name {name}'\)")
        self.assertIn("there is no image 'none' (make it with 'cloister image build --name none')", missing("tcl"))
        self.assertRegex(missing("cobol"), 'the language "cobol" is not available: this server has python, javascript, .*cpp.*shell')
        self.assertEqual(missing("shell\0"), "language must be a string")
        # The example of a language is right.
        example = details[2]["examples"][0]["code"]
        self.assertEqual(self.value(server, "execute_code", code=example, language="cpp"), {"exit_code": 0, "stderr": "", "stdout": "3\n"})

    def test_row_of_the_user(self):
        """A profile of the user's config is a row too: its commands run one after another until one fails, and their words are data."""
        rows = {"sh": SHELL, "lost": {**SHELL, "program": {"language": "lost", "file": "x", "commands": ["no-such-program x", "sh -c exit"]}},
                "own": {**SHELL, "agent": False, "program": {**SHELL["program"], "language": "own"}}}
        server = self.start(config={"profiles": rows})
        run = lambda code, name="shell", **rest: self.value(server, "execute_code", code=code, language=name, **rest)
        self.assertEqual(run('echo "$1" $OF_IMAGE; pwd; cat; echo e >&2; exit 4'), {"exit_code": 4, "stderr": "e\n", "stdout": "two words yes\n/workspace\n"})
        self.assertEqual(run("echo ran; if")["stdout"], "")
        lost = run("", "lost")
        self.assertEqual((lost["exit_code"], lost["stderr"]), (127, "cloister: no-such-program: No such file or directory\n"))
        # Background processes and a stream that is kept open do not hold the answer back.
        self.assertEqual(run("sleep 100 & (while :; do :; done) & echo done; kill -9 $$")["exit_code"], 128 + 9)
        # A profile that an agent may not choose is not usable by its language either.
        self.assertRegex(run("echo ran", "own")["stderr"], "no profile that may be used here has it")
        # A profile of another language does not become the one of Python.
        self.assertEqual(self.value(server, "execute_code", code="import os; print(os.environ.get('OF_IMAGE'))")["stdout"], "None\n")

    def test_output_is_bounded(self):
        server = self.start(config={"profiles": {"sh": SHELL}})
        answer = self.value(server, "execute_code", code="while :; do echo " + "y" * 1000 + "; done", language="shell", timeout=2)
        self.assertEqual((answer["exit_code"], answer["stdout"]), (1, ""))
        self.assertEqual(self.value(server, "execute_code", code="echo next", language="shell")["stdout"], "next\n")

    def test_wrong_rows(self):
        for change, why in (({"language": "python"}, "is the profile's \"language\""), ({"language": "C"}, "must be a name of small letters"),
                            ({"file": "../x"}, "must be the name of a file"), ({"file": "-x"}, "must be the name of a file"),
                            ({"commands": []}, "must be an array of 1 to 8"), ({"commands": [" "]}, "item 1 must be a program"),
                            ({"commands": ["sh", "sh -c 'x"]}, "item 2 must be a program"), ({"commands": ["sh\nrm"]}, "item 1 must be a program"),
                            ({"commands": ["sh"] * 9}, "8")):
            ended = self.run_cloister("config", "check", "--config", self.config(profiles={"x": {"program": {**SHELL["program"], **change}}}))
            self.assertEqual(ended.returncode, 1, (change, ended.stdout))
            self.assertRegex(ended.stdout.decode(), re.escape(why) if "\"" in why else why)
        ended = self.run_cloister("config", "check", "--config", self.config(profiles={"x": {"program": {"language": "x"}}}))
        self.assertIn(b'program needs "language", "file" and "commands"', ended.stdout)


if __name__ == "__main__":
    harness.main()
