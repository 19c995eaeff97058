"""KMeans of scikit-learn leaves the pool of OpenMP behind: the pool is there in a copy, or the first result says which thread keeps the session from
being copied."""

import os

import harness
import rawmcp

VENV = os.path.join(os.environ.get("CLOISTER_VENV", os.path.join(harness.SOURCE, "build", "venv")), "bin", "python")


class KMeans(rawmcp.ServerCase):
    CONFIG = {"python": VENV, "limits": {"memory": "1500M", "cpu": 4}}

    def test_a_copy_is_right_or_refused_at_once(self):
        # The first call may wait for the image. A copy is possible before the pool exists.
        head = "import numpy as np\nfrom sklearn.cluster import KMeans\nfrom threadpoolctl import threadpool_limits\nx = 1"
        self.assertTrue(self.ok(head, checkpoint="taken", wait=harness.patient(400), timeout=harness.patient(60))["checkpoint"])
        code = ("data = np.random.default_rng(0).random((4000, 4))\n"
                "def fit(): return KMeans(4, n_init=1, random_state=0).fit(data).labels_.sum().item()\nwith threadpool_limits(4): right = fit()")
        self.ok(code, timeout=harness.patient(60))
        cell = self.ok("x", checkpoint="with-a-pool")
        failed = self.cell("x = 2; fit(); 1 / 0", on_error="rollback", timeout=harness.patient(60))
        if "checkpoint" in cell:
            self.assertEqual(failed["state"], "rolled_back", failed)
        else:
            self.assertRegex(cell["notice"], 'no copy of the state can be made: thread "[^"]+" of [^ ]*gomp[^ ]* cannot be held')
            self.assertEqual(self.ok("x")["value"]["repr"], "1", "the refused call has run")
        self.assertEqual(self.ok("x, fit() == right", timeout=harness.patient(60))["value"]["repr"], "(1, True)")


if __name__ == "__main__":
    harness.main()
