"""The Debian package over its life in a bare root: install, upgrade from 0.1.0 under a running server, remove, purge. As root."""

import os
import shutil
import subprocess
import unittest

import harness
import test_package

# Of version 0.1.0, which had no other maintainer script.
EARLIER_POSTRM = """#!/bin/sh
set -e
if [ "$1" = purge ]; then
	rm -rf /var/lib/cloister
fi
"""
# One process tree for all: each step prints a line that begins with ">>".
LIFE = """
step() { echo ">> $1"; }
step earlier; dpkg -i /root/earlier.deb
mkfifo /tmp/in; sleep 3000 >/tmp/in & cloister mcp </tmp/in >/tmp/out 2>/tmp/err & server=$!
for i in $(seq 300); do ls -l /proc/[0-9]*/fd 2>/dev/null | grep -q /var/lib/cloister/images && break; sleep 1; done
step upgrade; dpkg -i /root/cloister.deb
kill -0 $server && step running:$server
ls -d /etc/cloister/config.json /etc/apparmor.d/cloister /usr/lib/systemd/system/cloister.service /usr/lib/systemd/user/cloister.socket
echo '// mine' >>/etc/cloister/config.json
step profile; readlink /etc/apparmor.d/disable/cloister; apparmor_parser -Q -T -K /etc/apparmor.d/ >/dev/null 2>&1; echo parser $?
step again; dpkg -i /root/cloister.deb; tail -n 1 /etc/cloister/config.json
step purge; dpkg --purge cloister; step status:$?
ls -d /var/lib/cloister/images
kill $server; wait $server
step purge; dpkg --purge cloister; step status:$?
ls -d /var/lib/cloister /etc/cloister /etc/apparmor.d/cloister /etc/apparmor.d/disable/cloister 2>&1
"""


@unittest.skipUnless(harness.ROOT, "only root makes a root")
class Life(test_package.Package):
    test_debian = test_wheel = None
    MORE = ("apparmor",)
    SKIPS_PROFILE = True  # the parser is version 3

    def earlier(self):
        """A package as 0.1.0 was: without units, conffiles and scripts but one."""
        place = self.path("earlier")
        subprocess.run(["dpkg-deb", "-R", self.deb, place], check=True)
        for name in ("etc", "usr/lib/systemd", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d"):
            shutil.rmtree(f"{place}/{name}", ignore_errors=True)
        for name in ("conffiles", "preinst", "postinst", "prerm", "md5sums"):
            if os.path.exists(f"{place}/DEBIAN/{name}"):
                os.remove(f"{place}/DEBIAN/{name}")
        with open(f"{place}/DEBIAN/postrm", "w", encoding="ascii") as f:
            f.write(EARLIER_POSTRM)
        with open(f"{place}/DEBIAN/control", encoding="utf-8") as f:
            control = f.read()
        with open(f"{place}/DEBIAN/control", "w", encoding="utf-8") as f:
            f.writelines("Version: 0.1.0\n" if line.startswith("Version:") else line + "\n" for line in control.splitlines())
        subprocess.run(["dpkg-deb", "-Znone", "--root-owner-group", "-b", place, f"{self.place}/root/root/earlier.deb"], check=True, capture_output=True)

    def test_life(self):
        self.earlier()
        shutil.copy(self.deb, f"{self.place}/root/root/cloister.deb")
        done = self.inside("sh", "-c", LIFE)
        text = done.stdout + done.stderr
        part = {}
        for piece in done.stdout.split(">> ")[1:]:
            name, _, rest = piece.partition("\n")
            part.setdefault(name.split(":")[0], []).append((name.partition(":")[2], rest))
        server = part["running"][0][0]
        self.assertRegex(part["upgrade"][0][1], rf"still running with version 0\.1\.0: {server}\. .*'cloister drain'", text)
        self.assertNotIn("No such file", part["running"][0][1] + done.stderr.split("purge")[0], text)
        # A parser that does not know the profile leaves it out, as at each start of the machine.
        self.assertEqual(part["profile"][0][1].split(), (["../cloister"] if self.SKIPS_PROFILE else []) + ["parser", "0"], text)
        # The lines that an administrator wrote in a conffile stay.
        self.assertTrue(part["again"][0][1].rstrip().endswith("// mine"), text)
        self.assertEqual([status for status, _ in part["status"]], ["1", "0"], text)
        self.assertIn("/var/lib/cloister/images", part["status"][0][1], text)
        self.assertRegex(done.stderr, rf"not purged: processes .*\b{server}\b.* use /var/lib/cloister")
        self.assertEqual(part["status"][1][1].count("No such file"), 4, text)


class Trixie(Life):
    """A package made on Debian 12 also fits Debian 13, whose AppArmor knows the profile."""

    SUITE = "trixie"
    SKIPS_PROFILE = False


if __name__ == "__main__":
    harness.main()
