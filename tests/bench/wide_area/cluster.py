"""Runs three s3oramfs-serverd, or one, with or without the relay, and makes a vault on them.
Follows the README.

Each process is in a group of its own, so that on Ctrl-C `run` ends them in order.
"""

import os
import pathlib
import re
import signal
import subprocess
import time

import network

PATIENCE = 120  # seconds, for a server to listen and for init


def _say(*command):
    return subprocess.run(
        [str(part) for part in command], check=True, capture_output=True, text=True
    ).stdout


class Cluster:
    """Use as a context manager: at its end no process is left. The links are neither delayed nor
    limited until shape(), or are shaped from the start if init `measures` them. Without rates there
    is no relay, and processes connect directly. `said` is the output of init; `metrics` are the
    ports of the servers' metrics."""

    def __init__(
        self, programs, directory, rates, init_options, numbers=network.SERVERS, measures=False
    ):
        self.programs = pathlib.Path(programs)
        self.directory = pathlib.Path(directory)
        self.vault = self.directory / "vault"
        self.numbers = numbers
        self.measures = measures
        self.servers, self.relay = {}, None
        try:
            self._start(rates, init_options)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def shape(self):
        self.relay.command("shape")

    def store(self, server):
        return self.directory / f"server-{server}"

    def _start(self, rates, init_options):
        serverd = self.programs / "s3oramfs-serverd"
        all_servers = self.numbers
        keys = {s: _say(serverd, "keygen", "--store", self.store(s)).strip() for s in all_servers}
        ports = network.free_ports(2 * len(all_servers))
        listen = dict(zip(all_servers, ports))
        self.metrics = dict(zip(all_servers, ports[len(all_servers) :]))
        targets = {f"user-{s}": listen[s] for s in all_servers}
        # Each server connects to every other one.
        targets |= {f"{a}-{b}": listen[b] for a in all_servers for b in all_servers if a != b}
        port = targets
        if rates:
            self.relay = network.Relay(self.programs / "wan_relay", rates, targets)
            if not self.measures:
                self.relay.command("open")
            port = self.relay.port
        for server in all_servers:
            way = {s: port[f"{server}-{s}"] if s != server else listen[s] for s in keys}
            peers = [f"{s}=127.0.0.1:{way[s]},{keys[s]}" for s in keys]
            if len(peers) > 1:
                _say(serverd, "peers", "--store", self.store(server), *peers)
            self._start_server(serverd, server, listen[server])
        where = [f"--server=127.0.0.1:{port[f'user-{s}']},{keys[s]}" for s in keys]
        if not self.measures:  # measured lines could choose other numbers now and then
            where += ["--line=10000/10000", "--between=10000"]
        self.said = self._make_vault(serverd, [*where, *init_options])

    def _start_server(self, serverd, server, port):
        ready, report = os.pipe()
        with open(self.directory / f"server-{server}.log", "wb") as log:
            # fmt: off
            self.servers[server] = subprocess.Popen(
                [serverd, "--store", self.store(server), "--index", str(server),
                 "--listen", f"127.0.0.1:{port}", "--ready-fd", str(report),
                 "--metrics", f"127.0.0.1:{self.metrics[server]}", "--exit-with-parent"],
                pass_fds=[report], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                process_group=0)
            # fmt: on
        os.close(report)
        with os.fdopen(ready, "rb") as pipe:
            if not pipe.read(1):
                raise RuntimeError((self.directory / f"server-{server}.log").read_text())

    def _make_vault(self, serverd, options):
        """init waits until the servers admit the key that it shows. Returns its output."""
        command = [self.programs / "s3oramfs", "init", "--no-passphrase", "--wait", str(PATIENCE)]
        log = self.directory / "init.log"
        with open(log, "wb") as out:
            making = subprocess.Popen(
                [*command, *options, self.vault],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        try:
            admitted = False
            while making.poll() is None:
                shown = re.search(r"key is\s+([\w-]{43})\n", log.read_text())
                if shown and not admitted:
                    for server, process in self.servers.items():
                        _say(serverd, "authorize", "--store", self.store(server), shown[1])
                        process.send_signal(signal.SIGHUP)
                    admitted = True
                time.sleep(0.05)
        finally:
            if making.poll() is None:
                making.kill()
                making.wait()
        if making.returncode != 0:
            raise RuntimeError(f"s3oramfs init: {log.read_text()}")
        return log.read_text()

    def close(self):
        for process in self.servers.values():
            process.terminate()
        for process in self.servers.values():
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self.relay:
            self.relay.close()
