"""Where the time of accesses goes, without instrumenting any program.

Two snapshots around a phase give, for each access of it:

`split`, seconds that exclude each other and add up to the delay of an access:
  client_server   something was on its way between client and servers (as the relay saw it, from the
                  first byte's coming to the last one's arrival: sending, and being under way)
  server_server   something was on its way between servers, and nothing between client and servers
  server, client, disk, other
                  nothing was on its way: that time, in the shares in which sampling.py saw the
                  processes compute or wait for a disk; all of it is `other` if it saw nothing
  So work that goes on while something is on its way counts as no time, because it adds nothing to
  the delay.

`parts`, what each of these would take with nothing else going on, to judge the figures above; they
may overlap, and so add up to more than the delay:
  client, server  CPU time of the client process, and of the busiest server
  disk            bytes read and written by the busiest server's system calls (/proc/PID/io), from
                  the page cache too, at the rates of this disk for large cold reads and writes
                  (`disk_rates`): without the waits until single slots are durable
  client_server   bytes to all servers at the rate up, and from them at the rate down
  server_server   bytes that the busiest server sends to the others, at its rate
"""

import os
import pathlib
import statistics
import time

import network

TICKS = os.sysconf("SC_CLK_TCK")
DISK_SAMPLE = 256 << 20


def cpu_seconds(pid):
    """Returns the CPU seconds of all threads of a process, including those that have ended."""
    clock = ~pid << 3 | 2  # as clock_getcpuclockid(3) makes it
    return time.clock_gettime(clock)


def _process(pid):
    io = dict(line.split(": ") for line in pathlib.Path(f"/proc/{pid}/io").read_text().splitlines())
    return {
        "cpu": cpu_seconds(pid),
        "read": int(io["rchar"]),
        "written": int(io["wchar"]),
        "read_from_disk": int(io["read_bytes"]),
        "written_to_disk": int(io["write_bytes"]),
    }


def snapshot(cluster, client_pid):
    return {
        "client": _process(client_pid),
        "servers": [_process(process.pid) for process in cluster.servers.values()],
        "relay": cluster.relay.command("stats") if cluster.relay else {},
    }


def difference(after, before):
    if isinstance(after, dict):
        return {key: difference(after[key], before[key]) for key in after}
    if isinstance(after, list):
        return [difference(a, b) for a, b in zip(after, before)]
    return after if isinstance(after, bool) else after - before


def disk_rates(directory, slot_bytes=4096):
    """Measures the disk now: bytes a second of writing (with one fdatasync at the end) and of
    reading what is not in the page cache, and the seconds of one fdatasync after writing a slot."""
    path = pathlib.Path(directory) / "disk-rate"
    chunk = os.urandom(1 << 20)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        start = time.monotonic()
        for _ in range(DISK_SAMPLE // len(chunk)):
            os.write(file, chunk)
        os.fdatasync(file)
        write = DISK_SAMPLE / (time.monotonic() - start)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        start, at = time.monotonic(), 0
        while got := len(os.pread(file, len(chunk), at)):
            at += got
        read = at / (time.monotonic() - start)
        syncs = []
        for number in range(50):
            start = time.monotonic()
            os.pwrite(file, chunk[:slot_bytes], number * slot_bytes)
            os.fdatasync(file)
            syncs.append(time.monotonic() - start)
    finally:
        os.close(file)
        path.unlink()
    return {"write": write, "read": read, "fdatasync": statistics.median(syncs)}


def _over(bits_rate, bytes_sent):
    return bytes_sent * 8 / (bits_rate * 1e6) if bits_rate > 0 else 0.0


def account(before, after, samples, accesses, rates, disk):
    """Returns the costs of one access. `samples` are a Sampler's counts, `rates` is a
    network.Rates, and `disk` comes from disk_rates()."""
    used = difference(after, before)
    links, busy = used["relay"]["links"], used["relay"]["seconds"]
    up = sum(links[f"user-{s}"]["there"] for s in network.SERVERS)
    down = sum(links[f"user-{s}"]["back"] for s in network.SERVERS)
    others = {s: [o for o in network.SERVERS if o != s] for s in network.SERVERS}
    sends = [
        sum(links[f"{s}-{o}"]["there"] + links[f"{o}-{s}"]["back"] for o in others[s])
        for s in network.SERVERS
    ]
    seen = sum(samples.values())
    quiet = {what: count / seen for what, count in samples.items()} if seen else {"other": 1.0}
    split = {
        "client_server": busy["user"] + busy["both"],
        "server_server": busy["servers"],
        **{what: busy["neither"] * quiet.get(what, 0.0) for what in samples},
    }
    parts = {
        "client": used["client"]["cpu"],
        "server": max(server["cpu"] for server in used["servers"]),
        "disk": max(
            s["read"] / disk["read"] + s["written"] / disk["write"] for s in used["servers"]
        ),
        "client_server": _over(rates.up, up) + _over(rates.down, down),
        "server_server": _over(rates.server_rate, max(sends)),
    }
    count = {
        "up": up,
        "down": down,
        "between_servers": sum(sends),
        "server_reads": max(s["read"] for s in used["servers"]),
        "server_writes": max(s["written"] for s in used["servers"]),
        "server_reads_from_disk": max(s["read_from_disk"] for s in used["servers"]),
    }

    def each(values):
        return {name: value / accesses for name, value in values.items()}

    return {
        "split": each(split),
        "parts": each(parts),
        "bytes": each(count),
        "samples": seen,
    }
