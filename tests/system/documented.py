"""Runs the commands of README.md and man/*: see documented.sh. Arguments: SOURCE, the folder to work
in, an address, and four ports of it."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

source, work = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
host, ports = sys.argv[3], sys.argv[4:8]
started = []  # processes
used = set()  # rules that some command has needed


def fail(what):
    sys.exit(f"FAILED: {what}")


# ---- which commands there are ------------------------------------------------------------------

PROGRAMS = r"(sudo|s3oramfs|s3oramfs-serverd|mkdir|cmake|echo|systemctl|tests/run|packaging/\S+)\b"


def of_readme():
    """Yields the lines of code blocks. The drawing, in a block of its own, begins with blanks."""
    inside = False
    for number, line in enumerate((source / "README.md").read_text().splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
        elif inside and line and not line.startswith(" "):
            yield f"README.md:{number}", line


def of_page(page):
    """Yields the lines of literal displays, together with their continuation lines."""
    inside, open_line = False, ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith((".Bd -literal", ".Ed")):
            inside = line.startswith(".Bd")
            continue
        if not inside:
            continue
        open_line += line.removeprefix("$ ")
        if open_line.endswith("\\e"):
            open_line = open_line[:-2]
            continue
        if re.match(PROGRAMS, open_line):
            yield f"{page.name}:{number}", open_line
        open_line = ""


# ---- the machine on which they run -------------------------------------------------------------


def environment(home):
    # A key file, which the first command makes, takes the place of a person at a terminal.
    return dict(os.environ, HOME=str(home), XDG_CONFIG_HOME=str(home / "config"),
                S3ORAMFS_KEYFILE=str(home / "key"))


def run(command, home, code=0):
    done = subprocess.run(["bash", "-c", command], cwd=home, env=environment(home), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if done.returncode != code:
        fail(f"{command}\nended with {done.returncode} instead of {code}:\n{done.stdout}")
    return done.stdout


def start(words, port):
    """Starts a server, and waits until it listens."""
    with open(work / f"port{port}.log", "a") as log:
        started.append(subprocess.Popen(words, stdout=log, stderr=log))
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with socket.socket() as trial:
            if trial.connect_ex((host, int(port))) == 0:
                return started[-1]
        time.sleep(0.05)
    fail(f"no server listens at {port}: {words}")


def stop(server):
    server.terminate()
    if server.wait(30) != 0:
        fail(f"a server ended with {server.returncode}")


def on_ports(command, first=0):
    """Replaces the addresses in the documents with the test's own."""
    for name, port in zip("abc", ports[first:first + 3]):
        command = command.replace(f"{name}.example:5760", f"{host}:{port}")
    return command


def key_in(text):
    return re.findall(r"(?<![\w-])[\w-]{43}(?![\w-])", text)[-1]


def make_key(store):
    store.mkdir(mode=0o700)
    return key_in(subprocess.run(["s3oramfs-serverd", "keygen", "--store", store], check=True,
                                 capture_output=True, text=True).stdout)


# ---- what some of them need ---------------------------------------------------------------------

joined = {}  # servers by number


def init_one_server(command, home):
    """KEY is that of a server. Without a terminal, init ends unless that server admits the client."""
    store = work / "ring"
    key = make_key(store)
    server = start(["s3oramfs-serverd", "--store", store, "--index", "1", "--listen",
                    f"{host}:{ports[3]}"], ports[3])
    command = on_ports(command, 3).replace("KEY", key)
    client = key_in(run(command, home, 15))
    run(f"s3oramfs-serverd authorize --store {store} {client}", home)
    run(command + " --wait 20", home)  # the server reads the keys a moment later
    stop(server)
    (home / "private.vault").rename(home / "ring.vault")  # the name is used again


def invite(command, home):
    """At a terminal invite waits; elsewhere it must be told to."""
    joined["waiting"] = subprocess.Popen(
        ["bash", "-c", on_ports(command) + " --wait 60"], cwd=home, env=environment(home),
        text=True, stdout=subprocess.PIPE)
    joined["strings"] = []
    for line in joined["waiting"].stdout:
        joined["strings"] += re.findall(r"join (s3oramfs1-\S+)", line)
        if len(joined["strings"]) == 3:
            return
    fail("invite shows no strings")


def serve(number):
    store = work / f"store{number}"
    joined[number] = start(["s3oramfs-serverd", "--config", store / "server.conf"],
                           ports[number - 1])


def join(command, home):
    """The stores are the test's own: root's would be the machine's. The third is a container's."""
    for number, string in enumerate(joined["strings"][:2], 1):
        run(command.replace("STRING", f"--store {work}/store{number} {string}"), home)
        serve(number)
    (work / "invitation3").write_text(joined["strings"][2])
    os.environ.update(STORE=str(work / "store3"), INVITATION=str(work / "invitation3"))
    joined[3] = start([source / "packaging/container/serve", "--cache", "64M"], ports[2])
    if joined["waiting"].wait(60) != 0:
        fail("invite does not end well")


