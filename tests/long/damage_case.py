"""One case of the damage run: uses a damaged copy, and names the outcome."""
import hashlib
import json
import os
import re
import shlex
import shutil
import threading
import time

import damage_bytes
import damage_tree
from damage_vaults import TIMEOUT, Vault, copy_vault

ADVICE = re.compile(
    r"\b(run|check that|puts?|bring|give|use|restore|list|set|makes?|start|remove|chmod|move|did you mean)\b"
)
MENDED = re.compile(
    r"damaged|healed|mended|lost|corrupt|recreated|rebuilt|does not (fit|match)|is not as"
)
CRASHED = re.compile(
    r"by signal|\(signal|SIG(SEGV|ABRT|BUS|FPE|ILL)|terminate called|[Aa]ssertion|Sanitizer|core dumped"
)
UNHEALTHY = 24
EVERYTHING = ""  # in place of a path: nothing can be read
CHANGED = ("", "written", "written/new", "large/b")  # by write()
SLOW = f"walking the tree takes longer than {TIMEOUT} s"
SAID_WITHIN = 6  # seconds until status must know what went wrong


def _text(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Case:
    def __init__(self, programs, work, scenario, file, dice, verbose):
        self.programs, self.work, self.scenario, self.file = programs, work, scenario, file
        self.dice, self.verbose = dice, verbose
        place = "remote" if scenario.remote else f"run-{threading.get_ident()}"
        self.vault = Vault(programs, work / place, scenario.remote)
        self.truth = json.loads((scenario.folder(work) / "truth.json").read_text())
        self.notes = []
        self.written = {}  # path: content that was acknowledged

    def run(self):
        vault = self.vault
        copy_vault(self.scenario.folder(self.work), vault.folder)
        earlier = self.work / "earlier" / self.scenario.name / self.file
        kind, what = damage_bytes.damage(
            vault.folder / self.file, self.dice, earlier if earlier.exists() else None
        )
        result = {"target": f"{self.scenario.name}/{self.file}", "kind": kind, "damage": what}
        try:
            outcome, why = self.use_as_people_do()
            if outcome not in ("harmless", "healed", "CRASH", "HANG"):
                lost = self.follow_advice()
                if lost and outcome != "SILENT":
                    outcome, why = "LOST", f"{lost} (first {outcome}: {why})"
                elif lost:
                    why += f"; and LOST: {lost}"
        finally:
            vault.kill()
        if self.verbose:
            for said in vault.said:
                print(said)
            for name, log in vault.logs().items():
                print(f"--- {name}\n{log}")
        else:
            shutil.rmtree(vault.folder, ignore_errors=True)
        return result | {"outcome": outcome, "why": why, "notes": [note[:500] for note in self.notes]}

    # ---- using the copy

    def use_as_people_do(self):
        """Returns (outcome, why)."""
        vault = self.vault
        vault.start_servers()
        if self.file == "recovery":  # it is read only when the vault is lost
            shutil.rmtree(vault.vault)
            code, said = self.restore_from_recovery()
            if code != 0:
                return self.judge_refusal(said)
        code, said = vault.mount()
        if code != 0:
            return self.judge_refusal(said)
        silent, errors = self.look(self.truth)
        if SLOW not in errors:
            errors += self.write()
        code, health = self.health(bool(errors or silent))
        if SLOW in errors:  # each access fails at its deadline, so the other steps would take hours
            vault.kill()
            vault.hung = code != UNHEALTHY
            return self.judge(silent, errors, code == UNHEALTHY, False)
        said_so = code == UNHEALTHY
        if said_so:
            self.notes.append(f"status: {health}")
        code, words = vault.umount()
        if code != 0:
            errors.append(f"umount: {words}")
            vault.run("umount", "--force", vault.vault)
        # The mount may have caused more damage while it read and wrote.
        code, words = vault.run("fsck", *vault.credential, vault.vault)
        fsck_finds = code != 0
        if fsck_finds:
            self.notes.append(f"fsck: {words}")
        code, words = vault.mount()
        if code != 0:
            errors.append(f"the second mount: {words}")
        else:
            more = self.look(self.truth_after())
            silent += more[0]
            errors += more[1] + self.check_written(silent)
            if more[1] and not said_so:
                said_so = self.health(True)[0] == UNHEALTHY
            vault.umount()
        return self.judge(silent, errors, said_so, fsck_finds)

    def look(self, truth):
        """Returns (wrong without an error, errors)."""
        found = self.vault.walk()
        if found is None:
            return [], [SLOW]
        if truth is not self.truth:
            found = {path: record for path, record in found.items()
                     if path not in CHANGED or isinstance(record, str)}
        return damage_tree.compare(truth, found)

    def truth_after(self):
        """Returns the truth without what this case has written."""
        return {path: record for path, record in self.truth.items() if path not in CHANGED}

    def write(self):
        """Writes and syncs a new file and a part of another. Returns the errors."""
        errors = []

        def attempt(name, at, data, flags):
            path = self.vault.root / name
            try:
                path.parent.mkdir(exist_ok=True)
                descriptor = os.open(path, os.O_RDWR | flags, 0o644)
                try:
                    os.pwrite(descriptor, data, at)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                self.written[name] = _text(path)
            except OSError as error:
                errors.append(f"writing {name}: {error.strerror}")

        attempt("written/new", 0, damage_tree.content("new", 30_000), os.O_CREAT | os.O_EXCL)
        attempt("large/b", 50_000, damage_tree.content("over b", 20_000), 0)
        return errors

    def check_written(self, silent):
        """Returns the errors; adds to `silent`."""
        errors = []
        for name, wanted in self.written.items():
            try:
                if _text(self.vault.root / name) != wanted:
                    silent.append(f"{name}: not what was written and synced")
            except FileNotFoundError:
                silent.append(f"{name}: written and synced, and gone")
            except OSError as error:
                errors.append(f"{name}: {error.strerror}")
        return errors

    def health(self, wait):
        """Runs `status --check`. Returns (exit code, words)."""
        end = time.monotonic() + SAID_WITHIN
        while True:
            code, said = self.vault.run("status", "--check", self.vault.vault)
            if code != 0 or not wait or time.monotonic() > end:
                return code, said
            time.sleep(0.2)

    # ---- naming the outcome

    def number(self):
        """Returns the number of the damaged server; None if a file of the vault was damaged."""
        found = re.search(r"servers?/?(\d)[/.]", self.file)
        return int(found[1]) if found else None

    def crash(self):
        for name, log in self.vault.logs().items():
            if found := CRASHED.search(log):
                return f"{name}: {log[found.start():][:200]}"
        return None

    def first_verdict(self):
        if crash := self.crash():
            return "CRASH", crash
        if self.vault.hung:
            return "HANG", self.vault.said[-1]
        return None

    def judge(self, silent, errors, said_so, fsck_finds):
        if verdict := self.first_verdict():
            return verdict
        if silent:
            return "SILENT", f"{len(silent)} things: {'; '.join(silent[:2])[:600]}"
        if errors:
            why = f"{len(errors)} errors: {'; '.join(errors[:2])[:400]}"
            return ("noticed" if said_so else "UNSAID"), why
        if fsck_finds:
            return "fsck", self.notes[-1][:300]
        logs = "\n".join(self.vault.logs().values())
        mended = [line for line in logs.splitlines() if MENDED.search(line)]
        return ("healed", mended[0][:300]) if mended or said_so else ("harmless", "")

    def judge_refusal(self, said):
        """Judges by mount's message, or by the log of the server that does not start."""
        if verdict := self.first_verdict():
            return verdict
        number = self.number()
        if number and self.scenario.remote:
            said += "\n" + "\n".join(self.vault.log_of(number).read_text(errors="replace").splitlines()[-3:])
        names = [os.path.basename(self.file).removesuffix("-wal")]
        if names == ["vault.json"]:
            names.append("the address and key are right")
        if number:
            names += [f"server {number}", f"servers/{number}", f"server{number}"]
        named = any(name in said for name in names)
        return ("refused" if named and ADVICE.search(said) else "WORDS"), said[-600:]

    # ---- repairing

    def follow_advice(self):
        """Returns what is still lost although it could be recovered; empty if nothing is."""
        self.vault.kill()
        number, base = self.number(), os.path.basename(self.file)
        if number and re.match(r"control\.db|slots", base):
            return self.repair(number)
        if base.startswith("vault.db"):
            return self.mend_database()
        if self.scenario.remote and base in ("vault.json", "vault.key"):
            self.vault.start_servers()
            code, said = self.restore_from_recovery()
            for advised in re.findall(r"run s3oramfs (server .*)", said):
                code, said = self.vault.run(*shlex.split(advised))
            if "move that away" in said:
                (self.vault.vault / base).rename(self.vault.folder / "moved away")
                code, said = self.restore_from_recovery()
            return self.what_is_lost(f"restore --from: {said}" if code else "")
        # A text that a person has to correct; here, from a copy.
        shutil.copy2(self.scenario.folder(self.work) / self.file, self.vault.folder / self.file)
        if base == "recovery":
            shutil.rmtree(self.vault.vault, ignore_errors=True)
            self.vault.start_servers()
            code, said = self.restore_from_recovery()
            return self.what_is_lost(f"restore --from: {said}" if code else "")
        return self.what_is_lost("")

    def restore_from_recovery(self):
        vault = self.vault
        return vault.run(
            "restore", "--timeout", "8", *vault.credential, "--from", vault.folder / "recovery",
            vault.vault,
        )

    def repair(self, number):
        vault = self.vault
        for name in ("control.db", "control.db-wal", "control.db-shm", "control.db-ballast", "slots"):
            (vault.store(number) / name).unlink(missing_ok=True)
        vault.start_servers()
        code, said = vault.run("repair", "--server", number, *vault.credential, vault.vault)
        return self.what_is_lost(f"repair: {said}" if code else "")

    def mend_database(self):
        """fsck --repair may lose what the damaged part held; restore must bring everything back."""
        vault = self.vault
        aside = vault.folder.with_name(vault.folder.name + "-aside")
        copy_vault(vault.folder, aside)
        vault.start_servers()
        code, said = vault.run("fsck", "--repair", *vault.credential, vault.vault)
        after_repair = self.losses(f"fsck --repair: {said}" if code else "")
        self.notes.append(f"fsck --repair leaves lost: {'; '.join(sorted(after_repair))[:400]}")
        vault.kill()
        shutil.rmtree(vault.folder)
        aside.rename(vault.folder)
        if not after_repair:
            return ""
        vault.start_servers()
        code, said = vault.run("restore", "--force", *vault.credential, vault.vault)
        after_restore = self.losses(f"restore --force: {said}" if code else "")
        self.notes.append(f"restore leaves lost: {'; '.join(sorted(after_restore))[:400]}")
        # A backup lacks what was written later, and a repair lacks what the damage has destroyed.
        if EVERYTHING in after_repair or EVERYTHING in after_restore:
            lost = after_restore if EVERYTHING in after_repair else after_repair
        else:
            lost = {path: what for path, what in after_restore.items() if path in after_repair}
        return "; ".join(lost.values())[:600]

    def what_is_lost(self, failed):
        return "; ".join(self.losses(failed).values())[:600]

    def losses(self, failed):
        """Returns {path: what is wrong with it}; {EVERYTHING: why} if mounting fails."""
        if failed:
            return {EVERYTHING: failed}
        vault = self.vault
        if self.scenario.remote and not vault.servers:
            vault.start_servers()
        code, said = vault.mount()
        if code != 0:
            return {EVERYTHING: f"no mount: {said[-400:]}"}
        silent, errors = self.look(self.truth_after())
        errors += self.check_written(silent)
        vault.umount()
        if verdict := self.first_verdict():
            return {EVERYTHING: " ".join(verdict)}
        return {text.partition(": ")[0]: text for text in silent + errors}
