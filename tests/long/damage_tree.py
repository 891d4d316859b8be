"""The tree that the damage run puts into a vault, what it must contain, and how to compare it."""
import hashlib
import os
import pathlib
import random
import stat

DIRECTORIES, FILES = 24, 260
LARGE = {"large/a": 700_000, "large/b": 300_123}
SPARSE, ISLAND = 40 << 20, 9_000
EPOCH = 1_500_000_000


def content(name, size):
    """Returns bytes that are unique to this name."""
    return random.Random(name).randbytes(size)


def _put(path, data):
    path.write_bytes(data)
    os.utime(path, (EPOCH, EPOCH + len(data) % 1000))


def plant(root):
    """Makes directories, files of all sizes, links of both kinds, attributes and holes."""
    dice = random.Random("tree")
    places = [pathlib.Path()]
    for number in range(DIRECTORIES):
        place = dice.choice(places) / f"directory {number}"
        (root / place).mkdir()
        places.append(place)
    for number in range(FILES):
        size = dice.choice([0, 1, 37, 600, 2_500, 4_096, 5_000, 9_001])
        path = root / dice.choice(places) / f"file {number}{'-long' * dice.choice([0, 0, 12])}"
        _put(path, content(f"file {number}", size))
        if number % 5 == 0:
            path.chmod(dice.choice([0o600, 0o755, 0o444, 0o4711]))
        if number % 7 == 0:
            os.setxattr(path, "user.note", content(f"note {number}", dice.choice([1, 30, 900])))
        if number % 11 == 0:
            os.link(path, root / dice.choice(places) / f"other name {number}")
        if number % 6 == 0:
            os.symlink(f"../file {number}{'/deeper' * dice.choice([0, 60])}", f"{path} link")
        if number % 13 == 0 and os.geteuid() == 0:
            os.chown(path, 1000 + number, 2000)
    (root / "large").mkdir()
    for name, size in LARGE.items():
        _put(root / name, content(name, size))
    with open(root / "sparse", "wb") as sparse:
        for at in range(0, SPARSE, SPARSE // 4):
            sparse.seek(at)
            sparse.write(content(f"island {at}", ISLAND))
        sparse.truncate(SPARSE)
    os.mkfifo(root / "pipe")
    os.setxattr(root / "large", "user.directory", b"has one")


def change(root):
    """Rewrites, renames and removes some files, so that older versions remain on the disk."""
    files = sorted(path for path in root.rglob("file *") if path.is_file() and not path.is_symlink())
    for number, path in enumerate(files):
        if number % 9 == 0:
            _put(path, content(f"second {path.name}", 3_000 + number))
        elif number % 17 == 0:
            path.rename(path.with_name(f"renamed {number}"))
        elif number % 19 == 0:
            path.unlink()
    with open(root / "large/a", "r+b") as large:
        large.seek(100_000)
        large.write(content("over it", 150_000))


def _hash_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _record(path):
    info = os.lstat(path)
    kind = stat.S_IFMT(info.st_mode)
    record = [oct(info.st_mode), info.st_uid, info.st_gid, info.st_nlink, info.st_mtime_ns]
    if kind == stat.S_IFREG:
        record += [info.st_size, _hash_of(path)]
    if kind == stat.S_IFLNK:
        record.append(os.fsencode(os.readlink(path)).hex())
    else:
        names = os.listxattr(path, follow_symlinks=False)
        record.append({name: os.getxattr(path, name, follow_symlinks=False).hex() for name in names})
    return record


def walk(root):
    """Returns {path: record, or error as a string}; "PATH/": it cannot be listed."""
    found = {}
    waiting = [""]
    while waiting:
        place = waiting.pop()
        path = os.path.join(root, place)
        try:
            found[place] = _record(path)
        except OSError as error:
            found[place] = f"{error.strerror}"
        try:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                continue
            waiting += [os.path.join(place, name) for name in os.listdir(path)]
        except OSError as error:
            found[place + "/"] = f"{error.strerror}"
    return found


def compare(truth, found):
    """Returns the differences: (wrong without an error, errors), each a list of texts."""
    silent, errors = [], []
    unlisted = {path[:-1] for path, record in found.items() if path.endswith("/") and path}
    unlisted |= {""} if "/" in found else set()

    def is_excused(path):
        """Whether a directory above the path could not be listed or read."""
        while path:
            path = os.path.dirname(path)
            if path in unlisted or isinstance(found.get(path), str):
                return True
        return False

    for path, record in found.items():
        if isinstance(record, str):
            errors.append(f"{path or '.'}: {record}")
    for path, record in truth.items():
        there = found.get(path)
        if there is None:
            (errors if is_excused(path) else silent).append(f"{path}: is missing")
        elif not isinstance(there, str) and there != record:
            silent.append(f"{path}: {there} instead of {record}")
    for path in found.keys() - truth.keys():
        if not path.endswith("/") and not isinstance(found[path], str) and path:
            silent.append(f"{path}: was never there")
    return silent, errors
