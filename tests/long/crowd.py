"""Many processes at once in the same directories and files.

All processes share names, attributes and half of the files; operations on these may only succeed,
or fail with an error of a lost race. The other files are shared by stripes: each stripe belongs to
one process, which remembers what it has written there and must always find it again.
"""
import contextlib
import errno
import hashlib
import json
import mmap
import multiprocessing
import os
import random
import time

DIRECTORIES, NAMES, LEDGERS = 4, 20, 4
STRIPE, STRIPES = 5000, 160  # stripes share pages with their neighbours
LOST_RACES = {
    errno.ENOENT,
    errno.EEXIST,
    errno.ENOTEMPTY,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENODATA,
    errno.ENXIO,
    errno.EINVAL,  # moving a directory into itself
    errno.EPERM,  # a link to a directory
    errno.ELOOP,  # a symbolic link to itself
}


def stripe_content(ledger, stripe, version):
    seed = hashlib.sha256(f"{ledger} {stripe} {version}".encode()).digest()
    return (seed * (STRIPE // len(seed) + 1))[:STRIPE] if version else bytes(STRIPE)


def ledger_path(root, ledger):
    return f"{root}/ledger{ledger}"


@contextlib.contextmanager
def opened(path, flags=os.O_RDWR):
    descriptor = os.open(path, flags, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Member:
    """One process of the crowd."""

    def __init__(self, root, number, size, seed):
        self.root, self.dice = root, random.Random(seed * 1000 + number)
        self.own = range(number, STRIPES, size)
        self.written = {}  # (ledger, stripe): version
        self.done = 0

    def name(self):
        return f"{self.root}/d{self.dice.randrange(DIRECTORIES)}/n{self.dice.randrange(NAMES)}"

    # ---- operations with any result

    def write(self):
        flags = os.O_CREAT | self.dice.choice([0, os.O_TRUNC, os.O_APPEND, os.O_EXCL])
        with opened(self.name(), os.O_RDWR | flags) as file:
            for _ in range(self.dice.randrange(4)):
                data = bytes([self.dice.randrange(256)]) * self.dice.choice([1, 300, 5000, 200_000])
                os.pwrite(file, data, self.dice.randrange(300_000))
            if self.dice.random() < 0.1:
                os.fsync(file)

    def read(self):
        with opened(self.name(), os.O_RDONLY) as file:
            os.pread(file, self.dice.choice([1, 5000, 300_000]), self.dice.randrange(300_000))
            os.lseek(file, self.dice.randrange(1000), self.dice.choice([os.SEEK_DATA, os.SEEK_HOLE]))

    def truncate(self):
        os.truncate(self.name(), self.dice.choice([0, 100, 100_000, 1_000_000]))

    def allocate(self):
        with opened(self.name()) as file:
            os.posix_fallocate(file, self.dice.randrange(100_000), 1 + self.dice.randrange(100_000))

    def unlink(self):
        os.unlink(self.name())

    def rename(self):
        os.rename(self.name(), self.name())

    def link(self):
        os.link(self.name(), self.name(), follow_symlinks=False)

    def symlink(self):
        os.symlink("../d0/n0", self.name())

    def directory(self):
        self.dice.choice([os.mkdir, os.rmdir])(self.name())

    def listing(self):
        for entry in os.scandir(f"{self.root}/d{self.dice.randrange(DIRECTORIES)}"):
            entry.stat(follow_symlinks=False)

    def attributes(self):
        path = self.name()
        os.chmod(path, 0o600 | self.dice.randrange(0o200))
        os.utime(path, ns=(self.done, self.done + 1))
        os.setxattr(path, f"user.{self.dice.randrange(3)}", bytes(self.dice.randrange(400)))
        for attribute in os.listxattr(path):
            os.getxattr(path, attribute)
        os.removexattr(path, f"user.{self.dice.randrange(3)}")

    def ask(self):
        os.statvfs(self.root)
        with opened(self.root, os.O_RDONLY) as directory:
            if self.dice.random() < 0.1:
                os.fsync(directory)

    # ---- operations whose result must be right

    def enter(self):
        """Writes a stripe of its own: with a system call, or through a shared mapping."""
        ledger, stripe = self.dice.randrange(LEDGERS), self.dice.choice(self.own)
        version = self.written.get((ledger, stripe), 0) + 1
        content = stripe_content(ledger, stripe, version)
        with opened(ledger_path(self.root, ledger)) as file:
            if self.dice.random() < 0.5:
                os.pwrite(file, content, stripe * STRIPE)
            else:
                with mmap.mmap(file, STRIPE * STRIPES) as shared:
                    shared[stripe * STRIPE : (stripe + 1) * STRIPE] = content
                    if self.dice.random() < 0.1:
                        shared.flush()
            self.written[ledger, stripe] = version
            if self.dice.random() < 0.05:
                os.fsync(file)

    def look(self):
        ledger, stripe = self.dice.randrange(LEDGERS), self.dice.choice(self.own)
        check_stripe(self.root, ledger, stripe, self.written.get((ledger, stripe), 0))

    STEPS = {
        write: 16, read: 10, truncate: 5, allocate: 2, unlink: 10, rename: 10, link: 6, symlink: 3,
        directory: 5, listing: 5, attributes: 8, ask: 3, enter: 12, look: 8,
    }  # fmt: skip

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            step = self.dice.choices(list(self.STEPS), list(self.STEPS.values()))[0]
            try:
                step(self)
            except OSError as error:
                if error.errno not in LOST_RACES:
                    raise
            self.done += 1


def check_stripe(root, ledger, stripe, version):
    with opened(ledger_path(root, ledger), os.O_RDONLY) as file:
        found = os.pread(file, STRIPE, stripe * STRIPE)
    if found != stripe_content(ledger, stripe, version):
        raise AssertionError(f"stripe {stripe} of ledger {ledger} is not as version {version}")


class Crowd:
    """`size` processes in `root`, which is created; their ledgers go to `folder`."""

    def __init__(self, root, folder, size, seed):
        self.root, self.folder = str(root), folder
        self.members = [Member(self.root, number, size, seed) for number in range(size)]
        os.mkdir(self.root)
        for number in range(DIRECTORIES):
            os.mkdir(f"{self.root}/d{number}")
        for ledger in range(LEDGERS):
            with opened(ledger_path(self.root, ledger), os.O_RDWR | os.O_CREAT) as file:
                os.truncate(file, STRIPE * STRIPES)
        self.processes = []

    def start(self, seconds):
        def work(number, member):
            member.run(seconds)
            ledger = [[*where, version] for where, version in member.written.items()]
            (self.folder / f"member{number}").write_text(json.dumps([member.done, ledger]))

        self.processes = [
            multiprocessing.Process(target=work, args=(number, member), daemon=True)
            for number, member in enumerate(self.members)
        ]
        for process in self.processes:
            process.start()

    def wait(self):
        """Waits for all. Returns how many operations they made, or None if one failed."""
        for process in self.processes:
            process.join()
        if any(process.exitcode != 0 for process in self.processes):
            return None
        ended = [json.loads((self.folder / f"member{n}").read_text()) for n in range(len(self.members))]
        self.written = {(ledger, stripe): v for _, part in ended for ledger, stripe, v in part}
        return sum(done for done, _ in ended)

    def check(self):
        """Checks every stripe of every ledger."""
        for ledger in range(LEDGERS):
            for stripe in range(STRIPES):
                check_stripe(self.root, ledger, stripe, self.written.get((ledger, stripe), 0))
