"""`cloister bench`: it runs, leaves nothing behind, and refuses unknown arguments."""

import glob
import json
import os
import subprocess

import harness


class Command(harness.Case):
    def bench(self, *args, status=0):
        done = self.run_cloister("bench", *args, timeout=300)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_it_runs(self):
        rows = {row["name"]: row for row in json.loads(self.bench("--json", "--quick", "warm", "fork", "faults").stdout)["rows"]}
        self.assertLessEqual({"warm", "fork", "floor-echo", "faults"}, set(rows))
        self.assertLess(rows["floor-echo"]["median"], rows["warm"]["median"])
        self.assertGreater(rows["faults"]["least"], 50)

    def test_one_that_is_terminated_leaves_nothing(self):
        place = self.path("tmp")
        os.mkdir(place)
        run = subprocess.Popen([harness.CLOISTER, "bench", "warm", "--rounds", "10000"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=harness.environment(TMPDIR=place))
        self.addCleanup(run.kill)
        self.assertTrue(harness.wait_until(lambda: glob.glob(place + "/*/config-*")))
        run.terminate()
        self.assertEqual(run.wait(30), 130)
        self.assertEqual(os.listdir(place), [])

    def test_refusals(self):
        for args, line in ((["wram"], "no row is named 'wram': did you mean 'warm'?"),
                           (["--rounds", "0"], "--rounds 0: a number from 1 to 10000 is needed"),
                           (["--rounds", "many"], "--rounds many: a number from 1 to 10000 is needed"),
                           (["--timeout", "3"], "--timeout is not an option of 'bench'")):
            with self.subTest(args):
                said = self.bench(*args, status=2).stderr.decode()
                self.assertEqual(len(said.splitlines()), 1, said)
                self.assertIn(line, said)


if __name__ == "__main__":
    harness.main()
