"""Where the time of an access goes: its steps, as the client and the servers measure them.

For a phase of writes one at a time the steps follow each other, and add up to the time of an access.
(With more under way they overlap.) The servers' metrics give their parts; what is left of a step is
messages, the client's own work, and waiting for a processor.

`processor` splits the processor time of an access: the threads of a server's evictions are those
with a lower priority.
"""

import pathlib
import re
import urllib.request

LINE = re.compile(r'(\w+)_(sum|count)(?:\{kind="(\w+)"\})? (\S+)')
NICE = 18  # the field of /proc/PID/task/TID/stat


def _seconds(port):
    """Returns {step: {"sum": seconds, "count": n}} of a server's histograms so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        text = page.read().decode()
    found = {}
    for name, what, kind, value in LINE.findall(text):
        if name in ("s3oramfs_serverd_request_seconds", "s3oramfs_serverd_sync_seconds"):
            found.setdefault(kind or "sync", {})[what] = float(value)
    return found


def _thread_seconds(pid):
    """Returns the processor seconds of the threads with a lower priority, and of the others."""
    seconds = {"evictions": 0.0, "other": 0.0}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        nice = int((task / "stat").read_text().rpartition(") ")[2].split()[NICE - 2])
        ran = int((task / "schedstat").read_text().split()[0]) / 1e9
        seconds["evictions" if nice >= 10 else "other"] += ran
    return seconds


def snapshot(running):
    return {
        server: {"seconds": _seconds(port), "threads": _thread_seconds(running.servers[server].pid)}
        for server, port in running.metrics.items()
        if server in running.servers
    }


def _sums(before, after, accesses):
    """Returns by how much each server's sums have grown, in milliseconds an access."""
    for server, now in after.items():
        then = before[server]
        steps = {
            step: value["sum"] - then["seconds"].get(step, {"sum": 0.0})["sum"]
            for step, value in now["seconds"].items()
        }
        threads = {name: now["threads"][name] - then["threads"][name] for name in now["threads"]}
        yield {name: 1e3 * value / accesses for name, value in {**steps, **threads}.items()}


def account(before, after, result, client_cpu):
    """Returns the milliseconds of an access: `steps`, and `processor`. `client_cpu`: seconds.
    `sync` is the time of the slowest server's syncs, those for evictions too."""
    accesses = result["accesses"]
    servers = list(_sums(before, after, accesses))
    slowest = {
        name: max(each.get(name, 0.0) for each in servers)
        for name in ("retrieve", "write_root", "sync")
    }
    client = {name: 1e3 * each["seconds"] / accesses for name, each in result["times"].items()}
    whole = 1e3 * result["seconds"] / accesses
    root_write = client["access"] - client["retrieval"]
    return {
        "steps": {
            "access record": client["commit"],
            "retrieval, servers": slowest["retrieve"],
            "retrieval, rest": client["retrieval"] - slowest["retrieve"],
            "root write, servers": slowest["write_root"],
            "root write, rest": root_write - slowest["write_root"],
            "before and after": whole - client["commit"] - client["access"],
        },
        "whole": whole,
        "sync": slowest["sync"],
        "processor": {
            "client": 1e3 * client_cpu / accesses,
            "servers, evictions": sum(each["evictions"] for each in servers),
            "servers, other": sum(each["other"] for each in servers),
        },
        "eviction": 1e3 * result["times"]["eviction"]["seconds"] / max(1, result["evictions"]),
    }


def text(account):
    """Returns the steps and the processor time as one line, in shares of the time of an access."""
    parts = {**account["steps"], **{f"cpu {n}": v for n, v in account["processor"].items()}}
    shares = ", ".join(f"{name} {value / account['whole']:.2f}" for name, value in parts.items())
    return f"      of {account['whole']:.2f} ms: {shares}; an eviction {account['eviction']:.0f} ms"
