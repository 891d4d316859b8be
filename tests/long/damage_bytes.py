"""Damages a file: flips a bit, or loses, tears or mixes up sectors as a disk does."""
import os

SECTOR = 512
PAGE = 4096


def _data_ranges(path):
    """Returns where the file has data, because holes cannot change; all of a file of one hole."""
    ranges = []
    with open(path, "rb") as file:
        at, size = 0, os.fstat(file.fileno()).st_size
        while at < size:
            try:
                begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at = min(size, os.lseek(file.fileno(), begin, os.SEEK_HOLE))
            ranges.append((begin, at))
    return ranges or [(0, size)]


def _place(ranges, dice):
    at = dice.randrange(sum(end - begin for begin, end in ranges))
    for begin, end in ranges:
        if at < end - begin:
            return begin + at
        at -= end - begin
    raise AssertionError("a place within the ranges")


def _read(path, at, size):
    with open(path, "rb") as file:
        file.seek(at)
        return file.read(size)


def _write(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def _bit(path, at, dice, _):
    mask = 1 << dice.randrange(8)
    _write(path, at, bytes([_read(path, at, 1)[0] ^ mask]))
    return f"bit {mask:#04x} of byte {at} flips"


def _zero(path, at, dice, _):
    size = dice.choice([SECTOR, PAGE])
    at -= at % size
    _write(path, at, bytes(len(_read(path, at, size))))
    return f"{size} bytes at {at} are zeros"


def _torn(path, at, dice, earlier):
    """The second part of the sector keeps its previous content."""
    size = dice.choice([SECTOR, PAGE])
    at -= at % size
    cut = at + dice.randrange(1, size)
    before = _read(earlier, cut, at + size - cut) if earlier else b""
    kept = _read(path, cut, at + size - cut)
    _write(path, cut, before.ljust(len(kept), b"\0")[: len(kept)])
    return f"{size} bytes at {at} are torn at {cut}"


def _lost(path, at, dice, earlier):
    """The sector was never written, so it keeps its previous content."""
    size = dice.choice([SECTOR, PAGE])
    at -= at % size
    kept = _read(path, at, size)
    before = _read(earlier, at, size) if earlier else b""
    _write(path, at, before.ljust(len(kept), b"\0")[: len(kept)])
    return f"{size} bytes at {at} are of an earlier time"


def _swapped(path, at, dice, _):
    size = dice.choice([SECTOR, PAGE])
    at -= at % size
    other = _place(_data_ranges(path), dice)
    other -= other % size
    one, two = _read(path, at, size), _read(path, other, size)
    least = min(len(one), len(two))
    _write(path, at, two[:least])
    _write(path, other, one[:least])
    return f"{size} bytes at {at} and {other} are exchanged"


def _cut(path, at, dice, _):
    os.truncate(path, at)
    return f"it ends at byte {at}"


KINDS = {"bit": _bit, "zero": _zero, "torn": _torn, "lost": _lost, "swapped": _swapped, "cut": _cut}


def damage(path, dice, earlier=None):
    """Damages the file at `path`; five times in six it flips a bit. `earlier`: the same file some
    time ago. Returns (kind, what was done). The file may stay unchanged, if the lost content is the
    same as before.
    """
    kind = "bit" if dice.random() < 5 / 6 else dice.choice(["zero", "torn", "lost", "swapped", "cut"])
    ranges = _data_ranges(path)
    at = _place(ranges, dice)
    return kind, KINDS[kind](path, at, dice, earlier)
