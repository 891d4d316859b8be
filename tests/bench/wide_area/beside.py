"""Parts m and n of `targets`: compares mirrors with three servers of s3oram in one run.

Trees are as high as for 40 GB, with (Z, A) = (16, 20), so evictions carry the whole paths of such
a database. Over loopback, processes compete for this machine's cores; over the home line, the line
limits the accesses. The relay counts the bytes between servers on the wire.
"""

import itertools

import network
import steps
from measuring import Row, phase, say, volume
from target_parts import expecting

DATABASE = "40G"
THREE_SERVERS = ("s3oram", 3, 1)


def _options(scheme, servers, threshold, block_size):
    chosen = [f"--scheme={scheme}", *expecting(DATABASE, block_size)]
    return chosen if scheme == "s3oram" else [*chosen, f"--privacy-threshold={threshold}"]


def _volume(setting, what, block_size, rates=None):
    scheme, servers, threshold = what
    numbers = tuple(range(1, servers + 1))
    options = _options(scheme, servers, threshold, block_size)
    return volume(setting, options, rates, numbers)


def _between(stats, servers):
    """Returns the bytes that the servers have sent each other, counted by the relay."""
    links = stats["links"]
    pairs = itertools.permutations(range(1, servers + 1), 2)
    return sum(links[f"{a}-{b}"]["there"] + links[f"{a}-{b}"]["back"] for a, b in pairs)


def _loopback(setting, what, block_size):
    """Measures milliseconds per access: writes and reads, one at a time and 32 at once, and the
    median of a read alone."""
    evictions = 2 if setting.quick else 15
    with _volume(setting, what, block_size) as (running, bench):
        every = bench.volume["evict_every"]
        phase(setting, running, bench, "fill", (2 if setting.quick else 30) * every, 32)
        results = {}
        for kind, at_once in (("writes", 1), ("reads", 1), ("writes", 32), ("reads", 32)):
            count = evictions * every * (1 if at_once == 1 else 3)
            result = phase(setting, running, bench, kind, count, at_once)
            results[f"{kind}, {at_once} at once"] = result
            if kind == "writes" and at_once == 1:
                say(steps.text(result["steps"]))
        results["alone"] = phase(setting, running, bench, "alone", 5 * every)
    return results


def _home(setting, what, rates, one_away=False):
    """Measures seconds per access over the user's line, eight at once and one at a time."""
    evictions, filled = (1, 2) if setting.quick else (4, 12)
    with _volume(setting, what, "128K", rates) as (running, bench):
        every = bench.volume["evict_every"]
        phase(setting, running, bench, "fill", filled * every, 64)
        if one_away:
            running.servers.pop(what[1]).kill()
            phase(setting, running, bench, "writes", every, 8)  # until the server is left out
        running.shape()
        before = running.relay.command("stats")
        results = {
            f"{kind}, {at_once} at once": phase(
                setting, running, bench, kind, evictions * every, at_once
            )
            for kind, at_once in (("writes", 8), ("writes", 1))
        }
        after = running.relay.command("stats")
        accesses = sum(result["accesses"] for result in results.values())
        sent = _between(after, what[1]) - _between(before, what[1])
        results["slots_between"] = sent / accesses / bench.volume["slot_size"]
    return results


def _name(what):
    scheme, servers, threshold = what
    return scheme if what == THREE_SERVERS else f"{scheme} (t={threshold}, {servers} servers)"


def _times(found, phase_name):
    return found[phase_name]["seconds_per_access"]


def _loopback_rows(block_size, own, other):
    rows = []
    for name, target in (
        ("writes, 1 at once", 0.5),
        ("reads, 1 at once", 0.5),
        ("writes, 32 at once", 0.7),
        ("reads, 32 at once", 0.7),
    ):
        mine, theirs = _times(own, name), _times(other, name)
        rows.append(Row("m", f"{block_size}, loopback: {name}, mirror over s3oram", mine / theirs,
                        "times", target, reference=f"{1e3 * mine:.2f} / {1e3 * theirs:.2f} ms"))
    for way in ("up", "down"):
        cost = own["reads, 32 at once"]["costs"][f"blocks_{way}"]
        target = None if block_size == "4K" else 1.1
        rows.append(Row("m", f"{block_size}: mirror, {way} an access", cost, "blocks", target))
    mine, theirs = (found["alone"]["delay"]["median"] for found in (own, other))
    rows.append(Row("m", f"{block_size}, loopback: a read alone, mirror over s3oram",
                    mine / theirs, "times", reference=f"{1e3 * mine:.2f} / {1e3 * theirs:.2f} ms"))
    return rows  # fmt: skip


TWO, THREE, SIX = ("mirror", 2, 1), ("mirror", 3, 1), ("mirror", 6, 5)


def loopback(setting):
    """Part m: a mirror of two and s3oram, over TCP and CURVE, on this machine alone."""
    rows, details = [], {}
    for block_size in ("128K", "64K", "4K"):
        found = {}
        for what in (TWO, THREE_SERVERS):
            say(f"  {block_size}, {_name(what)}")
            found[what] = _loopback(setting, what, block_size)
        details[block_size] = {_name(what): each for what, each in found.items()}
        rows += _loopback_rows(block_size, found[TWO], found[THREE_SERVERS])
    return rows, details


def home(setting):
    """Part n: mirrors of two, three (also with one away) and six servers, and s3oram, over the
    user's line."""
    rows, found = [], {}
    rates = network.Rates()
    for label, what, one_away in (
        ("s3oram", THREE_SERVERS, False),
        ("two", TWO, False),
        ("three", THREE, False),
        ("one away", THREE, True),
        ("six", SIX, False),
    ):
        say(f"  {label}")
        found[label] = _home(setting, what, rates, one_away)

    for one, other, target, what in (
        ("two", "s3oram", 1.05, "mirror over s3oram"),
        ("one away", "three", 1.05, "mirror of three, one away over none"),
        ("six", "two", 1.3, "mirror of six over two"),
    ):
        for name in ("writes, 8 at once", "writes, 1 at once"):
            mine, theirs = _times(found[one], name), _times(found[other], name)
            rows.append(Row("n", f"home line: {name}, {what}", mine / theirs, "times", target,
                            reference=f"{mine:.3f} / {theirs:.3f} s"))  # fmt: skip
    for label, target in (("two", 35.6 * 1.02), ("three", 53 * 1.02), ("s3oram", None)):
        rows.append(Row("n", f"between servers, an access, {label}",
                        found[label]["slots_between"], "slots", target))  # fmt: skip
    return rows, found
