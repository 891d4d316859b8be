"""The vaults that the damage run copies, and the commands on a copy."""
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import damage_tree

INIT = ["--block-size", "4K", "--expect", "16M", "--bucket-size", "16", "--evict-every", "20"]
TIMEOUT = int(os.environ.get("PATIENCE", 60))  # s; a command that takes longer hangs
PORTS = {1: 21971, 2: 21972, 3: 21973}
NOTHING = 99  # in place of the exit code of a command that was ended because it hung


class Vault:
    """A vault in `folder`, with its mount and, if it is a remote one, its servers."""

    def __init__(self, programs, folder, remote):
        self.programs, self.folder, self.remote = programs, folder, remote
        self.vault, self.root = folder / "vault", folder / "mnt"
        self.servers, self.said, self.hung = {}, [], False
        # Each folder has an address of its own, so that two runs do not collide.
        digest = hashlib.sha256(os.fsencode(folder)).digest()
        self.host = f"127.{digest[0]}.{digest[1]}.{1 + digest[2] % 250}"
        self.credential = ["--keyfile", str(folder / "keyfile")] if remote else []

    def run(self, *words, program="s3oramfs", timeout=TIMEOUT):
        """Runs a command. Returns (exit code, output)."""
        command = [str(self.programs / program), *map(str, words)]
        try:
            ended = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout,
                stdin=subprocess.DEVNULL, text=True, errors="replace",
            )
            code, said = ended.returncode, ended.stdout.strip()
        except subprocess.TimeoutExpired as expired:
            self.hung = True
            code, said = NOTHING, f"no end within {timeout} s: {expired.stdout!r}"
        self.said.append(f"$ {' '.join(map(str, words))}  [{code}]\n{said}")
        return code, said

    def init(self):
        if not self.remote:
            code, said = self.run("init", "--local", "--no-passphrase", *INIT, self.vault)
            assert code == 0, said
            return
        keys, peers, addresses = {}, [], []
        for number, port in PORTS.items():
            store = self.folder / f"server{number}"
            _, said = self.run("keygen", "--store", store, program="s3oramfs-serverd")
            keys[number] = re.findall(r"[A-Za-z0-9_-]{43}", said)[-1]
            addresses += ["--server", f"{self.host}:{port},{keys[number]}"]
            peers.append(f"{number}={self.host}:{port},{keys[number]}")
        for number, port in PORTS.items():
            store = self.folder / f"server{number}"
            self.run("peers", "--store", store, *peers, program="s3oramfs-serverd")
            (self.folder / f"server{number}.conf").write_text(
                f'store = "{store}"\nlisten = "{self.host}:{port}"\nindex = {number}\n'
                'cache = "64M"\nlog-level = "info"\n'
            )
        self.start_servers()
        arguments = ["--wait", "0", *self.credential, *INIT, *addresses, self.vault]
        _, said = self.run("init", *arguments)
        client = re.findall(r"[A-Za-z0-9_-]{43}", said)[-1]
        self.stop_servers()
        for number in PORTS:
            self.run("authorize", "--store", self.folder / f"server{number}", client,
                     program="s3oramfs-serverd")
        self.start_servers()
        code, said = self.run("init", *arguments)
        assert code == 0, said

    def start_servers(self):
        """Starts the servers. Some may fail to start; their logs say why."""
        for number in PORTS if self.remote else ():
            with open(self.log_of(number), "ab") as log:
                self.servers[number] = subprocess.Popen(
                    [self.programs / "s3oramfs-serverd", "--config", self.folder / f"server{number}.conf"],
                    stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                )
        for number, server in self.servers.items():
            end = time.monotonic() + 20
            while server.poll() is None and time.monotonic() < end:
                try:
                    socket.create_connection((self.host, PORTS[number]), 1).close()
                    break
                except OSError:
                    time.sleep(0.02)

    def stop_servers(self, how=signal.SIGTERM):
        for server in self.servers.values():
            server.send_signal(how)
        for server in self.servers.values():
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        self.servers = {}

    def log_of(self, number):
        if self.remote:
            return self.folder / f"server{number}.log"
        return self.vault / "run" / f"server-{number}.log"

    def logs(self):
        texts = [self.vault / "run" / "fused.log", *(self.log_of(number) for number in PORTS)]
        return {path.name: path.read_text(errors="replace") for path in texts if path.exists()}

    def store(self, number):
        return self.folder / f"server{number}" if self.remote else self.vault / "servers" / str(number)

    def mount(self):
        self.root.mkdir(exist_ok=True)
        return self.run("mount", "--timeout", "8", *self.credential, self.vault, self.root)

    def umount(self):
        return self.run("umount", self.vault)

    def is_mounted(self):
        return f" {self.root} " in pathlib.Path("/proc/self/mountinfo").read_text()

    def processes(self):
        """Yields the daemon and the servers of this copy."""
        mine = os.fsencode(str(self.folder) + "/")
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if mine in words and words.split(b"\0")[0].startswith(os.fsencode(self.programs)):
                yield int(process.name)

    def kill(self):
        """Ends everything as a power cut would, except that the kernel keeps what it has."""
        for process in list(self.processes()):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for server in self.servers.values():
            server.wait()
        self.servers = {}
        if self.is_mounted():
            subprocess.run(["umount", "--lazy", self.root], check=False, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while list(self.processes()) and time.monotonic() < end:
            time.sleep(0.02)

    def walk(self):
        """Runs damage_tree.walk() in its own process. Returns None if it takes much too long."""
        try:
            ended = subprocess.run(
                [sys.executable, pathlib.Path(__file__).with_name("damage"), "--walk", self.root],
                capture_output=True, timeout=TIMEOUT, text=True, check=True,
            )
        except subprocess.TimeoutExpired:
            return None
        return json.loads(ended.stdout)


class Scenario:
    def __init__(self, name, remote, killed):
        self.name, self.remote, self.killed = name, remote, killed
        self.alone = remote

    def may_match(self, pattern):
        """Whether the pattern may match one of this scenario's files."""
        first, slash, _ = pattern.partition("/")
        return not slash or "*" in first or fnmatch.fnmatch(self.name, first)

    def folder(self, work):
        return work / "masters" / self.name

    def files(self, work):
        """Returns the files that may be damaged, by their names in the folder."""
        folder = self.folder(work)
        found = []
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if not path.is_file() or path.stat().st_size == 0 or "/run/" in name:
                continue
            if name in ("keyfile", "truth.json") or name.endswith(".log"):
                continue
            if name.endswith("-ballast") and (self.remote or self.killed):
                continue
            found.append(name)
        return found

    def weight(self, file):
        name = os.path.basename(file)
        return 8 if name in ("control.db", "control.db-wal", "vault.db", "vault.db-wal") else (
            6 if name in ("slots", "vault.json", "recovery") else 3 if name == "vault.key" else 1
        )


SCENARIOS = [
    Scenario("local", remote=False, killed=False),
    Scenario("killed", remote=False, killed=True),
    Scenario("remote", remote=True, killed=False),
]


def copy_vault(source, target):
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["cp", "-a", "--sparse=always", "--reflink=auto", source, target], check=True,
        stderr=subprocess.PIPE,
    )


