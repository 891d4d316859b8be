"""Checks the files of packaging/ that other programs read: those programs must accept them, and the
commands in them must exist. Usage: packaging_files.py SOURCE BIN"""

import json
import pathlib
import re
import subprocess
import sys

import yaml

source, bin_folder = map(pathlib.Path, sys.argv[1:3])
packaging = source / "packaging"
wrong = []


def check(good, what):
    if not good:
        wrong.append(what)


def text_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check_command(words, where):
    """Requires that the command's subcommand and options are in the program's help."""
    program = bin_folder / words[0]
    check(program.exists(), f"{where}: {words[0]} is no program of ours")
    subcommand = [word for word in words[1:2] if word.isalpha()]
    help_text = text_of(program, *subcommand, "--help")
    for word in words[1:]:
        if word.startswith("--"):
            check(re.search(rf"^  (-., ?)?{word}\b", help_text, re.M), f"{where}: no option {word}")


def needed_packages():
    """Returns the packages of the libraries that the server itself loads; these bring the others."""
    names = re.findall(r"NEEDED\s+(\S+)", text_of("objdump", "-p", bin_folder / "s3oramfs-serverd"))
    packages = set()
    for line in text_of("ldd", bin_folder / "s3oramfs-serverd").splitlines():
        fields = line.split()
        if fields[0] in names and len(fields) > 2:
            path = pathlib.Path(fields[2])
            owner = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True)
            if owner.returncode != 0:  # known by its place below /usr
                owner = subprocess.run(["dpkg", "-S", f"/usr{path}"], capture_output=True, text=True)
            packages.add(owner.stdout.split(":")[0])
    return packages - {"libc6", "libgcc-s1", "libstdc++6"}  # part of every Debian


def check_libraries():
    needed = needed_packages()
    check(len(needed) > 4, f"only these libraries are found: {needed}")
    for file in ["packaging/container/Containerfile", "cli/deploy.cc"]:
        lists = re.findall(r"libfmt9[a-z0-9 .+-]*", (source / file).read_text())
        check(len(lists) == 1, f"{file}: it has no list of libraries")
        listed = set(" ".join(lists).split())
        check(listed == needed, f"{file}: installs {sorted(listed)}, and needed is {sorted(needed)}")


def check_container():
    lines = (packaging / "container/Containerfile").read_text().replace("\\\n", " ").splitlines()
    instructions = [line.split(None, 1) for line in lines if line and line[0] != "#"]
    known = "FROM COPY RUN USER VOLUME STOPSIGNAL HEALTHCHECK ENTRYPOINT".split()
    for name, arguments in instructions:
        check(name in known, f"Containerfile: {name} is no instruction")
        if name == "COPY" and "--from" not in arguments:
            check((source / arguments.split()[0]).exists(), f"Containerfile: COPY {arguments}")
        if name == "COPY" and "--from" in arguments:
            check((bin_folder / arguments.split()[1].split("/")[-1]).exists(),
                  f"Containerfile: COPY {arguments}")
        if name == "RUN" and arguments.startswith("/source/"):
            check((source / arguments.split()[0][len("/source/"):]).exists(),
                  f"Containerfile: RUN {arguments}")
        if name == "HEALTHCHECK":
            check_command(arguments.split("CMD ")[1].split("|")[0].split(), "Containerfile")
    entry = json.loads(dict(instructions)["ENTRYPOINT"])
    check(entry == ["/usr/local/bin/serve"], "Containerfile: ENTRYPOINT")
    subprocess.run(["sh", "-n", packaging / "container/serve"], check=True)
    for line in (packaging / "container/serve").read_text().splitlines():
        if "s3oramfs-serverd" in line and not line.lstrip().startswith("#"):
            check_command(line[line.index("s3oramfs-serverd"):].split(), "serve")


def check_compose():
    compose = yaml.safe_load((packaging / "container/compose.yaml").read_text())
    services = compose["services"]
    check(len(services) == 3, "compose.yaml: not three servers")
    taken = set()
    for name, service in services.items():
        check_command(["s3oramfs-serverd", *service["command"]], f"compose.yaml: {name}")
        volume = service["volumes"][0].split(":")[0]
        secret = service["secrets"][0]
        check(volume in compose["volumes"], f"compose.yaml: {name}: no volume {volume}")
        check(secret["source"] in compose["secrets"], f"compose.yaml: {name}: no secret {secret}")
        check(secret["target"] == "invitation", f"compose.yaml: {name}: serve reads another file")
        check(not {volume, secret["source"]} & taken, f"compose.yaml: {name} shares with another")
        taken |= {volume, secret["source"]}


def check_ansible():
    role = packaging / "ansible/roles/s3oramfs_server"
    defaults = yaml.safe_load((role / "defaults/main.yaml").read_text())
    yaml.safe_load((role / "meta/main.yaml").read_text())
    play = yaml.safe_load((packaging / "ansible/servers.yaml").read_text())
    check((role.parent / play[0]["roles"][0]["role"]).is_dir(), "servers.yaml: no such role")
    tasks_text = (role / "tasks/main.yaml").read_text()
    for variable in re.findall(r"{{ (\w+) }}", tasks_text):
        check(variable in defaults, f"tasks: {variable} has no default")
    modules = {"copy", "apt", "command", "systemd", "debug"}
    for task in yaml.safe_load(tasks_text):
        names = [key for key in task if key.startswith("ansible.builtin.")]
        check("name" in task and len(names) == 1, f"tasks: {task}")
        check(names[0].split(".")[2] in modules, f"tasks: {names[0]}")
        if names[0].endswith(".command"):
            check_command(task[names[0]]["argv"], "tasks")


check_libraries()
check_container()
check_compose()
check_ansible()
if wrong:
    sys.exit("\n".join(wrong))
