#!/usr/bin/env python3
"""upward_includes.py BUILD SOURCE: plants, in every library of the product, an include of each
header that it must not see, and requires that the compiler does not find it.

The folders that each folder may see are listed here a second time, apart from CMakeLists.txt, so that
a link that is added by mistake fails this test. A header that must be visible is planted too, and the
compiler must find it; otherwise "not found" would prove nothing."""

import json
import os
import subprocess
import sys
import tempfile

# For each library: a source of its folder, and the headers that it may not see. Folders are in the
# order in which they build on each other; a folder sees none that comes after it.
ORDER = [
    ("s3o_base", "oramcore/base"),
    ("s3o_db", "oramcore/db"),
    ("s3o_field", "oramcore/field"),
    ("s3o_sharing", "oramcore/sharing"),
    ("s3o_net", "oramcore/net"),
    ("s3o_oram", "oramcore/oram"),
    ("s3o_protocol", "oramcore/protocol"),
    ("s3o_client", "oramcore/client"),
    ("s3o_s3oram", "oramcore/schemes/s3oram"),
    ("s3o_vault", "oramcore/vault"),
    ("s3o_zmq", "oramcore/zmq"),
    ("s3o_volume", "oramcore/volume"),
    ("s3o_serverd_store", "serverd/store"),
    ("s3o_serverd_oram", "serverd/oram"),
    ("s3o_serverd_s3oram", "serverd/s3oram"),
    ("s3o_fused_tables", "fused/tables"),
    ("s3o_fused_cache", "fused/cache"),
    ("s3o_fused_backup", "fused/backup"),
    ("s3o_fused_files", "fused/files"),
    ("s3o_fused_kernel", "fused/kernel"),
    ("s3o_fused_daemon", "fused/daemon"),
]
# Folders beside one of those above, which come after none of the others.
BESIDE = [
    ("s3o_service", "oramcore/service"),
    ("s3o_mirror_protocol", "oramcore/schemes/mirror/protocol"),
    ("s3o_mirror_client", "oramcore/schemes/mirror/client"),
    ("s3o_ring_protocol", "oramcore/schemes/ring/protocol"),
    ("s3o_ring_client", "oramcore/schemes/ring/client"),
    ("s3o_schemes", "oramcore/schemes"),
    ("s3o_serverd_mirror", "serverd/mirror"),
    ("s3o_serverd_ring", "serverd/ring"),
    ("s3o_fused_options", "fused/options"),
]
# Branches that must not see each other at all: a server has no client and no vault, and the code that
# the commands share with the daemon has no server.
APART = {
    "s3o_serverd_store": ["oramcore/client", "oramcore/vault", "oramcore/volume"],
    "s3o_serverd_oram": ["oramcore/client", "oramcore/vault", "oramcore/volume"],
    "s3o_serverd_s3oram": ["oramcore/client", "oramcore/schemes/mirror/protocol", "serverd/mirror"],
    "s3o_serverd_mirror": ["oramcore/client", "oramcore/schemes/s3oram", "serverd/s3oram"],
    "s3o_serverd_ring": ["oramcore/client", "oramcore/schemes/ring/client", "oramcore/vault",
                         "oramcore/schemes/mirror/protocol", "serverd/mirror", "serverd/s3oram"],
    "s3o_s3oram": ["oramcore/schemes/mirror/client", "oramcore/schemes/mirror/protocol",
                   "oramcore/schemes/ring/protocol", "oramcore/schemes/ring/client"],
    "s3o_mirror_protocol": ["oramcore/client", "oramcore/schemes/mirror/client", "serverd/store"],
    "s3o_mirror_client": ["oramcore/schemes/s3oram", "oramcore/schemes/ring/protocol",
                          "oramcore/vault", "serverd/mirror"],
    "s3o_ring_protocol": ["oramcore/client", "oramcore/schemes/ring/client", "serverd/store"],
    "s3o_ring_client": ["oramcore/schemes/s3oram", "oramcore/schemes/mirror/protocol",
                        "oramcore/vault", "serverd/ring"],
    "s3o_schemes": ["oramcore/vault", "oramcore/volume", "oramcore/zmq", "serverd/store"],
    "s3o_service": ["oramcore/db", "oramcore/net", "oramcore/vault"],
    "s3o_fused_options": ["oramcore/client", "oramcore/volume", "fused/tables"],
    "s3o_vault": ["oramcore/zmq", "oramcore/client", "oramcore/schemes/s3oram"],
    "s3o_fused_tables": ["oramcore/zmq", "oramcore/volume", "serverd/s3oram"],
}


def command_of(commands, target):
    """The compiler's arguments for a file of the target, without its input and output."""
    for entry in commands:
        if f"/{target}.dir/" not in entry["command"]:
            continue
        words, kept, skip = entry["command"].split(), [], False
        for word in words:
            if skip:
                skip = False
            elif word in ("-o", "-c", "-include"):
                skip = True  # and its argument; a precompiled header sees what its target sees
            elif word != "-Winvalid-pch":
                kept.append(word)
        return kept
    return None


def header_in(source, folder):
    names = sorted(n for n in os.listdir(os.path.join(source, folder)) if n.endswith(".h"))
    return f"{folder}/{names[0]}" if names else None


def finds(command, header, directory):
    planted = os.path.join(directory, "planted.cc")
    with open(planted, "w", encoding="utf-8") as file:
        file.write(f'#include "{header}"\n')
    # -M: only the preprocessor, which stops at the first missing header.
    run = subprocess.run(command + ["-M", planted], cwd=directory, capture_output=True, text=True)
    if run.returncode == 0:
        return True
    if f"{header}: No such file" in run.stderr or f"'{header}' file not found" in run.stderr:
        return False
    sys.exit(f"{header} could not be planted: {run.stderr}")


def main():
    build, source = sys.argv[1:]
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    planted = failures = 0
    with tempfile.TemporaryDirectory() as directory:
        for at, (target, folder) in enumerate(ORDER + BESIDE):
            command = command_of(commands, target)
            if command is None:
                print(f"{target}: compiles no file")
                failures += target != "s3o_oram"  # only headers
                continue
            if not finds(command, header_in(source, folder), directory):
                print(f"{target} does not see its own {folder}")
                failures += 1
            for other in [f for _, f in ORDER[at + 1:]] + APART.get(target, []):
                planted += 1
                if finds(command, header_in(source, other), directory):
                    print(f"{target} ({folder}) sees {other}, which builds upon it")
                    failures += 1
    print(f"{planted} upward includes planted, {failures} failures")
    sys.exit(1 if failures or planted < len(ORDER) else 0)


main()
