#!/usr/bin/python3
"""Replaces cloister-broker: sends the monitor the messages that a compromised broker could send, as CLOISTER_HOSTILE selects,
and prints one line of JSON. The messages are those of rpc/monitor-messages.h."""

import array
import collections
import json
import os
import random
import socket
import struct
import sys
import time

LINK, EVENT_SIZE, REQUEST = 3, 528, struct.Struct("<11I")
# The rows of rpc/monitor-messages.def: [name, target, number, pids of `instead`, answer], and names of events.
REQUESTS, EVENTS = json.loads(os.environ["CLOISTER_MESSAGES"])
VERBS = {row[0]: verb for verb, row in enumerate(REQUESTS, 1)}
CREATE, INTERRUPT, KILL, UP_START, UP_STOP, FREEZE = (VERBS[name] for name in (
    "SESSION_CREATE", "SESSION_INTERRUPT", "SESSION_KILL", "UPSTREAM_START", "UPSTREAM_STOP", "SESSION_FREEZE"))
BRANCH, BRANCH_DROP, PICTURES = (VERBS[name] for name in ("BRANCH_START", "BRANCH_DROP", "PICTURES_START"))
KINDS = {name: kind for kind, name in enumerate(EVENTS, 1)}
DONE, FAILED, STARTED, ENDED, UP_STARTED, UP_ENDED, BRANCH_STARTED, HELLO, CONFIG_FILE, READY = (KINDS[name] for name in (
    "DONE", "FAILED", "SESSION_STARTED", "SESSION_ENDED", "UPSTREAM_STARTED", "UPSTREAM_ENDED", "BRANCH_STARTED", "HELLO", "CONFIG_FILE", "READY"))
NUMBERS = (0, 1, 2, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)

link = socket.socket(fileno=LINK)
events = collections.deque()
fds_of = {}
serial = 0
generation = sessions_max = 0


class Gone(Exception):
    pass


def receive(timeout=20):
    """Receives one event: (kind, serial, target, errno or None). Its descriptors are kept under its target."""
    link.settimeout(timeout)
    try:
        data, control, _, _ = link.recvmsg(EVENT_SIZE, 4096)
    except socket.timeout:
        return None
    if not data:
        raise Gone
    kind, number, target, _, code = struct.unpack_from("<IIIii", data)
    fds = array.array("i")
    for _, _, part in control:
        fds.frombytes(part[:len(part) - len(part) % fds.itemsize])
    if kind in (STARTED, UP_STARTED):
        fds_of[kind, target] = list(fds)
    else:
        for fd in fds:
            os.close(fd)
    return kind, number, target, code if kind == FAILED else None


def forget(kind, target):
    for fd in fds_of.pop((kind, target), ()):
        os.close(fd)


def send(verb, target=0, gen=None, number=None, principal=(0, 0, 0, 0)):
    global serial
    serial += 1
    number = serial if number is None else number
    _, _, range_of, n_instead, _ = REQUESTS[verb - 1]
    pid = target if "PID" in range_of else 0
    # The monitor refuses copies to replace in a request of another kind.
    instead = (-pid, pid + 1) if n_instead else (0, 0)
    numbers = target, generation if gen is None else gen, pid, *instead
    link.send(REQUEST.pack(verb, number, *(n & 0xFFFFFFFF for n in (*numbers, *principal))))
    return number


def wait(condition, timeout=30):
    """Returns the first event that fulfils the condition; the others stay in the queue."""
    for event in events:
        if condition(event):
            events.remove(event)
            return event
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        event = receive(max(0.01, end - time.monotonic()))
        if event is None:
            break
        if condition(event):
            return event
        events.append(event)
    raise SystemExit(f"no such event; there are {list(events)}")


def ask(verb, target=0, gen=None):
    """Returns the answer to a request."""
    number = send(verb, target, gen)
    return wait(lambda e: e[1] == number)


def create():
    event = ask(CREATE)
    assert event[0] == STARTED, event
    return event[2]


def end(session):
    ask(KILL, session)
    wait(lambda e: e[0] == ENDED and e[2] == session)
    forget(STARTED, session)


def hello():
    global generation, sessions_max
    link.settimeout(20)
    data = link.recv(EVENT_SIZE)
    kind, _, _, _, generation, files, _, _, _, sessions_max = struct.unpack_from("<IIIiIIIIII", data)
    assert kind == HELLO, kind
    for _ in range(files):
        assert receive()[0] == CONFIG_FILE
    assert receive()[0] == READY


def monitor_kib():
    return None  # another pid namespace: the test reads it


# ---- what it does -------------------------------------------------------------------------------------------------


