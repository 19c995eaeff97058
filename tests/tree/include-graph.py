#!/usr/bin/env python3
"""Reads every #include "…" of the tree and holds it against the order of the parts.

    include-graph.py [ROOT]

What a part may include is the table below; a quoted include is a full path from the root, so that a crossed
boundary shows. Prints what breaks the order, one line each, and ends with 1 then.
"""

import os
import re
import sys

# (folder, what its files may include); the longest folder that a file is in counts. Every folder with C files is named.
MONITOR = "supervisor/monitor/"
HUB = "supervisor/hub/"
MCP = "supervisor/mcp/"
MCP_SHARED = [
    MCP + name + ".h" for name in ("profile", "reply", "request", "sink", "state", "subscriptions", "tool")
]
SERVICE = "supervisor/service/"
SESSION = "supervisor/session/"
RULES = [
    ("base", ["base/"]),
    ("policy", ["base/", "policy/"]),
    ("policy/config", ["base/", "policy/"]),
    ("policy/rules", ["base/", "policy/did-you-mean.h", "policy/network-rules.h", "policy/rules/"]),
    ("policy/seccomp", ["base/", "policy/seccomp/"]),
    ("rpc", ["base/", "policy/language.h", "policy/limits.h", "policy/template-link.h", "rpc/"]),
    ("rpc/http", ["base/", "rpc/http/"]),
    ("rootfs", ["base/", "policy/", "rootfs/"]),
    ("rootfs/oci", ["base/", "policy/package-set.h", "rootfs/plan.h", "rootfs/oci/"]),
    ("sandbox-init", ["base/", "rpc/sandbox-messages.h", "sandbox-init/"]),
    ("sandbox-init/setup", ["base/", "rpc/sandbox-messages.h", "sandbox-init/raw.h", "sandbox-init/setup/"]),
    ("sandbox-init/init", ["base/", "rpc/file-changes.h", "rpc/sandbox-messages.", "sandbox-init/raw.h", "sandbox-init/lock-table.h", "sandbox-init/setup/template-root.h", "sandbox-init/setup/layout.h", "sandbox-init/javascript/node-template.h", "sandbox-init/init/"]),
    ("sandbox-init/javascript/tools", []),
    ("sandbox-init/javascript", ["base/", "policy/language.h", "rpc/frame.h", "rpc/sandbox-messages.h", "sandbox-init/setup/", "sandbox-init/javascript/"]),
    (
        "sandbox-init/worker",
        ["base/", "rpc/frame.h", "rpc/sandbox-messages.h", "sandbox-init/raw.h", "sandbox-init/lock-table.h", "sandbox-init/setup/", "sandbox-init/worker/"],
    ),
    ("sandbox-init/worker/memory", ["sandbox-init/raw.h", "sandbox-init/worker/memory/"]),
    ("sandbox-init/worker/rollback", ["sandbox-init/raw.h", "sandbox-init/worker/rollback/"]),
    ("sandbox-init/launcher", ["policy/launcher.h"]),
    ("sandbox-init/module", ["sandbox-init/setup/layout.h", "sandbox-init/worker/module.h"]),
    ("sandbox-init/freestanding", ["base/", "sandbox-init/raw.h", "sandbox-init/freestanding/"]),
    ("sandbox-init/python", []),
    ("sandbox-init/python/tools", []),
    ("sandbox-init/python/state", []),
    ("sandbox-init/python/show", []),
    ("sandbox-init/python/run", []),
    ("supervisor/access", ["base/", "supervisor/access/"]),
    ("supervisor/config", ["base/", "policy/", "supervisor/config/"]),
    ("supervisor/options", ["base/", "policy/", "supervisor/options/"]),
    ("supervisor/pythons", ["base/", "policy/", "supervisor/pythons/"]),
    # Code that runs with the host's privilege. Its parts do not include the whole.
    ("supervisor/monitor", ["base/", "policy/", "rpc/", "supervisor/config/", "supervisor/options/", MONITOR]),
    ("supervisor/monitor/process", ["base/", MONITOR + "process/"]),
    ("supervisor/monitor/ids", ["base/", "policy/", "rpc/", MONITOR + "process/", MONITOR + "ids/"]),
    ("supervisor/monitor/cgroup", ["base/", "policy/", "rpc/", MONITOR + "process/", MONITOR + "ids/", MONITOR + "cgroup/"]),
    ("supervisor/monitor/upstream", ["base/", "policy/", "rpc/", MONITOR + "process/", MONITOR + "ids/", MONITOR + "upstream/"]),
    (
        "supervisor/monitor/image",
        ["base/", "policy/", "supervisor/pythons/"] + [MONITOR + part for part in ("process/", "ids/", "cgroup/", "upstream/", "image/")],
    ),
    (
        "supervisor/monitor/template",
        ["base/", "policy/", "rpc/", MONITOR + "process/", MONITOR + "ids/", MONITOR + "cgroup/", MONITOR + "template/"],
    ),
    # Looks at the layers by trying them: it has no part of the monitor's life.
    (
        "supervisor/doctor",
        ["base/", "policy/", "rpc/", "supervisor/config/", "supervisor/options/", "supervisor/pythons/", "supervisor/doctor/"]
        + [MONITOR + part for part in ("process/", "ids/", "cgroup/", "upstream/", "image/")],
    ),
    # Short-lived, as the user: parses what authorization servers say.
    ("supervisor/oauth", ["base/", "policy/", "rpc/challenge.h", "rpc/http/", "supervisor/config/", "supervisor/options/", "supervisor/trust/url.h", "supervisor/oauth/"]),
    # The process that has the journal's key, and the commands that read the journal.
    ("supervisor/journal", ["base/", "rpc/journal-messages.h", "rpc/journal-record.h", "supervisor/options/", "supervisor/journal/"]),
    # The process that has the values of secrets for HTTPS requests of code.
    ("supervisor/inject", ["base/", "policy/network-rules.h", "rpc/inject-messages.h", "rpc/http/", "supervisor/secrets/forms.h", "supervisor/inject/"]),
    # The process that reads pictures.
    ("supervisor/pictures", ["base/", "rpc/picture-messages.h", "supervisor/pictures/"]),
    # The process that has the network of sessions.
    ("supervisor/egress", ["base/", "policy/", "rpc/egress-messages.h", "rpc/inject-messages.h", "rpc/http/", "supervisor/secrets/forms.h", "supervisor/egress/"]),
    # The broker's, without privilege.
    ("supervisor/secrets", ["base/", "policy/", "supervisor/secrets/"]),
    ("supervisor/service", ["base/", "policy/", "rpc/", SERVICE]),
    (
        "supervisor/trust",
        ["base/", "policy/", "rpc/", SERVICE, "supervisor/trust/"] + [SESSION + part for part in ("cell/", "channel/", "machine/", "hold.h")],
    ),
    ("supervisor/trust/questions", ["base/", "rpc/", SERVICE, "supervisor/trust/questions/", "supervisor/trust/records/"]),
    # Plans of calls: their rows, and the question about them.
    ("supervisor/trust/plans", ["base/", "policy/", "rpc/", SERVICE, "supervisor/trust/plans/", "supervisor/trust/questions/", "supervisor/trust/records/"]),
    # Records of the journal, and the broker's end of the process that signs them.
    ("supervisor/trust/records", ["base/", "policy/", "rpc/", SERVICE, "supervisor/trust/records/"]),
    ("supervisor/session", ["base/", "policy/", "rpc/", SERVICE, SESSION, "supervisor/trust/"]),
    ("supervisor/session/cell", ["base/", "policy/", "rpc/", SESSION + "cell/"]),
    ("supervisor/session/channel", ["base/", "rpc/"] + [SESSION + part for part in ("cell/", "channel/")]),
    ("supervisor/session/machine", ["base/", "policy/", "rpc/", SERVICE, "supervisor/secrets/placeholder.h", "supervisor/trust/records/"] + [SESSION + part for part in ("cell/", "channel/", "machine/")]),
    (
        "supervisor/session/calls",
        ["base/", "policy/", "rpc/", "supervisor/trust/"] + [SESSION + part for part in ("cell/", "channel/", "machine/", "calls/")],
    ),
    (
        "supervisor/session/state",
        ["base/", "policy/", "rpc/"] + [SESSION + part for part in ("cell/", "channel/", "machine/", "calls/", "state/")],
    ),
    ("supervisor/hub", ["base/", "policy/", "rpc/", SERVICE, "supervisor/hub/"]),
    ("supervisor/hub/tools", ["base/", HUB + "tools/"]),
    ("supervisor/hub/cache", ["base/", HUB + "tools/", HUB + "cache/"]),
    ("supervisor/hub/call", ["base/", "rpc/", SERVICE, HUB + "call/"]),
    ("supervisor/hub/transport", ["base/", "rpc/", HUB + "transport/"]),
    ("supervisor/hub/http", ["base/", "rpc/", HUB + "transport/", HUB + "http/"]),
    (
        "supervisor/hub/server",
        ["base/", "policy/", "rpc/", "supervisor/secrets/"] + [HUB + part for part in ("tools/", "cache/", "call/", "transport/", "http/", "server/")],
    ),
    ("supervisor/mcp", ["base/", "policy/", "rpc/", SERVICE, "supervisor/session/", MCP]),
    # Its parts use what it offers to all of them, and each other in this order.
    ("supervisor/mcp/tasks", ["base/", "policy/node-name.h", "rpc/", SERVICE, MCP + "tasks/"] + MCP_SHARED),
    ("supervisor/mcp/resources", ["base/", "rpc/", "supervisor/session/", MCP + "publish/published-call.h", MCP + "resources/"] + MCP_SHARED),
    ("supervisor/mcp/call", ["base/", "policy/", "rpc/", SERVICE, "supervisor/session/", "supervisor/trust/asking.h", "supervisor/trust/plans/", MCP + "tasks/", MCP + "resources/", MCP + "call/"] + MCP_SHARED),
    (
        "supervisor/mcp/publish",
        ["base/", "policy/", "rpc/", SERVICE, "supervisor/session/"] + [MCP + part for part in ("tasks/", "resources/resource-uri.h", "call/", "publish/")] + MCP_SHARED,
    ),
    ("supervisor/http", ["base/", "policy/", "rpc/", SERVICE, "supervisor/trust/questions/", "supervisor/trust/records/", "supervisor/session/", "supervisor/mcp/", "supervisor/http/"]),
    (
        "supervisor/broker",
        ["base/", "policy/", "rpc/"] + ["supervisor/" + part for part in ("options/", "service/", "secrets/", "trust/url.h", "trust/questions/", "trust/records/", "session/", "hub/", "mcp/", "http/", "egress/", "broker/")],
    ),
    # Its commands, which main.c passes to it.
    (
        "supervisor/broker/modes",
        ["base/", "policy/", "rpc/"] + ["supervisor/" + part for part in ("options/", "service/", "secrets/", "trust/questions/", "trust/records/", "session/", "hub/", "mcp/", "http/", "egress/", "broker/")],
    ),
    ("supervisor/cli/command", ["base/", "policy/", "supervisor/options/", "supervisor/cli/command/"]),
    ("supervisor/cli/as", ["base/", "policy/", "supervisor/config/", "supervisor/options/", "supervisor/cli/command/", "supervisor/cli/as/"]),
    ("supervisor/cli/sessions", ["base/", "policy/", "rpc/", "supervisor/options/", "supervisor/cli/command/", "supervisor/cli/sessions/"]),
    ("supervisor/cli/images", ["base/", "policy/", "rootfs/", "supervisor/options/", "supervisor/pythons/", "supervisor/cli/command/", "supervisor/cli/images/"]),
    (
        "supervisor/cli/config",
        ["base/", "policy/", "supervisor/config/", "supervisor/options/", "supervisor/pythons/"] + ["supervisor/cli/" + part for part in ("command/", "images/", "config/")],
    ),
    ("supervisor/cli/rules", ["base/", "policy/", "supervisor/config/", "supervisor/options/", "supervisor/cli/command/", "supervisor/cli/config/", "supervisor/cli/rules/"]),
    ("supervisor/cli/serve", ["base/", "policy/", "rpc/", "supervisor/config/", "supervisor/options/", "supervisor/cli/command/", "supervisor/cli/serve/"]),
    (
        "supervisor/cli/run",
        ["base/", "policy/", "rpc/", "supervisor/config/", "supervisor/options/", "supervisor/pythons/"] + ["supervisor/cli/" + part for part in ("command/", "sessions/", "run/")],
    ),
    ("supervisor/cli", ["base/", "policy/", "supervisor/options/", "supervisor/cli/"]),
    ("bench", ["base/", "policy/", "rpc/", "bench/"]),
]
GENERATED = ("cloister-config.h", "supervisor/cli/commit.h")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def sources(root):
    for folder, names, files in os.walk(root):
        names[:] = [n for n in names if not n.startswith((".", "build")) and n != "tests"]
        for name in files:
            if name.endswith((".c", ".h")):
                yield os.path.relpath(os.path.join(folder, name), root)


