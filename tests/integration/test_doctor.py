"""Findings of the doctor: each is tested under the real condition, in namespaces of the test, and without it as the control."""

import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

import harness

UID = 4242 if harness.ROOT else os.getuid()
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
NR = {"x86_64": {"clone": 56, "unshare": 272, "clone3": 435}, "aarch64": {"clone": 220, "unshare": 97, "clone3": 435}}[os.uname().machine]
NEW_NAMESPACES = 0x7E020000


def deny_namespaces():
    """Denies as Docker's default filter: clone with a namespace flag and unshare get EPERM, clone3 gets ENOSYS."""
    load, jump_if, jump_set, give = 0x20, 0x15, 0x45, 0x06
    allow, eperm, enosys = 0x7FFF0000, 0x00050001, 0x00050026
    code = [
        (load, 0, 0, 0),
        (jump_if, 5, 0, NR["unshare"]),
        (jump_if, 5, 0, NR["clone3"]),
        (jump_if, 0, 2, NR["clone"]),
        (load, 0, 0, 16),
        (jump_set, 1, 0, NEW_NAMESPACES),
        (give, 0, 0, allow),
        (give, 0, 0, eperm),
        (give, 0, 0, enosys),
    ]
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in code)
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_program, 0, 0):
        os._exit(99)