# These also succeed for a session, server or file that has just ended, for a principal without a session, and for the only process.
ALWAYS = ("SESSION_KILL", "UPSTREAM_STOP", "BRANCH_DROP", "PRINCIPAL_REST", "PICTURES_START", "PING", "SERVICE_READY",
          "SERVICE_DRAINING", "SERVICE_RELOAD", "SERVICE_RELOADED")


def every_message():
    """Each verb with each number as target and generation: each gets one answer, and only what makes something of an existing target,
    and what ends something, succeeds."""
    session = create()
    wrong = []
    for verb, (name, kind_of_target, _, _, answer) in enumerate(REQUESTS, 1):
        is_index = kind_of_target in ("PROFILE", "SERVER")
        for target in (*NUMBERS, session + 1, session - 1) if kind_of_target != "NONE" else (0,):
            if target == session:
                continue
            for gen in (0, 1, generation, generation + 1, generation - 1, 0xFFFFFFFF):
                kind, _, made, code = ask(verb, target, gen)
                if kind == STARTED:
                    end(made)
                elif kind == UP_STARTED:
                    ask(UP_STOP, made)
                    wait(lambda e, made=made: e[0] == UP_ENDED and e[2] == made)
                    forget(UP_STARTED, made)
                elif kind == BRANCH_STARTED:
                    ask(BRANCH_DROP, made)
                allowed = target == 0 and gen == generation and name != "INSTALLER_START" if is_index else name in ALWAYS
                if kind != (KINDS[answer] if allowed else FAILED):
                    wrong.append((name, target, gen, kind, code))
    # Any principal has a session; the others that there can be have one, too.
    for principal in NUMBERS:
        number = send(CREATE, principal=(principal,) * 4)
        event = wait(lambda e, number=number: e[1] == number)
        if event[0] == STARTED:
            end(event[2])
        else:
            wrong.append((CREATE, principal, event))
    end(session)
    return {"wrong": wrong}


def every_state():
    """Each pair of verbs on one session, in both orders, also after the session ended."""
    answers = collections.Counter()
    verbs = [verb for verb, row in enumerate(REQUESTS, 1) if row[1] == "SESSION"]
    session = create()
    for first in verbs:
        for second in verbs:
            for verb in (first, second, FREEZE, FREEZE, VERBS["SESSION_THAW"]):
                answers[ask(verb, session)[0]] += 1
            if KILL in (first, second):
                end(session)
                for verb in verbs:
                    answers[ask(verb, session)[0]] += 1
                session = create()
    end(session)
    return {"answers": sorted(answers)}


def same_serial():
    """Requests with the same serial number: each is answered."""
    for _ in range(3):
        send(CREATE, number=5)
    made = [wait(lambda e: e[1] == 5) for _ in range(3)]
    assert all(event[0] == STARTED for event in made), made
    for event in made:
        end(event[2])
    return {"sessions": len({event[2] for event in made})}


def too_many():
    """More sessions than the limit allows."""
    numbers = [send(CREATE) for _ in range(sessions_max + 20)]
    kinds = collections.Counter()
    made = []
    for number in numbers:
        event = wait(lambda e, number=number: e[1] == number)
        kinds[event[0]] += 1
        if event[0] == STARTED:
            made.append(event[2])
    for session in made:
        end(session)
    end(create())
    return {"started": kinds[STARTED], "failed": kinds[FAILED], "max": sessions_max}


def branches():
    """More files for branches than sessions can have, and processes for pictures one after the other."""
    made, refused = [], 0
    for _ in range(sessions_max + 20):
        event = ask(BRANCH)
        if event[0] == BRANCH_STARTED:
            made.append(event[2])
        else:
            refused += 1
    for target in (*made, *made):
        assert ask(BRANCH_DROP, target)[0] == DONE
    again = ask(BRANCH)[0] == BRANCH_STARTED
    for _ in range(20):
        ask(PICTURES)
    end(create())
    return {"made": len(made) - sessions_max, "refused": refused, "again": again}


def upstreams():
    """One server started many times, stopped twice, and left running."""
    running = []
    refused = 0
    for _ in range(517):
        event = ask(UP_START)
        if event[0] == UP_STARTED:
            running.append(event[2])
        else:
            refused += 1
    for instance in running[:-2]:
        ask(UP_STOP, instance)
        ask(UP_STOP, instance)
        wait(lambda e, instance=instance: e[0] == UP_ENDED and e[2] == instance)
        ask(UP_STOP, instance)
        forget(UP_STARTED, instance)
    return {"started": len(running), "refused": refused}


