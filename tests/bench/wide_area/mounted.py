"""Mounts a vault, and writes and reads one large file through the mount. Contains part d of
`targets`, which does so with a local vault."""

import contextlib
import os
import pathlib
import random
import subprocess
import time

import measuring

PATIENCE = 120  # seconds, to mount
CHUNK = 1 << 20


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} {command[1]}: {done.stderr or done.stdout}")


@contextlib.contextmanager
def mount(program, vault, point):
    """Mounts the vault. If this program is killed, a signal to the daemon ends the mount."""
    # fmt: off
    daemon = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", program, "mount", "-f", vault, point],
        stdin=subprocess.DEVNULL, process_group=0)
    # fmt: on
    try:
        limit = time.monotonic() + PATIENCE
        while not os.path.ismount(point):
            if daemon.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"{point} is not mounted within {PATIENCE} s")
            time.sleep(0.02)
        yield daemon
        run(program, "umount", point)
    finally:
        if os.path.ismount(point):
            subprocess.run([program, "umount", "--lazy", "--force", point], check=False)
        _end(daemon)


def _end(daemon):
    """Waits for the daemon, which ends once it is unmounted; otherwise ends it."""
    try:
        daemon.wait(timeout=60)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _chunks(count):
    """Yields chunks that are all different, and the same in every run."""
    common = random.Random(7).randbytes(CHUNK - 8)
    for number in range(count):
        yield number.to_bytes(8, "little") + common


def write(path, count):
    """Writes the file. Returns the seconds, including the fsync."""
    start = time.monotonic()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for chunk in _chunks(count):
            if os.write(file, chunk) != len(chunk):
                raise RuntimeError(f"{path}: a short write")
        os.fsync(file)
    finally:
        os.close(file)
    return time.monotonic() - start


def read(path, count):
    """Reads the file and compares it with what was written. Returns the seconds."""
    start = time.monotonic()
    with open(path, "rb", buffering=0) as file:
        for number, chunk in enumerate(_chunks(count)):
            if file.read(CHUNK) != chunk:
                raise RuntimeError(f"{path}: MiB {number} is not what was written")
    return time.monotonic() - start


def _leave_page_cache(vault):
    """Drops the vault's files from the page cache, so that they are read from the disk again."""
    os.sync()
    for path in pathlib.Path(vault).rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def sequential(setting):
    count = 32 if setting.quick else 1024
    program = setting.programs / "s3oramfs"
    with measuring.temporary_directory(setting) as place:
        vault, point = place / "vault", place / "mounted"
        point.mkdir()
        run(program, "init", "--local", "--no-passphrase", vault)
        machine, start = measuring.machine_seconds(), time.monotonic()
        with mount(program, vault, point):
            wrote = write(point / "file", count)
        _leave_page_cache(vault)
        with mount(program, vault, point):
            got = read(point / "file", count)
        busy = (measuring.machine_seconds() - machine) / (time.monotonic() - start)
    megabytes = count * CHUNK / 1e6
    measuring.say(
        f"    {count} MiB: written in {wrote:.1f} s, read in {got:.1f} s; "
        f"cores busy on this machine, with anything: {busy:.2f}"
    )
    rows = [
        measuring.Row("d", f"sequential write of {count} MiB and fsync", megabytes / wrote, "MB/s",
                      5, True, "aim: 10"),
        measuring.Row("d", f"sequential read of {count} MiB, cold", megabytes / got, "MB/s",
                      5, True, "aim: 10"),
    ]  # fmt: skip
    return rows, {"mebibytes": count, "write": wrote, "read": got, "machine_cores_busy": busy}
