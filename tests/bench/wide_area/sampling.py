"""Samples what the processes do while nothing is on its way on any link.

Every few milliseconds, at random times, it asks the relay whether anything is on its way. If not,
the states of all threads (/proc/PID/task/TID/stat) say what is going on:
  server  a thread of a server computes, or would if there were a free core
  client  or else one of the client does
  disk    or else a thread of any of them waits for a disk (state D: fdatasync, or a read)
  other   none of these: processes wake each other, or wait for a timer
"""

import os
import pathlib
import random
import threading

PAUSE = 0.005  # seconds in the mean


class Sampler:
    """Use as a context manager around what is to be sampled."""

    def __init__(self, relay, client, servers):
        self.relay = relay
        self.counts = dict.fromkeys(("server", "client", "disk", "other"), 0)
        self._files = {"client": self._open([client]), "server": self._open(servers)}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        for files in self._files.values():
            for file in files:
                os.close(file)

    @staticmethod
    def _open(pids):
        tasks = [task for pid in pids for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
        return [os.open(task / "stat", os.O_RDONLY) for task in tasks]

    def _states(self, who):
        for file in self._files[who]:
            try:
                text = os.pread(file, 512, 0)
            except ProcessLookupError:  # the thread has ended
                continue
            yield text.rpartition(b") ")[2][:1]

    def _run(self):
        while not self._stop.wait(random.uniform(0, 2 * PAUSE)):
            if not any(self.relay.command("stats")["on_way"].values()):
                self.counts[self._now()] += 1

    def _now(self):
        server, client = set(self._states("server")), set(self._states("client"))
        if b"R" in server:
            return "server"
        if b"R" in client:
            return "client"
        return "disk" if b"D" in server | client else "other"
