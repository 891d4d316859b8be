"""Part o of `targets`: what it costs an access not to trust the servers.

Two volumes of three servers, with `security` honest-but-curious and malicious, are open at the same
time and take turns, so that both see the same of whatever else the machine does. Trees are as high
as for 40 GB of blocks of 128 KiB, with (Z, A) = (16, 20), and each turn has whole evictions.
"""

import contextlib
import statistics

import network
from measuring import Row, phase, say, volume
from target_parts import expecting

KINDS = ("honest-but-curious", "malicious")
FEW_KIB = 4.0


def _turns(setting, rates, turns, evictions, at_once):
    """Returns the results of each kind, turn by turn."""
    found = {kind: [] for kind in KINDS}
    with contextlib.ExitStack() as stack:
        volumes = {}
        for kind in KINDS:
            options = [*expecting("40G", "128K"), f"--security={kind}"]
            running, bench = stack.enter_context(volume(setting, options, rates))
            volumes[kind] = running, bench
            every = bench.volume["evict_every"]
            phase(setting, running, bench, "fill", 4 * every, 64)
            if rates:
                running.shape()
        for turn in range(turns):
            for kind in KINDS if turn % 2 == 0 else reversed(KINDS):
                say(f"  {kind}")
                running, bench = volumes[kind]
                count = evictions * bench.volume["evict_every"]
                found[kind].append(phase(setting, running, bench, "writes", count, at_once))
    return found


def _ratio(where, found, what, of, unit, target=None):
    """A row with the median of the ratios of all turns, and their range."""
    honest, malicious = ([of(result) for result in found[kind]] for kind in KINDS)
    ratios = [mine / theirs for theirs, mine in zip(honest, malicious)]
    medians = f"{statistics.median(malicious):.2f} / {statistics.median(honest):.2f} {unit}"
    return Row("o", f"{where}: {what}, malicious over honest", statistics.median(ratios), "times",
               target, reference=f"{min(ratios):.3f} to {max(ratios):.3f}; {medians}")  # fmt: skip


def _kib(result):
    """Returns the client's traffic for an access, in KiB."""
    costs = result["costs"]
    return 128 * (costs["blocks_up"] + costs["blocks_down"])


def _rows(where, found, target):
    honest, malicious = (statistics.median(_kib(each) for each in found[kind]) for kind in KINDS)
    costs = lambda name: lambda result: result["costs"][name]
    return [
        _ratio(where, found, "ms an access", lambda each: 1e3 * each["seconds_per_access"], "ms",
               target),
        _ratio(where, found, "processor of the client", costs("client_cpu_ms"), "ms"),
        _ratio(where, found, "processor of the servers", costs("servers_cpu_ms"), "ms"),
        Row("o", f"{where}: more on the client's link for an access", malicious - honest, "KiB",
            FEW_KIB, reference=f"{malicious:.1f} / {honest:.1f} KiB"),
    ]  # fmt: skip


def measure(setting):
    rows, details = [], {}
    for where, rates, turns, evictions, at_once, target in (
        ("loopback, 8 at once", None, 7, 3, 8, 1.35),
        ("home line, 8 at once", network.Rates(), 5, 2, 8, 1.1),
        ("home line, 1 at once", network.Rates(), 3, 1, 1, 1.1),
    ):
        if setting.quick:
            turns, evictions = 1, 1
        say(f"  {where}")
        details[where] = _turns(setting, rates, turns, evictions, at_once)
        rows += _rows(where, details[where], target)
    return rows, details
