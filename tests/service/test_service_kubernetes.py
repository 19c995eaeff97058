"""The manifests of packaging/kubernetes: their schemas, the config of HAProxy in them, and what must agree in them."""

import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MANIFESTS = ROOT / "packaging" / "kubernetes" / "manifests"

sys.path += glob.glob(os.path.join(os.environ.get("CLOISTER_VENV", ""), "lib/python3*/site-packages"))
try:
    import kubernetes_validate
    import yaml
except ImportError:
    sys.exit("kubernetes-validate is not in CLOISTER_VENV: ./quickstart fetches it")


def render(*extra):
    result = subprocess.run([MANIFESTS, "--image", "registry.example.org/cloister:0.9.0", "--host", "mcp.example.org", "--pods", "10.244.0.0/16", *extra],
                            capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(result.stdout))


class Manifests(unittest.TestCase):
    def find(self, kind, name, of=None):
        found = [d for d in of or render() if (d["kind"], d["metadata"]["name"]) == (kind, name)]
        self.assertEqual(len(found), 1)
        return found[0]

    def test_schemas(self):
        newest = kubernetes_validate.latest_version()
        for version in ("1.33", newest):
            for document in render():
                kubernetes_validate.validate(document, version, strict=True)
        wrong = self.find("StatefulSet", "cloister")
        wrong["spec"]["template"]["spec"]["hostUser"] = False
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, newest, strict=True)

    def test_haproxy_takes_its_config(self):
        for replicas in (1, 5):
            text = self.find("ConfigMap", "cloister-balancer", render("--replicas", str(replicas)))["data"]["haproxy.cfg"]
            result = subprocess.run(["haproxy", "-c", "-f", "/dev/stdin"], input=text, capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(len(re.findall(r"^ {4}server n\d ", text, re.M)), 4 * replicas)
            self.assertNotIn("192.0.2.", text.split("frontend mcp")[1])

    def test_times_and_names_agree(self):
        pod = self.find("StatefulSet", "cloister")["spec"]["template"]["spec"]
        container = pod["containers"][0]
        text = self.find("ConfigMap", "cloister")["data"]["config.json"]
        config = json.loads(text)
        sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        self.assertLess(sleep + int(config["drain_timeout"].rstrip("s")) + 5, pod["terminationGracePeriodSeconds"])
        haproxy = self.find("ConfigMap", "cloister-balancer")["data"]["haproxy.cfg"]
        inter, fall = re.search(r"inter (\d+)s fall (\d+)", haproxy).groups()
        self.assertLess(int(config["node"]["lease"].rstrip("s")), int(inter) * int(fall))
        self.assertIn("POD_INDEX", [one["name"] for one in container["env"]])
        self.assertEqual(config["node"]["name"], "n${POD_INDEX}")
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertNotIn("lease", container[probe]["httpGet"]["path"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
