#!/usr/bin/env python3
"""The time of a warm call through HAProxy with three servers, beside the same call to a server directly.

    bench/hosts.py BUILD [CALLS]

The config is packaging/haproxy/cloister.cfg. Calls alternate between both ways, so that what else the machine does is the same for
both. Prints medians, the 99th percentile and the difference of the medians in ms, and how late events of a stream were.
"""

import os
import pathlib
import statistics
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("CLOISTER_BUILD", os.path.abspath(sys.argv[1]))
os.environ.setdefault("CLOISTER_TEST_HOME", os.path.join(tempfile.gettempdir(), "cloister-bench-hosts"))
sys.path.insert(0, str(ROOT / "tests" / "service"))

import test_service_balancers  # pylint: disable=wrong-import-position

CALLS = int(sys.argv[2]) if len(sys.argv) > 2 else 1000


class Hosts(test_service_balancers.HAProxy):
    def check_residue(self):
        """Other programs of the machine may leave files while this one measures."""

    def runTest(self):
        through = self.client()
        name = through.run("1")["session"]
        direct = self.direct(name[:2])
        ways = {"direct": direct, "through HAProxy": through}
        times = {way: [] for way in ways}
        for _ in range(CALLS):
            for way, client in ways.items():
                began = time.perf_counter()
                answer = client.send_call("1+1", session=name).response()
                times[way].append((time.perf_counter() - began) * 1000)
                assert answer.json()["result"]["structuredContent"]["value"]["json"] == 2
        for way, each in times.items():
            print(f"{way}: median {statistics.median(each):.3f} ms, p99 {statistics.quantiles(each, n=100)[98]:.3f} ms")
        difference = statistics.median(times["through HAProxy"]) - statistics.median(times["direct"])
        print(f"difference of the medians: {difference:+.3f} ms")
        print(f"events: {statistics.median(self.lateness(through)) * 1000:.0f} ms late, {statistics.median(self.lateness(direct)) * 1000:.0f} ms directly")


if __name__ == "__main__":
    result = unittest.TextTestRunner(verbosity=0).run(Hosts())
    sys.exit(not result.wasSuccessful())
