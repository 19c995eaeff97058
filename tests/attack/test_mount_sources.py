"""Classes 25 and 27: a host directory that will be mounted is exchanged for a link while sessions start."""

import os
import shutil
import tempfile

import harness
import rawmcp
from test_mounts import REFUSAL, STARTS, exchanging, rename_exchange

LIST = "import os; print(os.listdir('/data'))"
GOOD, OTHER = b"['good']\n", b"['other']\n"


class HostileSources(harness.Case):
    """`good` is the source. `link` leads to another folder, `ours` to one of Cloister's that no sandbox may have."""

    def setUp(self):
        super().setUp()
        self.place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, self.place)
        os.chmod(self.place, 0o755)
        self.good, self.link, self.ours = (f"{self.place}/{name}" for name in ("good", "link", "ours"))
        private = f"{self.place}/config/cloister"
        for folder, name in ((self.good, "good"), (f"{self.place}/other", "other"), (private, "private")):
            os.makedirs(folder, 0o755)
            with open(f"{folder}/{name}", "x", encoding="ascii"):
                pass
        os.symlink(f"{self.place}/other", self.link)
        os.symlink(private, self.ours)
        self.env = harness.environment(XDG_CONFIG_HOME=f"{self.place}/config")

    def profile(self):
        return self.config(defaultProfile="with", pool=0, profiles={"with": {"mounts": [
            {"source": self.good, "target": "/data", "mode": "ro"}]}})

    def outcome(self, *options):
        done = self.run_cloister("run", *options, "-c", LIST, env=self.env)
        return done.stdout, done.returncode

    def outcomes(self, other, *options):
        with exchanging(self.good, other):
            seen = {self.outcome(*options) for _ in range(STARTS)}
        if os.path.islink(self.good):
            rename_exchange(self.good, other)
        return seen

    def test_an_exchanged_source(self):
        options = ("--config", self.profile(), "--profile", "with")
        self.assertEqual(self.outcome(*options), (GOOD, 0))
        # The sandbox gets the folder or the target of the link: never a mixture, and never a third directory.
        self.assertLessEqual(self.outcomes(self.link, *options), {(GOOD, 0), (OTHER, 0), (b"", REFUSAL)})

    def test_an_exchanged_source_of_run(self):
        options = ("--mount", f"{self.good}:/data")
        self.assertEqual(self.outcome(*options), (GOOD, 0))
        self.assertEqual(self.outcome("--mount", f"{self.link}:/data"), (OTHER, 0))
        self.assertLessEqual(self.outcomes(self.link, *options), {(GOOD, 0), (OTHER, 0), (b"", REFUSAL)})

    def test_a_source_that_is_exchanged_for_one_that_is_refused(self):
        """The directory that was checked is the directory that is mounted."""
        for options in (("--mount", f"{self.good}:/data"), ("--config", self.profile(), "--profile", "with")):
            with self.subTest(options=options):
                self.assertEqual(self.outcome(*options), (GOOD, 0))
                self.assertLessEqual(self.outcomes(self.ours, *options), {(GOOD, 0), (b"", REFUSAL)})
        self.assertEqual(self.outcome("--mount", f"{self.ours}:/data"), (b"", REFUSAL))

    def test_an_exchanged_source_of_a_server(self):
        """All sessions of a template have the folder that the template opened."""
        with rawmcp.RawServer("--config", self.profile(), "--profile", "with", env=self.env) as server:
            server.initialize()
            listing = lambda name: server.cell(LIST, session=name)["stdout"]
            self.assertEqual(listing("before"), GOOD.decode())
            with exchanging(self.good, self.ours):
                self.assertEqual({listing(f"s{i}") for i in range(STARTS)}, {GOOD.decode()})


if __name__ == "__main__":
    harness.main()
