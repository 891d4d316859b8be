"""The common code of the parts of `targets`: a setting, rows of the table, costs of a phase."""

import contextlib
import dataclasses
import pathlib
import shutil
import tempfile
import time

import accounting
import cluster
import network
import steps
from volume_bench import VolumeBench


@dataclasses.dataclass
class Setting:
    programs: pathlib.Path
    directory: pathlib.Path  # where stores and vaults are made
    quick: bool
    limit: int  # seconds that a phase may take


@dataclasses.dataclass
class Row:
    """A line of the table. `target`: the value should be at most this, or at least."""

    part: str
    what: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False
    reference: str = ""

    @property
    def met(self):
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target


@contextlib.contextmanager
def temporary_directory(setting):
    place = pathlib.Path(tempfile.mkdtemp(dir=setting.directory))
    try:
        yield place
    finally:
        shutil.rmtree(place)


@contextlib.contextmanager
def volume(setting, init_options, rates=None, numbers=network.SERVERS):
    """A new volume on these servers, with volume_bench on it. Without rates there is no relay."""
    with temporary_directory(setting) as place:
        with cluster.Cluster(setting.programs, place, rates, init_options, numbers) as running:
            with VolumeBench(setting.programs / "volume_bench", running.vault) as bench:
                yield running, bench


def whole_evictions(accesses, bench):
    """Rounds up to a multiple of the accesses between two evictions."""
    every = bench.volume["evict_every"]
    return -(-int(accesses) // every) * every


def machine_seconds():
    """CPU seconds that this machine has spent, on anything, since it started."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _wait, irq, soft, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + soft + steal) / accounting.TICKS


def phase(setting, running, bench, kind, count, pace=1):
    """Returns volume_bench's answer, and what an access of the phase costs each party. `cores` says
    how many were busy on average with the client and the servers, and with everything else on this
    machine (`elsewhere`). Written bytes are counted by system calls, because write_bytes in
    /proc/PID/io counts whole folios."""
    machine, start = machine_seconds(), time.monotonic()
    before, steps_before = accounting.snapshot(running, bench.process.pid), steps.snapshot(running)
    result = bench.phase(kind, count, pace, setting.limit)
    steps_after = steps.snapshot(running)
    used = accounting.difference(accounting.snapshot(running, bench.process.pid), before)
    took = time.monotonic() - start
    servers = used["servers"]
    ours = used["client"]["cpu"] + sum(server["cpu"] for server in servers)
    each = 1 / result["accesses"]
    block = bench.volume["block_size"]
    result["seconds_per_access"] = result["seconds"] * each
    result["costs"] = {
        "client_cpu_ms": 1e3 * each * used["client"]["cpu"],
        "servers_cpu_ms": 1e3 * each * sum(server["cpu"] for server in servers),
        "blocks_written": each * sum(s["written"] for s in servers) / block,
        "blocks_read_from_disk": each * sum(s["read_from_disk"] for s in servers) / block,
        "blocks_up": each * sum(server["sent"] for server in result["bytes"]) / block,
        "blocks_down": each * sum(server["received"] for server in result["bytes"]) / block,
        "cores": ours / took,
        "cores_elsewhere": max(0.0, machine_seconds() - machine - ours) / took,
    }
    result["steps"] = steps.account(steps_before, steps_after, result, used["client"]["cpu"])
    show(result)
    return result


def show(result):
    pace = f"{result['rate']:.1f}/s" if "rate" in result else f"{result['at_once']} at once"
    costs = result["costs"]
    delay = result["delay"]
    say(
        f"    {result['phase']:6} {result['accesses']} accesses, {pace}: "
        f"{1e3 * result['seconds_per_access']:.2f} ms an access, callers wait "
        f"{1e3 * delay['median']:.2f} (p99 {1e3 * delay['p99']:.2f}); CPU ms: client "
        f"{costs['client_cpu_ms']:.2f}, servers {costs['servers_cpu_ms']:.2f}; blocks written "
        f"{costs['blocks_written']:.1f}, read {costs['blocks_read_from_disk']:.1f}; cores "
        f"{costs['cores']:.2f}, elsewhere {costs['cores_elsewhere']:.2f}"
    )


def say(text):
    print(text, flush=True)