def bench(command, home):
    run(command.split("#")[0] + "--size 1M --seconds 0.2", home)


def restore(command, home):
    (home / "private.vault").rename(home / "lost.vault")
    run(command, home)


def repair(command, home):
    stop(joined[2])
    for file in (work / "store2").iterdir():
        if file.name not in ("server.key", "clients", "peers", "server.conf"):
            file.unlink()
    serve(2)
    run(command, home)


def keygen(command, home):
    (home / "store").mkdir(mode=0o700)
    joined["own"] = key_in(run(command, home))


def peers(command, home):
    command = on_ports(command).replace("KEY1", joined["own"])
    for number in (2, 3):
        command = command.replace(f"KEY{number}", make_key(work / f"other{number}"))
    run(command, home)


def run_server(command, home):
    command = command.replace("~", str(home)).replace("0.0.0.0:5760", f"{host}:{ports[3]}")
    joined["alone"] = start(command.split(), ports[3])


def authorize(command, home):
    run(command.replace("KEY", make_key(work / "client")), home)
    stop(joined["alone"])


RULES = [
    # Not run, and why.
    (r"sudo packaging/quickstart", "builds everything once more; it is tried by hand before a release"),
    (r"tests/run", "is what runs this test"),
    (r"sudo packaging/install-dependencies build run", "tests/run begins with it"),
    (r"cmake -S . -B build", "tests/run configures and builds likewise"),
    (r"sudo cmake --install", "writes to /usr/local; tests/packages/run installs packages"),
    (r"s3oramfs deploy", "system_deploy runs it, with servers of ssh"),
    (r"echo .* > /etc/s3oramfs", "writes to /etc; tests/packages/run does it in a container"),
    (r"systemctl", "there is no systemd here; tests/packages/run does it in a container"),
    (r".*--store /var/lib/s3oramfs/", "writes to /var; tests/packages/run does it in a container"),
    # Run in a special way.
    (r"s3oramfs init .*--server", init_one_server),
    (r"s3oramfs invite", invite),
    (r"s3oramfs-serverd join", join),
    (r"s3oramfs bench", bench),
    (r"s3oramfs restore", restore),
    (r"s3oramfs repair", repair),
    (r"s3oramfs-serverd keygen", keygen),
    (r"s3oramfs-serverd peers", peers),
    (r"s3oramfs-serverd --store", run_server),
    (r"s3oramfs-serverd authorize", authorize),
]


def run_all(commands, home):
    home.mkdir()
    count = 0
    for where, command in commands:
        count += 1
        rule = next((rule for rule in RULES if re.match(rule[0], command)), None)
        begun = time.monotonic()
        if rule:
            used.add(rule[0])
        if rule is None:
            run(command, home)
        elif callable(rule[1]):
            rule[1](command, home)
        how = f"not run: {rule[1]}" if rule and isinstance(rule[1], str) else \
            f"{time.monotonic() - begun:.1f} s"
        print(f"{where}: {command.split('  ')[0]}  [{how}]", flush=True)
    return count


# ---- commands within sentences ------------------------------------------------------------------


def mentioned():
    for place, text in [("README.md", (source / "README.md").read_text())]:
        for command in re.findall(r"`((?:s3oramfs|s3oramfs-serverd) [^`]*)`", text):
            yield place, command
    for page in sorted((source / "man").iterdir()):
        for command in re.findall(r"^\.Ql ((?:s3oramfs|s3oramfs-serverd) .*?)(?: [.,;:])?$",
                                  page.read_text(), re.M):
            yield page.name, command


def check_mentioned(home):
    """Checks that the commands exist, and have the options that are named."""
    count = 0
    for where, command in mentioned():
        words = command.split()
        subcommand = [word for word in words[1:2] if word.isalpha()]
        help_text = run(" ".join([words[0], *subcommand, "--help"]), home)
        for word in words[1:]:
            if word.startswith("-") and not re.search(rf"^  (-.,)?{word}\b", help_text, re.M):
                fail(f"{where}: {command}: there is no {word}")
        count += 1
    if count < 10:
        fail(f"only {count} commands are found in sentences")


try:
    total = run_all(of_readme(), work / "home")
    for page in sorted((source / "man").iterdir()):
        total += run_all(of_page(page), work / f"home.{page.name}")
    check_mentioned(work / "home")
    for pattern, _ in RULES:
        if pattern not in used:
            fail(f"no command is like {pattern} any more")
    if total < 30:
        fail(f"only {total} commands are found")
finally:
    for process in started:
        process.terminate()
