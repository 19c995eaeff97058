"""The commands of docs/service.md that lead from the package to a dashboard, in a mount and a network namespace of their own. As root.

The machine of the tests has no systemd: what apt-get and systemctl would do is done with the files of packaging/: the user, the conffile, and the
command of the unit with its files of variables. Prometheus is Debian's.
"""

import json
import os
import re
import subprocess
import unittest

import harness

PACKAGING = os.path.join(harness.SOURCE, "packaging")
PAGE = os.path.join(harness.SOURCE, "docs", "service.md")
COMMANDS_MAX = 10
PRELUDE = """
set -e
mount --make-rprivate /
mkdir "$work/upper" "$work/inner" "$work/state" "$work/run" "$work/data"
mount -t overlay -o "lowerdir=/etc,upperdir=$work/upper,workdir=$work/inner" none /etc
ip link set lo up
apt-get() {
        id -u cloister >/dev/null 2>&1 || useradd --system --home-dir /var/lib/cloister-service --no-create-home cloister
        install -D -m 644 "$packaging/debian/config.json" /etc/cloister/config.json
        install -D -m 644 /dev/null /etc/default/cloister
        chown cloister "$work/state" "$work/run"
        chown prometheus "$work/data"
}
systemctl() {
        case "$*" in
        'enable --now cloister.socket cloister.service')
                . /etc/default/cloister
                CLOISTER_ADMIN=${CLOISTER_ADMIN:-$(sed -n 's/^Environment=CLOISTER_ADMIN=//p' "$packaging/systemd/cloister.service")}
                command=$(sed -n 's#^ExecStart=/usr/bin/cloister ##p' "$packaging/systemd/cloister.service")
                eval "setpriv --reuid=cloister --regid=cloister --clear-groups env -u HOME STATE_DIRECTORY=$work/state RUNTIME_DIRECTORY=$work/run \\
                        CONFIGURATION_DIRECTORY=/etc/cloister $cloister $command" >"$work/server.log" 2>&1 &
                ;;
        'restart prometheus')
                setpriv --reuid=prometheus --regid=prometheus --clear-groups prometheus --config.file=/etc/prometheus/prometheus.yml \\
                        --storage.tsdb.path="$work/data" --web.listen-address=127.0.0.1:9090 >"$work/prometheus.log" 2>&1 &
                ;;
        *) exit 1 ;;
        esac
}
"""


@unittest.skipUnless(harness.ROOT, "only root has these users")
class Dashboard(harness.Case):
    def test_the_commands_of_the_page(self):
        with open(PAGE, encoding="utf-8") as f:
            commands = re.search(r"### From the package to a dashboard.*?```sh\n(.*?)```", f.read(), re.S)[1].splitlines()
        self.assertLessEqual(len(commands), COMMANDS_MAX)
        self.assertIn(f"/cloister_{self.version()}_amd64.deb ", commands[0])
        work = self.path("work")
        os.mkdir(work)
        os.chmod(self.dir, 0o755)
        # The last command is repeated until Prometheus has scraped.
        ask = f"for i in $(seq 100); do answer=$({commands[-1]}); case $answer in *cloister_build_info*) break ;; esac; sleep 1; done; echo; echo \"$answer\""
        script = "\n".join([PRELUDE, *commands[:-1], ask, "kill $(jobs -p)", "wait || true"])
        done = subprocess.run(["unshare", "-m", "-n", "-p", "-f", "--kill-child", "--mount-proc", "bash", "-c", script], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=harness.patient(300),
                              env={**harness.environment(), "work": work, "packaging": PACKAGING, "cloister": harness.CLOISTER})
        logs = [open(f"{work}/{name}.log", encoding="utf-8").read()[-2000:] for name in ("server", "prometheus") if os.path.exists(f"{work}/{name}.log")]
        self.assertEqual(done.returncode, 0, (done.stdout, done.stderr, *logs))
        result = json.loads(done.stdout.splitlines()[-1])["data"]["result"]
        self.assertEqual([r["metric"]["job"] for r in result], ["cloister"], logs)

    def version(self):
        with open(os.path.join(harness.SOURCE, "meson.build"), encoding="utf-8") as f:
            return next(line.split("'")[1] for line in f if line.startswith("  version: "))


if __name__ == "__main__":
    harness.main()
