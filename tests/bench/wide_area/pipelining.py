"""Part g of `targets`: whether one sequential writer or reader of a mounted file keeps the line
full. Each access, even for a read, takes one block up and one down, so the user's upstream fills
first. The result is the part of its capacity that it carried in the time.
"""

import dataclasses
import time

import cluster
import measuring
import mounted
import network

ROUND_TRIPS = (15, 100)  # ms, of the user's line, and between servers
BLOCK = "64K"
TARGET = 0.85


def _carried(counters, way):
    """Returns the bytes on the user's line, to all servers; way: there (up) or back (down)."""
    links = counters["links"]
    return sum(links[f"user-{server}"][way] for server in network.SERVERS)


def _busy(relay, rates, work):
    """Runs `work`. Returns which part of each direction of the user's line was in use."""
    before, start = relay.command("stats"), time.monotonic()
    work()
    after, seconds = relay.command("stats"), time.monotonic() - start
    up, down = (_carried(after, way) - _carried(before, way) for way in ("there", "back"))
    return {
        "seconds": seconds,
        "bytes_up": up,
        "bytes_down": down,
        "up": up * 8e-6 / seconds / rates.up,
        "down": down * 8e-6 / seconds / rates.down,
    }


def _write_and_read(setting, rates, count):
    """Mounting is neither measured nor delayed; the fsync is part of the writing."""
    init_options = [f"--block-size={BLOCK}"]
    program = setting.programs / "s3oramfs"
    results = {}
    with (
        measuring.temporary_directory(setting) as place,
        cluster.Cluster(setting.programs, place, rates, init_options) as running,
    ):
        point = place / "mounted"
        point.mkdir()
        for what, work in (("write", mounted.write), ("read", mounted.read)):
            with mounted.mount(program, running.vault, point):
                running.shape()
                machine = measuring.machine_seconds()
                result = _busy(running.relay, rates, lambda: work(point / "file", count))
                machine = measuring.machine_seconds() - machine
                result["machine_cores_busy"] = machine / result["seconds"]
                running.relay.command("open")
            measuring.say(
                f"    {what} of {count} MiB: {result['seconds']:.1f} s, line up busy "
                f"{result['up']:.3f}, down {result['down']:.3f}; cores busy on this machine, with "
                f"anything: {result['machine_cores_busy']:.2f}"
            )
            results[what] = result
    return results


def keeps_the_line_full(setting):
    count = 4 if setting.quick else 24
    rows, details = [], {"mebibytes": count, "block_size": BLOCK}
    for rtt in ROUND_TRIPS:
        measuring.say(f"  {rtt} ms")
        rates = network.Rates(rtt=rtt, server_rtt=rtt)
        results = _write_and_read(setting, rates, count)
        details[f"{rtt} ms"] = {"rates": dataclasses.asdict(rates), **results}
        for what, result in results.items():
            rows.append(
                measuring.Row(
                    "g",
                    f"user's line up, sequential {what}, {rtt} ms: busy",
                    result["up"],
                    "of 1",
                    TARGET,
                    True,
                    f"{count} MiB at {rates.up:g} Mbit/s in {result['seconds']:.1f} s",
                )
            )
    return rows, details
