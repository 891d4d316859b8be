"""A local vault and its mount, for the long runs."""
import json
import os
import pathlib
import subprocess
import sys
import time


def say(text):
    print(time.strftime("%H:%M:%S"), text, flush=True)


def must(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


class Volume:
    """A local vault and its mount, in `folder`; made and mounted with these options."""

    def __init__(self, programs, folder, init=(), options=()):
        self.s3oramfs = str(programs / "s3oramfs")
        self.vault, self.root, self.options = folder / "vault", folder / "mnt", options
        self.root.mkdir()
        self.run("init", "--local", "--no-passphrase", *init, str(self.vault))
        self.mount()

    def run(self, *words):
        ended = subprocess.run([self.s3oramfs, *words], capture_output=True, text=True)
        must(
            ended.returncode == 0,
            f"{' '.join(words)}: exit code {ended.returncode}: {ended.stdout}{ended.stderr}",
        )
        return ended

    def mount(self):
        start = time.monotonic()
        self.run("mount", *self.options, str(self.vault), str(self.root))
        say(f"  mounted in {time.monotonic() - start:.1f} s")

    def unmount(self):
        start = time.monotonic()
        self.run("umount", str(self.root))
        say(f"  unmounted in {time.monotonic() - start:.1f} s")

    def remount(self):
        """Unmounts, so that everything is durable, and mounts again."""
        self.unmount()
        self.mount()

    def end(self):
        if os.path.ismount(self.root):
            self.run("umount", str(self.root))

    def sync(self):
        descriptor = os.open(self.root, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def status(self):
        return json.loads(self.run("status", "--json", str(self.vault)).stdout)

    def state(self):
        """Returns the figures that may leak."""
        status = self.status()
        process = pathlib.Path("/proc") / str(status["pid"])
        resident = next(
            int(line.split()[1])
            for line in (process / "status").read_text().splitlines()
            if line.startswith("VmRSS")
        )
        return {
            "blocks": status["volume"]["blocks"] - status["backup"]["blocks"],
            "blocks of backups": status["backup"]["blocks"],
            "inodes": status["files"]["inodes"],
            "MiB resident": resident >> 10,
            "descriptors": len(list((process / "fd").iterdir())),
            "MiB of vault.db": (self.vault / "vault.db").stat().st_size >> 20,
        }

    def settled(self, wanted, backups=1 << 40):
        """Waits until the volume holds at most `wanted` blocks, because blocks are freed in the
        background. Blocks that a backup may name are freed after a newer backup; backups then take
        at most `backups` blocks.
        """
        end = time.monotonic() + 240  # some backups (-o backup=60)
        while time.monotonic() < end:
            state = self.state()
            if state["blocks"] <= wanted and state["blocks of backups"] <= backups:
                break
            time.sleep(1)
        return self.state()
