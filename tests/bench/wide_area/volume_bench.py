"""Runs volume_bench as a process. Phases are requested and answered one at a time."""

import json
import signal
import subprocess

UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}


def size_of(text):
    return int(text[:-1]) << UNITS[text[-1]] if text[-1] in UNITS else int(text)


def height_for(blocks, evict_every):
    """Returns the height of a tree with room for the blocks: A 2^(H-1) blocks fit."""
    height = 1
    while evict_every << (height - 1) < blocks:
        height += 1
    return height


class VolumeBench:
    """Use as a context manager: at its end no process is left."""

    def __init__(self, program, vault):
        self.process = subprocess.Popen(
            [program, "--exit-with-parent", vault],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        try:
            self.volume = self._answer()
        except BaseException:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.close()
        finally:
            self.kill()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"volume_bench ended with code {self.process.wait()}")
        return json.loads(line)

    def phase(self, kind, count, pace=1, limit=0):
        """pace: accesses at once, or the rate of a paced phase; limit: seconds (0: none)."""
        signal.alarm(limit)
        try:
            self.process.stdin.write(f"{kind} {count} {pace}\n")
            self.process.stdin.flush()
            return self._answer()
        finally:
            signal.alarm(0)

    def close(self):
        """Waits until the process has committed and ended."""
        self.process.stdin.close()
        if self.process.wait(timeout=60) != 0:
            raise RuntimeError(f"volume_bench ended with code {self.process.returncode}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