def at_random():
    """Thousands of valid messages in random order, with rare reads. Each has one answer."""
    rng = random.Random(int(os.environ["CLOISTER_HOSTILE_SEED"]))
    known, open_requests = [1], set()
    for _ in range(int(os.environ["CLOISTER_HOSTILE_COUNT"])):
        verb = rng.choice((*VERBS.values(), KILL, KILL, UP_STOP, BRANCH_DROP))
        if REQUESTS[verb - 1][1] in ("PROFILE", "SERVER"):
            target = rng.choice((0, 0, 0, 1, 99))
        else:
            target = rng.choice((rng.choice(known), rng.choice(NUMBERS))) if REQUESTS[verb - 1][1] != "NONE" else 0
        open_requests.add(send(verb, target, rng.choice((generation,) * 9 + (0,))))
        while len(open_requests) > 40 or rng.random() < 0.3:
            event = receive(20 if len(open_requests) > 40 else 0.0001)
            if event is None:
                break
            kind, number, made, _ = event
            if number:
                assert number in open_requests, event
                open_requests.discard(number)
            if kind in (STARTED, UP_STARTED, BRANCH_STARTED):
                known = [made, *known[:20]]
            elif kind in (ENDED, UP_ENDED):
                forget(STARTED if kind == ENDED else UP_STARTED, made)
    while open_requests:
        event = receive()
        assert event, open_requests
        open_requests.discard(event[1])
    return {"unanswered": len(open_requests)}


def raw(data):
    def act():
        session = create()
        link.send(data)
        end(create())
        return {"survived": session > 0}
    return act


def request(verb, number):
    return REQUEST.pack(verb, number, *(0,) * 9)


def with_descriptors():
    """Descriptors with each message. The kernel refuses to send them; before Linux 6.16 the monitor closes them and kills the broker."""
    fds = array.array("i", [os.open("/dev/null", os.O_RDONLY)] * 16)
    refused = 0
    for _ in range(200):
        message = REQUEST.pack(KILL, 9, 77, generation, *(0,) * 7)
        try:
            link.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        except OSError:  # SO_PASSRIGHTS: the kernel refuses it
            refused += 1
            continue
        wait(lambda e: e[1] == 9)
    end(create())
    return {"refused": refused}


def flood(verb):
    """Sends requests without end and never reads an answer."""
    def act():
        link.settimeout(20)
        for _ in range(1000000):
            send(verb)
        return {"survived": True}
    return act


def close_link():
    """Keeps running but sends nothing."""
    create()
    print(json.dumps({"closed": True}), flush=True)
    link.close()
    time.sleep(60)
    return {"survived": True}


def flood_log():
    """Writes to its log, or to standard error, as fast as possible for two seconds, 256 MiB at most, and tries operations other than
    append on it."""
    fd = int(sys.argv[sys.argv.index("--log-fd") + 1]) if "--log-fd" in sys.argv else 2
    try:
        os.ftruncate(fd, 0)
        truncated = True
    except OSError:
        truncated = False
    lines, sent, end = (b"x" * 1022 + b"\x1b\n") * 64, 0, time.monotonic() + 2
    while sent < 256 << 20 and time.monotonic() < end:
        try:
            sent += os.write(fd, lines)
        except BlockingIOError:
            time.sleep(0.001)
    create()  # the monitor still serves
    return {"truncated": truncated}


def leave():
    """Ends with sessions in each state and a server running."""
    frozen, killed, stopped = create(), create(), create()
    ask(FREEZE, frozen)
    ask(FREEZE, killed)
    send(KILL, killed)
    ask(INTERRUPT, stopped)
    ask(UP_START)
    for _ in range(10):
        send(CREATE)
    return {"left": True}


ACTS = {
    "every-message": every_message, "every-state": every_state, "same-serial": same_serial, "too-many": too_many, "upstreams": upstreams,
    "at-random": at_random, "with-descriptors": with_descriptors, "flood-kill": flood(KILL), "flood-create": flood(CREATE),
    "flood-upstream": flood(UP_START), "close-link": close_link, "leave": leave, "flood-log": flood_log,
    "branches": branches, "verb-0": raw(request(0, 1)), "verb-max": raw(request(len(REQUESTS) + 1, 1)), "verb-huge": raw(request(0xFFFFFFFF, 1)),
    "serial-0": raw(request(KILL, 0)), "short": raw(request(KILL, 1)[:-1]), "long": raw(request(KILL, 1) + b"\0"), "one-byte": raw(b"\1"),
    "large": raw(b"\1" * 65536), "empty": raw(b""), "control": raw(request(KILL, 1)),
}


def main():
    hello()
    try:
        result = ACTS[os.environ["CLOISTER_HOSTILE"]]()
    except (Gone, BrokenPipeError, ConnectionResetError):
        result = {"gone": True}
    print(json.dumps(result), flush=True)
    sys.stdout.flush()
    os._exit(7)


if __name__ == "__main__":
    main()
