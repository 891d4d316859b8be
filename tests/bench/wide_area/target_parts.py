"""The parts of `targets` that access volumes. Each is a function of a Setting that returns rows and
the figures behind them. Part d is in mounted.py, g in pipelining.py."""

from statistics import median

import accounting
import network
import sampling
from measuring import Row, phase, say, volume, whole_evictions
from volume_bench import height_for, size_of

DATABASE = "40G"


def expecting(database, block_size):
    """Returns options for a tree as high as the database needs. Only the buckets on the paths of
    past evictions hold anything; evictions carry whole paths in any case."""
    blocks = -(-size_of(database) // size_of(block_size))
    return [
        f"--expect={database}",
        f"--block-size={block_size}",
        "--evict-every=20",
        "--bucket-size=16",
        f"--first-height={height_for(blocks, 20)}",
    ]


def _numbers(result):
    """Returns a volume's numbers, and how many slots a server reads in a retrieval."""
    names = ("bucket_size", "evict_every", "stash_slots", "slot_size", "height")
    told = {name: result["volume"][name] for name in names}
    path = told["height"] * told["bucket_size"] + told["stash_slots"]
    return {**told, "slots_read": path + 3 * told["evict_every"] // 2}


def home(setting):
    """a: the user's line of the paper."""
    rates = network.Rates()
    disk = accounting.disk_rates(setting.directory)
    # Nothing overlaps the end of a phase's last eviction; with more evictions it counts less.
    evictions, alone, filled = (1, 5, 4) if setting.quick else (5, 100, 20)
    results = []
    with volume(setting, expecting(DATABASE, "128K"), rates) as (running, bench):
        every = bench.volume["evict_every"]
        phase(setting, running, bench, "fill", filled * every, 64)
        running.shape()
        for kind, count, at_once in (
            ("writes", evictions * every, 1),
            ("reads", evictions * every, 1),
            ("writes", 2 * evictions * every, 8),
            ("alone", alone, 1),
        ):
            servers = [process.pid for process in running.servers.values()]
            with sampling.Sampler(running.relay, bench.process.pid, servers) as sampler:
                before = accounting.snapshot(running, bench.process.pid)
                result = phase(setting, running, bench, kind, count, at_once)
                after = accounting.snapshot(running, bench.process.pid)
            result["per_access"] = accounting.account(
                before, after, sampler.counts, result["accesses"], rates, disk
            )
            split = result["per_access"]["split"].items()
            say("      ms: " + "  ".join(f"{name} {1e3 * value:.1f}" for name, value in split))
            results.append(result)
        block = bench.volume["block_size"]
    one, one_read, several, reads = results
    wire = several["per_access"]["bytes"]
    rows = [
        Row("a", "128K, home link: writes one at a time, amortised", one["seconds_per_access"], "s",
            0.30, reference="paper 2.4"),
        Row("a", "128K, home link: reads one at a time, amortised",
            one_read["seconds_per_access"], "s", 0.30, reference="paper 2.4"),
        Row("a", "128K, home link: 8 at once, amortised", several["seconds_per_access"], "s",
            0.30, reference="paper 2.4"),
        Row("a", "128K, home link: a read alone, median", reads["delay"]["median"], "s", 0.10),
        Row("a", "128K, home link: a read alone, p99", reads["delay"]["p99"], "s", 0.10),
        Row("a", "128K, home link: up, on the wire, 8 at once", wire["up"] / block, "blocks"),
        Row("a", "128K, home link: down, on the wire, 8 at once", wire["down"] / block, "blocks"),
    ]  # fmt: skip
    return rows, results


EVICTORS = {
    "shuffle": ["--evictor=shuffle"],
    "matrix": ["--evictor=matrix"],
    "matrix 333/280": [
        "--evictor=matrix", "--bucket-size=333", "--evict-every=280", "--allow-overflow",
    ],
}  # fmt: skip


def _server_seconds(running):
    return sum(accounting.cpu_seconds(process.pid) for process in running.servers.values())


def _server_costs(setting, name, block_size, blocks):
    """Returns the CPU seconds of the three servers for one retrieval with its root write, and for
    an eviction, shared among its accesses. Between two evictions, A - 1 accesses (8 at once here)
    cause no eviction, and one more causes it."""
    turnover = 1 if setting.quick else 2
    accesses, evictions = 2000, 10
    if setting.quick:
        accesses, evictions = 200, 3
    options = [
        f"--block-size={block_size}",
        f"--expect={blocks * size_of(block_size)}",
        *EVICTORS[name],
    ]
    say(f"  {name}, {block_size}, {blocks} blocks")
    without = {"cpu": 0.0, "accesses": 0}
    with_eviction = {"cpu": 0.0, "evictions": 0}
    with volume(setting, options) as (running, bench):
        every = bench.volume["evict_every"]
        count = whole_evictions(blocks, bench)
        phase(setting, running, bench, "fill", count, 64)
        filled = phase(setting, running, bench, "writes", turnover * count, 64)
        while without["accesses"] < accesses or with_eviction["evictions"] < evictions:
            start = _server_seconds(running)
            plain = bench.phase("writes", every - 1, 8, setting.limit)
            middle = _server_seconds(running)
            last = bench.phase("writes", 1, 1, setting.limit)
            end = _server_seconds(running)
            if plain["evictions"] != 0 or last["evictions"] != 1:
                raise RuntimeError(f"{name}: evictions are not where they are looked for")
            without["cpu"] += middle - start
            without["accesses"] += every - 1
            with_eviction["cpu"] += end - middle
            with_eviction["evictions"] += 1
        params = _numbers(last)
    retrieval = without["cpu"] / without["accesses"]
    eviction = (with_eviction["cpu"] / with_eviction["evictions"] - retrieval) / every
    say(
        f"    {params}: servers' CPU ms: {1e3 * retrieval:.3f} a retrieval, "
        f"{1e3 * eviction:.3f} evicting"
    )
    return {
        **params,
        "blocks": blocks,
        "retrieval": retrieval,
        "eviction": eviction,
        "filled": filled,
    }


def ring(setting):
    """h: the same line, with one server, and a line of 500 Mbit/s both ways. As many levels of the
    tree are at the server as in a tree for 40 GB whose top 6 levels are at the client. Evictions
    carry all of them, and a read only the written ones, which are the top ones after so few
    evictions."""
    evictions, alone, filled = (1, 3, 2) if setting.quick else (5, 20, 32)
    phases = (("writes", evictions, 8), ("alone", alone, 1))
    several, reads = home_line = _ring_over(setting, network.Rates(), filled, phases)
    fast_line = _ring_over(
        setting, network.Rates(up=500, down=500), filled, (("writes", 3 * evictions, 8),)
    )
    costs = several["costs"]
    rows = [
        Row("h", "128K, home link, one server: 8 at once, amortised",
            several["seconds_per_access"], "s", 1.7),
        Row("h", "128K, home link, one server: up, 8 at once", costs["blocks_up"], "blocks", 9),
        Row("h", "128K, home link, one server: down, 8 at once", costs["blocks_down"], "blocks",
            19),
        Row("h", "128K, home link, one server: a read alone, median", reads["delay"]["median"],
            "s", 0.4),
        Row("h", "128K, 500/500 Mbit/s, one server: 8 at once, amortised",
            fast_line[0]["seconds_per_access"], "s", 0.03),
    ]  # fmt: skip
    return rows, home_line + fast_line


def _ring_over(setting, rates, filled, phases):
    """Returns the results of the phases (kind, evictions or reads alone, accesses at once) of a
    new ring that was filled by `filled` evictions."""
    options = ["--expect=1G", "--block-size=128K", "--top-cache=40M", "--first-height=9"]
    with volume(setting, options, rates, numbers=(1,)) as (running, bench):
        every = bench.volume["evict_every"]
        phase(setting, running, bench, "fill", filled * every, 64)
        running.shape()
        return [
            phase(setting, running, bench, kind, n if kind == "alone" else n * every, at_once)
            for kind, n, at_once in phases
        ]


def servers(setting):
    """b: the servers' CPU time, shuffle against matrix."""
    sizes = [("128K", 200), ("4K", 2000)] if setting.quick else [("128K", 1000), ("4K", 20000)]
    rows, details = [], {}
    for block_size, blocks in sizes:
        costs = {
            name: _server_costs(setting, name, block_size, blocks) for name in EVICTORS
        }
        details[f"{block_size} x {blocks}"] = costs
        own = costs["shuffle"]
        for what in ("retrieval", "eviction"):
            for name, other in costs.items():
                if name == "shuffle":
                    continue
                # fmt: off
                slots = f"; {other['slots_read']} over {own['slots_read']} slots read"
                rows.append(Row(
                    "b", f"{block_size}, N={blocks}: {what}, {name} over shuffle",
                    other[what] / own[what], "times", 10, True,
                    f"{1e3 * other[what]:.2f} over {1e3 * own[what]:.2f} ms"
                    + (slots if what == "retrieval" else "")))
                # fmt: on
    return rows, details


# Blocks, N, and the target in milliseconds per access.
LOOPBACK = [("128K", 8959, 39), ("4K", 71679, 2)]
TAIL_ROUNDS = 5


def _tail(what, delays):
    """Uses medians, because the machine's disk and its other guests disturb some rounds."""
    ratios = [delay["p99"] / delay["median"] for delay in delays]
    return [
        Row("e", f"{what}, p50", 1e3 * median(delay["median"] for delay in delays), "ms"),
        Row("e", f"{what}, p99", 1e3 * median(delay["p99"] for delay in delays), "ms"),
        Row("e", f"{what}, p99 / p50", median(ratios), "times", 3,
            reference=f"rounds: {min(ratios):.1f} to {max(ratios):.1f}"),
    ]


def loopback(setting, parts):
    """c and e: full volumes over TCP, CURVE and durable writes on this machine alone."""
    rows, details = [], {}
    for block_size, blocks, target in LOOPBACK:
        say(f"  {block_size}, {blocks} blocks")
        if setting.quick:
            blocks //= 32
        seconds = 2 if setting.quick else 20
        options = [f"--block-size={block_size}", f"--expect={blocks * size_of(block_size)}"]
        with volume(setting, options) as (running, bench):
            filled = phase(setting, running, bench, "fill", whole_evictions(blocks, bench), 32)
            count = whole_evictions(seconds / filled["seconds_per_access"], bench)
            results = [filled]
            for kind in ("writes", "reads"):
                results.append(phase(setting, running, bench, kind, count, 32))
            name = f"{block_size}, N={blocks}"
            if "c" in parts:
                for result in results[1:]:
                    what = f"{name}: {result['phase']}, 32 at once, amortised"
                    each = 1e3 * result["seconds_per_access"]
                    rows.append(Row("c", what, each, "ms", target))
            if "e" in parts:
                rate = 0.5 / results[-1]["seconds_per_access"]
                count = whole_evictions(seconds * rate, bench)
                paced = [
                    phase(setting, running, bench, "paced", count, rate) for _ in range(TAIL_ROUNDS)
                ]
                results += paced
                rows += _tail(f"{name}: reads at {rate:.0f}/s", [each["delay"] for each in paced])
            details[name] = {**_numbers(results[-1]), "phases": results}
    return rows, details


def traffic(setting):
    """f: the client's traffic in blocks, evictions included."""
    evictions = 2 if setting.quick else 10
    rows, details = [], {}
    for block_size in ("64K", "128K"):
        say(f"  {block_size}")
        with volume(setting, expecting(DATABASE, block_size)) as (running, bench):
            every = bench.volume["evict_every"]
            phase(setting, running, bench, "fill", 4 * every, 32)
            results = [
                phase(setting, running, bench, kind, evictions * every, 8)
                for kind in ("writes", "reads")
            ]
        details[block_size] = results
        for way in ("up", "down"):
            most = max(result["costs"][f"blocks_{way}"] for result in results)
            rows.append(Row("f", f"{block_size}, {DATABASE}: {way} an access", most, "blocks", 1.1))
    return rows, details