def allowed_for(path):
    parts = [(part, allowed) for part, allowed in RULES if path.startswith(part + "/")]
    return max(parts, key=lambda rule: len(rule[0]))[1] if parts else None


def fault(root, path, target):
    """What is wrong with one include, or None."""
    if target.endswith("-internal.h") and os.path.dirname(target) != os.path.dirname(path):
        return f'"{target}" is for the files of its own folder'
    if target in GENERATED:
        return None
    generated = target.endswith(".inc")
    if target.startswith(".") or not generated and not os.path.exists(os.path.join(root, target)):
        return f'"{target}" is not a path from the root of the tree'
    allowed = allowed_for(path)
    if allowed is None:
        return f"{os.path.dirname(path)}/ has no rule in tests/tree/include-graph.py"
    if not any(target.startswith(a) for a in allowed):
        return f'"{target}" is out of bounds: only {", ".join(allowed)}'
    return None


def modules(root, folder):
    """The modules of a folder, and which of them each includes. x.c and x.h are one module, and so are the files x-….c that
    share an x-internal.h."""
    includes = {}
    for path in (p for p in sources(root) if os.path.dirname(p) == folder):
        with open(os.path.join(root, path), encoding="utf-8") as f:
            found = {match.group(1) for match in map(INCLUDE.match, f) if match}
        stem = path.rsplit(".", 1)[0]
        includes.setdefault(stem, set()).update(t[:-2] for t in found if os.path.dirname(t) == folder)
    def belongs(stem, header):
        return header.endswith("-internal") and f"{stem}-".startswith(header.removesuffix("internal"))

    module = {stem: min((t for t in used if belongs(stem, t)), default=stem) for stem, used in includes.items()}
    graph = {}
    for stem, used in includes.items():
        graph.setdefault(module[stem], set()).update(module.get(t, t) for t in used)
    return {name: used - {name} for name, used in graph.items()}


def circles(root, folder):
    """A line for each module that includes itself by way of others."""
    graph = modules(root, folder)
    for start in sorted(graph):
        seen, rest = set(), list(graph[start])
        while rest:
            name = rest.pop()
            if name not in seen:
                seen.add(name)
                rest.extend(graph.get(name, ()))
        if start in seen:
            yield f"{start}: includes itself by way of others: {', '.join(sorted(graph[start]))}"


def check(root):
    faults = []
    for path in sorted(sources(root)):
        with open(os.path.join(root, path), encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                match = INCLUDE.match(line)
                wrong = match and fault(root, path, match.group(1))
                if wrong:
                    faults.append(f"{path}:{number}: {wrong}")
    for folder in sorted({os.path.dirname(path) for path in sources(root)}):
        faults.extend(circles(root, folder))
    return faults


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    faults = check(root)
    print("\n".join(faults), end="\n" if faults else "")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