def _must(result):
    code, said = result
    if code != 0:
        sys.exit(f"the vault cannot be made: {said}")


def _make(programs, work, scenario):
    folder = work / "remote" if scenario.remote else work / f"making-{scenario.name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    vault = Vault(programs, folder, scenario.remote)
    vault.init()
    _must(vault.mount())
    damage_tree.plant(vault.root)
    _must(vault.umount())
    vault.stop_servers()
    copy_vault(folder, work / "earlier" / scenario.name)
    vault.start_servers()
    _must(vault.mount())
    damage_tree.change(vault.root)
    _must(vault.run("backup", vault.vault))
    truth = vault.walk()
    if truth is None:
        sys.exit(f"the vault cannot be read within {TIMEOUT} s")
    if errors := damage_tree.compare(truth, truth)[1]:
        sys.exit(f"the vault cannot be read: {errors}")
    if scenario.killed:
        os.sync()
        descriptor = os.open(vault.root, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        vault.kill()
    else:
        _must(vault.umount())
    vault.stop_servers()
    if scenario.remote:
        _must(vault.run("backup", "--keys", folder / "recovery", vault.vault))
    (folder / "truth.json").write_text(json.dumps(truth))
    vault.root.rmdir()
    copy_vault(folder, scenario.folder(work))
    shutil.rmtree(folder)


def make_vaults(programs, work, scenarios):
    """Makes the vaults that do not exist yet."""
    for scenario in scenarios:
        if not (scenario.folder(work) / "truth.json").exists():
            print(f"making the {scenario.name} vault", flush=True)
            _make(programs, work, scenario)
