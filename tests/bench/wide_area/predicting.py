"""The measurements of `predictions` and of part i of `targets`: compares what init predicts for the
lines that it measures with the outcome."""

import dataclasses
import os
import random
import re
import statistics
import time

import cluster
import measuring
import mounted
import network
from volume_bench import height_for, size_of

PHOTO = 3_000_000
EXPECT = "1G"
ALLOWED = 0.25
UNITS = {unit: 1 << 10 * power for power, unit in enumerate(("B", "KiB", "MiB", "GiB"))}

LINES = {
    "home, 5/29": network.Rates(up=5, down=29),
    "50/50": network.Rates(up=50, down=50),
    "500/500": network.Rates(up=500, down=500),
}
SCHEMES = {"mirror": (1, 2), "s3oram": (1, 2, 3)}


@dataclasses.dataclass
class Comparison:
    scheme: str
    line: str
    what: str
    predicted: float
    outcome: float
    unit: str

    @property
    def ratio(self):
        return self.outcome / self.predicted if self.predicted else float("inf")

    @property
    def passes(self):
        return 1 - ALLOWED <= self.ratio <= 1 + ALLOWED


def number_in(pattern, text):
    found = re.search(pattern, text)
    return float(found[1]) if found else None


def predictions_in(text):
    """Returns the predictions in the output of init; None for one that is missing."""
    rate = re.search(r"large file is written at about ([\d.]+) (\w+)/s", text)
    return {
        "photo": number_in(r"photo of 3 MB is safe after about ([\d.]+) s", text),
        "rate": float(rate[1]) * UNITS[rate[2]] if rate else None,
        "between": number_in(r"servers send each other about ([\d.]+) GB", text),
    }


def write(path, size, seed):
    """Writes a file, and returns the seconds until it is durable."""
    data = random.Random(seed).randbytes(size)
    start = time.monotonic()
    with open(path, "xb", buffering=0) as file:
        if file.write(data) != size:
            raise RuntimeError(f"{path}: a short write")
        os.fsync(file.fileno())
    return time.monotonic() - start


def bytes_between(relay):
    links = relay.command("stats")["links"]
    return sum(way["there"] + way["back"] for name, way in links.items() if "user" not in name)


def rest(relay):
    """Waits until the evictions that are due have ended."""
    last = -1
    while (now := bytes_between(relay)) - last > 20_000:
        last = now
        time.sleep(1)


@dataclasses.dataclass
class Numbers:
    """The numbers of the volume that init chooses for a line."""

    block: int  # bytes
    every: int  # accesses from one eviction to the next


def numbers_in(text):
    return Numbers(
        block=int(re.search(r"Blocks of (\d+) KiB", text)[1]) << 10,
        every=int(re.search(r"an eviction every (\d+) accesses", text)[1]),
    )


def first_numbers(setting, rates, scheme):
    """Returns the numbers of a vault that is only made, because the tree's height follows from
    them."""
    with (
        measuring.temporary_directory(setting) as place,
        cluster.Cluster(
            setting.programs, place, rates, options_of(scheme), SCHEMES[scheme], measures=True
        ) as running,
    ):
        return numbers_in(running.said)


def options_of(scheme):
    return [f"--scheme={scheme}", f"--expect={EXPECT}"]


def whole_evictions(size, numbers):
    """Returns at least `size`, for enough evictions that one more or less hardly matters."""
    each = numbers.every * numbers.block
    return max(8, -(-size // each)) * each


def use(setting, running, seconds, predicted, numbers):
    """Returns the outcome: seconds for a photo, bytes a second, and bytes between servers for each
    byte."""
    point = running.directory / "mounted"
    point.mkdir()
    with mounted.mount(setting.programs / "s3oramfs", running.vault, point):
        rest(running.relay)
        photos = []
        for number in range(5):
            photos.append(write(point / f"photo-{number}", PHOTO, number))
            rest(running.relay)
        before = bytes_between(running.relay)
        size = whole_evictions(int(predicted["rate"] or 4e6) * seconds, numbers)
        took = write(point / "large", size, 99)
        rest(running.relay)
        sent = bytes_between(running.relay) - before
    measuring.say(f"    photos: {', '.join(f'{photo:.2f}' for photo in photos)} s")
    measuring.say(f"    {size / 1e6:.0f} MB: {took:.1f} s, {sent / 1e6:.0f} MB between servers")
    return {"photo": statistics.median(photos), "rate": size / took, "between": sent / size}


def compare(setting, scheme, line, seconds):
    rates = LINES[line]
    numbers = first_numbers(setting, rates, scheme)
    height = height_for(-(-size_of(EXPECT) // numbers.block), numbers.every)
    options = [*options_of(scheme), f"--first-height={height}"]
    with (
        measuring.temporary_directory(setting) as place,
        cluster.Cluster(
            setting.programs, place, rates, options, SCHEMES[scheme], measures=True
        ) as running,
    ):
        predicted = predictions_in(running.said)
        measuring.say("    " + running.said.replace("\n", "\n    ").rstrip())
        if numbers_in(running.said) != numbers:
            raise RuntimeError("init has chosen other numbers for the same lines")
        outcome = use(setting, running, seconds, predicted, numbers)
    units = {"photo": "s", "rate": "MB/s", "between": "GB a GB"}
    scale = {"photo": 1, "rate": 1e-6, "between": 1}
    return [
        Comparison(
            scheme, line, what, (predicted[what] or 0) * scale[what],
            outcome[what] * scale[what], units[what],
        )
        for what in units
    ]  # fmt: skip


def print_table(rows):
    print(f"{'':8} {'':12} {'':8} {'predicted':>10} {'outcome':>10} {'':8} {'ratio':>6}")
    for row in rows:
        print(
            f"{row.scheme:8} {row.line:12} {row.what:8} {row.predicted:10.2f} {row.outcome:10.2f} "
            f"{row.unit:8} {row.ratio:6.2f}  {'PASS' if row.passes else 'FAIL'}"
        )


def run(setting, schemes):
    """Returns all comparisons of these schemes."""
    rows = []
    for scheme in schemes:
        for line in LINES:
            measuring.say(f"== {scheme}, {line}")
            rows += compare(setting, scheme, line, 8 if setting.quick else 45)
    return rows


def rows(setting):
    """Part i: how far off each prediction is."""
    compared = run(setting, ["mirror"] if setting.quick else list(SCHEMES))
    table = [
        measuring.Row("i", f"{row.scheme}, {row.line}: {row.what}, off by", abs(row.ratio - 1),
                      "of 1", ALLOWED, reference=f"{row.predicted:.2f} {row.unit} predicted")
        for row in compared
    ]  # fmt: skip
    return table, [dataclasses.asdict(row) for row in compared]
