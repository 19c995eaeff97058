"""Shared parts of the login tests: a case with an authorization server, and a browser."""

import glob
import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from authserver import World
from harness import BUILD, CLOISTER, PATIENCE, Case, environment

OAUTH = os.path.join(BUILD, "cloister-oauth")


def browse(url):
    """Acts as a browser: follows redirects, the last one to the page on 127.0.0.1."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


class Login(Case):
    def setUp(self):
        super().setUp()
        self.state = self.path("state")
        self.env = environment(XDG_STATE_HOME=self.state)
        self.world = World()
        self.addCleanup(self.world.close)

    def entry(self, name="s", url=None, **oauth):
        self.name = name
        return self.config({name: {"url": url or self.world.url, **({"oauth": oauth} if oauth else {})}})

    def start(self, *args, name=None, env=None):
        return subprocess.Popen([CLOISTER, "login", name or self.name, "--config", self.path("config.json"), *args], env=env or self.env,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.dir)

    def authorization_url(self, process):
        """The URL of the browser step, or None if the login has failed before."""
        self.shown = ""
        for line in process.stdout:
            self.shown += line
            if line.startswith("  http"):
                return line.strip()
        return None

    def login(self, *args, visit=browse, **rest):
        """Runs a login. Returns (status, output, errors); the output lacks the URL."""
        process = self.start(*args, **rest)
        url = self.authorization_url(process)
        if url:
            visit(url)
        process.stdin.close()
        process.stdin = None
        out, err = process.communicate(timeout=PATIENCE)
        self.asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query)) if url else None
        return process.returncode, out, err

    def logged_in(self, *args, **rest):
        status, out, err = self.login(*args, **rest)
        self.assertEqual((status, err), (0, ""), out)
        return out

    def refused(self, pattern, *args, browser=False, **rest):
        """Checks that the login fails with a message and leaves no token. browser: whether it reaches the browser step."""
        status, out, err = self.login(*args, **rest)
        self.assertEqual(status, 1, out + err)
        self.assertRegex(err, pattern)
        self.assertEqual(bool(self.asked), browser, out)
        self.assertEqual(self.files(), [])
        return err

    def files(self):
        return glob.glob(os.path.join(self.state, "cloister/oauth/*.json"))

    def record(self):
        [path] = self.files()
        with open(path, encoding="utf-8") as f:
            return json.load(f)

    def change(self, **members):
        [path] = self.files()
        with open(path, encoding="utf-8") as f:
            record = json.load(f)
        with open(path, "w", encoding="utf-8") as f:
            json.dump({**record, **members}, f)

    def token(self, status=None, challenge=None, name=None, url=None):
        """Returns the answer of cloister-oauth to a request for a token."""
        request = {"name": name or self.name, "url": url or self.world.url}
        if status:
            request.update(status=status, challenge=challenge or "")
        done = subprocess.run([OAUTH, "refresh"], env=self.env, input=json.dumps(request), capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)
