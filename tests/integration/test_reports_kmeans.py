"""KMeans of scikit-learn leaves the pool of OpenMP behind: the first result says which thread keeps the session from being copied."""

import os

import harness
import rawmcp

VENV = os.path.join(os.environ.get("CLOISTER_VENV", os.path.join(harness.SOURCE, "build", "venv")), "bin", "python")


class KMeans(rawmcp.ServerCase):
    CONFIG = {"python": VENV, "limits": {"memory": "1500M", "cpu": 4}}

    def test_a_copy_is_refused_at_once(self):
        # The first call may wait for the image.
        head = "import numpy as np\nfrom sklearn.cluster import KMeans\nfrom threadpoolctl import threadpool_limits\nx = 1"
        self.assertTrue(self.ok(head, checkpoint="taken", wait=harness.patient(400), timeout=harness.patient(60))["checkpoint"])
        code = ("data = np.random.default_rng(0).random((4000, 4))\n"
                "def fit(): return KMeans(4, n_init=1, random_state=0).fit(data).labels_.sum().item()\nwith threadpool_limits(4): right = fit()")
        self.ok(code, timeout=harness.patient(60))
        cell = self.ok("x", checkpoint="refused")
        self.assertNotIn("checkpoint", cell)
        self.assertRegex(cell["notice"], 'no copy of the state can be made: thread "[^"]+" of [^ ]*gomp[^ ]* cannot be held')
        self.assertEqual(self.cell("x = 2; 1 / 0", on_error="rollback")["status"], "error")
        self.assertEqual(self.ok("x, fit() == right")["value"]["repr"], "(1, True)")


if __name__ == "__main__":
    harness.main()
