#!/usr/bin/env python3
"""Breaks one rule of privacy or safety at a time, and shows that a named test fails then.

    run.py                    all mutants, in a copy of the tree, which is built first
    run.py NAME...            these mutants
    run.py --here BUILD ...   in this tree, whose build folder is BUILD; changes are undone
    run.py --list             prints the table of docs/mutants.md
    run.py --check            checks that every mutant still applies, and is in docs/mutants.md

If a rule can be broken and no test fails, the rule is not tested. Run this by hand or at night.
"""
import argparse
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the source tree stays as it is
from mutants import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]


def table():
    lines = ["| Mutant | The rule that it breaks | The test that has to fail |", "|---|---|---|"]
    for each in MUTANTS:
        lines.append(f"| `{each.name}` | {each.breaks} | `{each.program}`: `{each.tests}` |")
    return "\n".join(lines) + "\n"


def check():
    wrong = []
    for each in MUTANTS:
        count = (ROOT / each.file).read_text().count(each.old)
        if count != 1:
            wrong.append(f"{each.name}: its place is {count} times in {each.file}")
    if table() not in (ROOT / "docs/mutants.md").read_text():
        wrong.append("docs/mutants.md has another table: put in that of run.py --list")
    return wrong


def copy_and_configure(folder):
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("build*", ".git"), symlinks=True)
    build = folder / "build"
    subprocess.run(["cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DCMAKE_CXX_FLAGS=-O1"],
                   check=True, stdout=subprocess.DEVNULL)
    return tree, build


def make(build, program):
    return subprocess.run(["ninja", "-C", build, program], capture_output=True, text=True)


def commands_for(build, source):
    """The compile command of `source` alone, as a list without input and output."""
    for each in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(each["file"])
        holds = file == source or ("Unity" in file.parts and f'"{source}"' in file.read_text())
        if holds:
            words = shlex.split(each["command"])
            return words[:words.index("-o")]
    return None


def overlay(build, source, program, folder):
    """Compiles `source` alone and links `program` with it first, so that other definitions of the
    same functions give way. This is much faster than building a batch of files again. Returns
    the program, or None. (A function that was inlined elsewhere keeps its old body there.)"""
    compiler = commands_for(build, source)
    link = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", f"tests/{program}"],
                          capture_output=True, text=True).stdout
    words = shlex.split(link.strip().removeprefix(": && ").removesuffix(" && :"))
    if not compiler or "-o" not in words:
        return None
    made, result = folder / "mutant.o", folder / program
    words[words.index("-o") + 1] = str(result)
    words[1:1] = ["-Wl,-z,muldefs", str(made)]
    for command in (compiler + ["-Wno-error", "-o", str(made), "-c", str(source)], words):
        if subprocess.run(command, cwd=build, capture_output=True).returncode != 0:
            return None
    return result


def run(program, mutant):
    """Returns the outcome of the mutant's tests: passed, failed or none (they did not run)."""
    try:
        tests = subprocess.run([program, f"--gtest_filter={mutant.tests}"],
                               capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "failed"  # something that should have ended goes on
    if "[==========] Running 0 tests" in tests.stdout or "[ RUN" not in tests.stdout:
        return "none"
    if tests.returncode == 0 and "[  PASSED  ]" in tests.stdout:
        return "passed"
    return "failed"


def unfit(build, chosen):
    """Returns, by mutant, the outcomes of tests that fail without the mutant, and so prove nothing."""
    built = {each.program: make(build, each.program).returncode == 0 for each in chosen}
    outcomes = {}
    for each in chosen:
        key = (each.program, each.tests)
        if key not in outcomes:
            outcomes[key] = (run(build / "tests" / each.program, each) if built[each.program]
                             else "does not build")
    return {each.name: outcomes[each.program, each.tests] for each in chosen
            if outcomes[each.program, each.tests] != "passed"}


def outcome(tree, build, mutant):
    """Returns whether the mutant dies, and a text about its outcome."""
    source = tree / mutant.file
    content = source.read_text()
    if content.count(mutant.old) != 1:
        return False, f"its place is not once in {mutant.file}"
    times = source.stat()
    source.write_text(content.replace(mutant.old, mutant.new))
    try:
        with tempfile.TemporaryDirectory(prefix="mutant.") as folder:
            quick = overlay(build, source, mutant.program, pathlib.Path(folder))
            if quick and run(quick, mutant) == "failed":
                return True, "dies"
        built = make(build, mutant.program)  # including everything that may have inlined it
        if built.returncode != 0:
            return False, f"does not build: {built.stdout[-1500:]}"
        times = None
        after = run(build / "tests" / mutant.program, mutant)
    finally:
        source.write_text(content)
        if times:  # nothing else was built with the mutant
            os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    return after == "failed", "dies" if after == "failed" else "survives: no test misses the rule"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", metavar="BUILD", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.list:
        print(table(), end="")
        return 0
    if options.check:
        wrong = check()
        print("\n".join(wrong) if wrong else f"{len(MUTANTS)} mutants apply")
        return 1 if wrong else 0
    unknown = set(options.names) - {each.name for each in MUTANTS}
    if unknown:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    chosen = [each for each in MUTANTS if not options.names or each.name in options.names]
    with tempfile.TemporaryDirectory(prefix="mutants.") as folder:
        tree, build = (ROOT, options.here) if options.here else copy_and_configure(
            pathlib.Path(folder))
        alive = 0
        broken = unfit(build, chosen)
        for each in chosen:
            if each.name in broken:
                dies, said = False, f"without it the outcome of its test is: {broken[each.name]}"
            else:
                dies, said = outcome(tree, build, each)
            alive += not dies
            print(f"{each.name}: {said} ({each.program} {each.tests})", flush=True)
    print(f"{len(chosen) - alive} of {len(chosen)} mutants die")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
