"""/livez while the monitor's event loop stands still."""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))
import harness
from test_service_metrics import Admin


class Stuck(Admin):
    def test_monitor(self):
        live = lambda: self.ask("/livez", address=self.address).status
        self.assertEqual(live(), 200)
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            # The broker, its child, continues and answers.
            self.assertTrue(harness.wait_until(lambda: live() == 503, 60))
            self.assertEqual(self.ask("/livez", address=self.address).body, b'{"status":"stuck"}\n')
            self.assertEqual(self.ask("/metrics").status, 200)
        finally:
            os.kill(self.server.pid, signal.SIGCONT)
        self.assertTrue(harness.wait_until(lambda: live() == 200))
        self.assertGreater(self.metrics()['cloister_loop_lag_seconds{loop="monitor"}'], 1)


if __name__ == "__main__":
    unittest.main()