class Doctor(harness.Case):
    """Runs cloister doctor --json under these conditions."""

    @classmethod
    def setUpClass(cls):
        # The ordinary user of root's tests builds an image, once.
        cls.images = tempfile.mkdtemp(prefix="cloister-test-")
        cls.addClassCleanup(shutil.rmtree, cls.images, ignore_errors=True)
        os.chown(cls.images, UID, -1)

    def examine(self, *prefix, store=None, **options):
        """Returns ({name: state} of the findings, whether Cloister can run)."""
        env = harness.environment(HOME=self.dir)
        env["CLOISTER_IMAGE_STORE"] = store or (f"{self.images}/store" if f"--reuid={UID}" in str(prefix) else env["CLOISTER_IMAGE_STORE"])
        os.chmod(self.dir, 0o755)
        done = subprocess.run([*prefix, harness.CLOISTER, "doctor", "--json"], env=env, capture_output=True, timeout=60, check=False, **options)
        report = json.loads(done.stdout)
        (self.sandbox,) = [layer["detail"] for layer in report["layers"] if layer["name"] == "sandbox"]
        for finding in report["findings"]:
            self.assertEqual(sorted(finding), ["fix", "name", "state", "why"])
            self.assertRegex(finding["name"], "^[a-z][a-z0-9-]+$")
            self.assertTrue(finding["why"] and finding["fix"])
        self.assertEqual(report["usable"], done.returncode == 0)
        return {finding["name"]: finding["state"] for finding in report["findings"]}, report["usable"]

    def ordinary(self, script="true"):
        """Returns a command prefix: makes a mount namespace, runs a script with privileges in it, then becomes an ordinary user."""
        if harness.ROOT:
            return ("unshare", "--mount", "--propagation", "private", "sh", "-ec",
                    f'{script}; exec setpriv --reuid={UID} --regid={UID} --clear-groups -- "$@"', "sh")
        # Root of a namespace that maps no other id cannot map it again without privileges, so that no sandbox can be created.
        return ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
                f'{script}; exec unshare --user --map-user={UID} --map-group={os.getgid()} -- "$@"', "sh")

    def test_control(self):
        found, usable = self.examine(*self.ordinary())
        self.assertTrue(usable, (found, self.sandbox))
        self.assertNotIn("missing", found.values())

    def test_the_limit_of_user_namespaces(self):
        prefix = ("unshare", "--user", "--map-root-user", "sh", "-ec", 'echo $0 > /proc/sys/user/max_user_namespaces; exec "$@"')
        self.assertEqual(self.examine(*prefix, "100")[0]["userns-limit"], "absent")
        found, usable = self.examine(*prefix, "0")
        self.assertEqual((found["userns-limit"], usable), ("missing", False))
        self.assertEqual(found["container-seccomp"], "absent")

    def test_a_containers_filter(self):
        self.assertEqual(self.examine()[0]["container-seccomp"], "absent")
        found, usable = self.examine(preexec_fn=deny_namespaces)
        self.assertEqual((found["container-seccomp"], usable), ("missing", False))

    def test_a_masked_proc(self):
        mask = "mount -t tmpfs -o ro none /proc/fs"
        self.assertEqual(self.examine(*self.ordinary())[0]["masked-proc"], "absent")
        found, usable = self.examine(*self.ordinary(mask))
        self.assertEqual((found["masked-proc"], usable), ("missing", False))

    def test_a_hidden_proc(self):
        if not harness.ROOT:
            # The control: a user who mounts a new /proc sees all processes.
            prefix = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-ec", 'mount -t proc -o hidepid=2 proc /proc; exec "$@"', "sh")
            self.assertEqual(self.examine(*prefix)[0]["hidden-proc"], "absent")
            return
        found, usable = self.examine(*self.ordinary("mount -t proc -o hidepid=2 proc /proc"))
        self.assertEqual((found["hidden-proc"], usable), ("missing", False))
        found, usable = self.examine(*self.ordinary(f"mount -t proc -o hidepid=2,gid={UID} proc /proc"))
        self.assertEqual((found["hidden-proc"], usable), ("absent", True))

    def test_a_store_without_exec(self):
        os.mkdir(self.path("store"))
        for options, state in (("noexec", "missing"), ("exec", "absent")):
            script = f"mount -t tmpfs -o mode=777,{options} none {self.path('store')}"
            found, usable = self.examine(*self.ordinary(script), store=self.path("store/images"))
            self.assertEqual((found["noexec-store"], usable), (state, state == "absent"))

    def rows(self, *prefix, config=(), home=None, store=None):
        """Returns [(name, state, detail, fix)] of the layers, the findings that hold, and whether Cloister can run here."""
        env = harness.environment(HOME=home or self.dir)
        env["CLOISTER_IMAGE_STORE"] = store or env["CLOISTER_IMAGE_STORE"]
        os.chmod(self.dir, 0o755)
        done = subprocess.run([*prefix, harness.CLOISTER, "doctor", "--json", *config], env=env, capture_output=True, timeout=60, check=False)
        report = json.loads(done.stdout)
        rows = [(layer["name"], layer["state"], layer["detail"], layer.get("fix", "")) for layer in report["layers"]]
        return rows, [f["name"] for f in report["findings"] if f["state"] == "missing"], report["usable"]

    def test_a_store_that_cannot_hold_an_image(self):
        """The row of the image has the same message as `run`, and the remedy. The control is below, with exec."""
        place = self.path("place")
        os.mkdir(place)
        os.chmod(place, 0o777)
        small, closed = f"mount -t tmpfs -o mode=777,size=20m none {place}", f"mount -t tmpfs -o mode=555,ro none {place}"
        for script, store, why in ((small, f"{place}/images", "no space left"), (closed, f"{place}/images", "make the image store"),
                                   ("true", "/proc/none/images", "make the image store")):
            with self.subTest(script=script, store=store):
                rows, _, usable = self.rows(*self.ordinary(script), store=store)
                self.assertFalse(usable)
                (image,) = [row for row in rows if row[0] == "image"]
                self.assertEqual(image[1], "missing", rows)
                self.assertIn(why, image[2])
                self.assertIn("CLOISTER_IMAGE_STORE", image[3])
                (sandbox,) = [row for row in rows if row[0] == "sandbox"]
                self.assertIn(why, sandbox[2])

    def test_what_the_default_profile_needs(self):
        for settings, why, fix in (({"preload": ["no_such"]}, "No module named 'no_such'", '"preload"'),
                                   ({"mounts": [{"source": "/nowhere", "target": "/data/x"}]}, "mount /nowhere", '"mounts"')):
            with self.subTest(why):
                rows, _, usable = self.rows(config=("--config", self.config(profiles={"default": settings})))
                self.assertFalse(usable)
                (sandbox,) = [row for row in rows if row[0] == "sandbox"]
                self.assertIn(why, sandbox[2])
                self.assertIn(fix, sandbox[3])

    def test_each_profile_is_tried(self):
        profiles = {"good": {"preload": ["json"], "mounts": [{"source": "/usr/share", "target": "/data/x"}]},
                    "module": {"preload": ["no_such"]}, "mount": {"mounts": [{"source": "/nowhere", "target": "/data/x"}]},
                    "image": {"image": "none-such"}, "python": {"python": "/none/such"}, "version": {"python": "3.98"}}
        rows, _, usable = self.rows(config=("--config", self.config(profiles=profiles)))
        self.assertTrue(usable, rows)
        found = {row[2].split('"')[1]: row for row in rows if row[0] == "profile"}
        self.assertEqual({name: row[1] for name, row in found.items()},
                         {"good": "effective", "module": "degraded", "mount": "degraded", "image": "degraded", "python": "degraded",
                          "version": "degraded"}, rows)
        for name, why, fix in (("module", "No module named 'no_such'", '"preload"'), ("mount", "/nowhere", '"mounts"'),
                               ("image", "none-such", "cloister image build --name none-such"), ("python", "/none/such", '"python"'), ("version", "Python 3.98 is not on this machine", '"python"')):
            self.assertIn(why, found[name][2])
            self.assertIn(fix, found[name][3])
        (listed,) = [row for row in rows if row[0] == "pythons"]
        self.assertIn("/python3.%d" % sys.version_info[1], listed[2])

    def test_a_chroot(self):
        place = self.path("root")
        os.mkdir(place)
        script = f'mount --rbind / {place}; set -- chroot {place} "$@"'
        prefix = ("unshare", *(() if harness.ROOT else ("--user", "--map-root-user")), "--mount", "--propagation", "private", "sh", "-ec")
        self.assertNotIn("chroot", self.rows(*prefix, 'exec "$@"', "sh")[1])
        rows, found, usable = self.rows(*prefix, f'{script}; exec "$@"', "sh")
        self.assertEqual((found, usable), (["chroot"], False), rows)

    def test_findings_in_the_table(self):
        done = self.run_cloister("doctor", preexec_fn=deny_namespaces)
        self.assertEqual(done.returncode, 126)
        self.assertIn(b"\ncontainer-seccomp: ", done.stdout)
        self.assertIn(b"fix: docker run --security-opt seccomp=", done.stdout)


if __name__ == "__main__":
    harness.main()
