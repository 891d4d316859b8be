"""The wide-area network: runs wan_relay as a process, and checks that it does what it should.

The check measures round trips, and the throughput of one connection and of several at once, in each
direction and in both. It does not depend on how the relay works.
"""

import dataclasses
import json
import socket
import statistics
import subprocess
import threading
import time

SERVERS = (1, 2, 3)


@dataclasses.dataclass
class Rates:
    """Rates in Mbit/s, round trips in milliseconds. A rate of 0 means no limit."""

    up: float = 5
    down: float = 29
    rtt: float = 15
    server_rate: float = 250
    server_rtt: float = 15


def free_ports(count):
    """Returns different ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Relay:
    """Links between the user and the servers: `port[name]` leads to the target given for it."""

    def __init__(self, program, rates, targets):
        """targets: {"user-1": port, "1-2": port, ...}"""
        self.port = dict(zip(targets, free_ports(len(targets))))
        rate_options = [
            f"--{field.replace('_', '-')}={value}"
            for field, value in dataclasses.asdict(rates).items()
        ]
        links = [f"{name}={self.port[name]}:{target}" for name, target in targets.items()]
        self.process = subprocess.Popen(
            [program, *rate_options, *links],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self._turn = threading.Lock()
        self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"wan_relay ended with code {self.process.wait()}")
        return json.loads(line)

    def command(self, command):
        """Sends "stats", "open" or "shape", and returns the current counters. Any thread."""
        with self._turn:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
            return self._answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class _Ends:
    """Listeners for all links, and pairs of connected sockets through the relay."""

    def __init__(self, program, rates):
        names = [f"user-{server}" for server in SERVERS]
        names += [f"{a}-{b}" for a in SERVERS for b in SERVERS if a != b]
        self.listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in names}
        targets = {name: one.getsockname()[1] for name, one in self.listeners.items()}
        self.relay = Relay(program, rates, targets)
        self.pairs = {name: self._connect(name) for name in names}

    def _connect(self, name):
        near = socket.create_connection(("127.0.0.1", self.relay.port[name]))
        far, _ = self.listeners[name].accept()
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return near, far

    def close(self):
        for pair in self.pairs.values():
            for end in pair:
                end.close()
        for listener in self.listeners.values():
            listener.close()
        self.relay.close()


def _round_trip_ms(pair, times=20):
    near, far = pair
    trips = []
    for _ in range(times):
        start = time.monotonic()
        near.sendall(b"x")
        far.recv(1)
        far.sendall(b"x")
        near.recv(1)
        trips.append((time.monotonic() - start) * 1e3)
    return statistics.median(trips)


def _megabits(flows, seconds):
    """Returns the Mbit/s that arrive over each list of (from, to) in `flows`, all at once, from the
    arrival of the first byte on."""
    stop = threading.Event()
    rates = [[0.0] * len(flow) for flow in flows]

    def send(source):
        chunk = bytes(1 << 18)
        source.settimeout(0.2)
        while not stop.is_set():
            try:
                source.send(chunk)
            except TimeoutError:
                continue

    def receive(sink, flow, at):
        buffer = bytearray(1 << 20)
        sink.recv_into(buffer)
        start, got = time.monotonic(), 0
        while time.monotonic() - start < seconds:
            got += sink.recv_into(buffer)
        rates[flow][at] = got * 8e-6 / (time.monotonic() - start)

    threads = []
    for number, flow in enumerate(flows):
        for at, (source, sink) in enumerate(flow):
            threads.append(threading.Thread(target=send, args=(source,), daemon=True))
            threads.append(threading.Thread(target=receive, args=(sink, number, at)))
    for thread in threads:
        thread.start()
    for thread in threads[1::2]:
        thread.join()
    stop.set()
    for thread in threads[::2]:
        thread.join()
    return [sum(rate) for rate in rates]


def check(program, rates, seconds):
    """Measures the network with these rates. Returns [(what, measured, expected or None, unit)]."""
    rows = []

    def measure(what, flows, expected):
        # Each measurement has connections of its own, because old ones are full of unread bytes.
        ends = _Ends(program, rates)
        try:
            got = _megabits([[select(ends) for select in flow] for flow in flows], seconds)
        finally:
            ends.close()
        for name, rate, wanted in zip(what, got, expected):
            rows.append((name, rate, wanted or None, "Mbit/s"))

    def there(name):
        return lambda ends: ends.pairs[name]

    def back(name):
        return lambda ends: ends.pairs[name][::-1]

    ends = _Ends(program, rates)
    try:
        for name in ("user-1", "user-2", "user-3"):
            trip = _round_trip_ms(ends.pairs[name])
            rows.append((f"round trip {name}", trip, rates.rtt, "ms"))
        for name in ("1-2", "2-3", "3-1"):
            trip = _round_trip_ms(ends.pairs[name])
            rows.append((f"round trip {name}", trip, rates.server_rtt, "ms"))
    finally:
        ends.close()
    user = [f"user-{server}" for server in SERVERS]
    measure(["down, one server"], [[back(user[0])]], [rates.down])
    measure(["down, three servers at once"], [[back(name) for name in user]], [rates.down])
    measure(["up, one server"], [[there(user[0])]], [rates.up])
    measure(["up, three servers at once"], [[there(name) for name in user]], [rates.up])
    measure(
        ["down, while up is busy", "up, while down is busy"],
        [[back(user[0])], [there(user[1])]],
        [rates.down, rates.up],
    )
    measure(["server 1 to 2"], [[there("1-2")]], [rates.server_rate])
    measure(
        ["server 1 to 2 and 3 at once"],
        [[there("1-2"), there("1-3")]],
        [rates.server_rate],
    )
    measure(
        [f"server {server} to both others, all busy" for server in SERVERS],
        [[there(f"{a}-{b}") for b in SERVERS if a != b] for a in SERVERS],
        [rates.server_rate] * 3,
    )

    # What the relay itself adds, and the most that it can carry.
    bare = Rates(0, 0, 0, 0, 0)
    ends = _Ends(program, bare)
    try:
        rows.append(("the relay alone: round trip", _round_trip_ms(ends.pairs["1-2"]), None, "ms"))
        (rate,) = _megabits([[ends.pairs["1-2"]]], seconds)
        rows.append(("the relay alone: one connection", rate, None, "Mbit/s"))
    finally:
        ends.close()
    return rows


def print_check(rows):
    """Prints the rows. Returns False if one is off by more than a tenth (or 1 ms)."""
    fine = True
    for what, measured, expected, unit in rows:
        said = "" if expected is None else f"   of {expected:g}"
        if expected is not None:
            allowed = max(0.1 * expected, 1.0 if unit == "ms" else 0)
            if abs(measured - expected) > allowed:
                fine, said = False, said + "   WRONG"
        print(f"{what:45} {measured:10.2f} {unit:6}{said}")
    return fine
