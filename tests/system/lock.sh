# shellcheck shell=bash
# A mounted vault forgets its keys, refuses everything, and goes on after an unlock.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

hook=$(realpath "$(dirname "$0")/../../packaging/systemd/examples/lock-before-suspend")
vault=$work/vault mount=$work/mount
mkdir "$mount" "$work/other"
printf 'correct horse battery staple' > "$work/pass"
echo wrong > "$work/wrong"
chmod 600 "$work/pass" "$work/wrong"
s3oramfs init --local --passfile "$work/pass" "$vault"
s3oramfs mount --passfile "$work/pass" "$vault" "$mount"

# remembers: prints how often the daemon's memory contains the words of this vault.
remembers() {
  env -C / python3 - "$(daemon_of "$mount")" << 'END'
import sys

words = [b"contents-QWXZ", b"filename-QWXZ", b"correct horse battery staple"]
found = 0
with open(f"/proc/{sys.argv[1]}/mem", "rb", 0) as memory:
    for line in open(f"/proc/{sys.argv[1]}/maps"):
        place, rights = line.split()[:2]
        if "r" not in rights or "[v" in line:
            continue
        start, end = (int(each, 16) for each in place.split("-"))
        memory.seek(start)
        content = memory.read(end - start)
        found += sum(content.count(word) for word in words)
print(found)
END
}

step "open files"
mkdir "$mount/directory"
echo contents-QWXZ > "$mount/directory/filename-QWXZ"
make_tree "$mount/tree" 60 600000
exec 5<> "$mount/open" 6<> "$mount/unlinked"
rm "$mount/unlinked"
echo first >&5
echo contents-QWXZ >&6
snapshot "$mount" > "$work/before"
cd "$mount/directory"
(($(remembers) > 0)) || fail "the daemon's memory was not searched"

step "locked"
daemon=$(daemon_of "$mount")
s3oramfs lock "$mount"
(($(daemon_of "$mount") == daemon)) || fail "another process serves the mount"
(($(remembers) == 0)) || fail "the daemon still knows something: $(remembers)"
for command in 'ls "$mount"' 'cat "$mount/directory/filename-QWXZ"' 'stat "$mount/open"' 'cat filename-QWXZ' \
  'touch "$mount/new"' 'mkdir new' 'mv "$mount/open" "$mount/moved"' 'rm -r "$mount/tree"' 'echo more >&5' 'cat <&6'; do
  ! eval "$command" > "$work/out" 2> "$work/said" || fail "not refused: $command"
  grep -q 'Permission denied' "$work/said" || fail "$command: $(cat "$work/said")"
done
expect 24 "s3oramfs unlock" s3oramfs status --check "$vault"
expect 13 "already mounted" s3oramfs mount --passfile "$work/pass" "$vault" "$work/other"
expect 1 "is locked" s3oramfs backup "$vault"
[[ $(s3oramfs status --json "$mount") == *'"locked": true'* ]] || fail "$(s3oramfs status --json "$mount")"
s3oramfs lock "$vault" # it is locked already
expect 10 "wrong passphrase" s3oramfs unlock --passfile "$work/wrong" "$mount"
! ls "$mount" 2> "$work/said" || fail "a wrong passphrase unlocks it"

step "unlocked"
s3oramfs unlock --passfile "$work/pass" "$mount"
[[ $(s3oramfs status --check "$mount") == healthy ]] || fail "$(s3oramfs status "$mount")"
snapshot "$mount" > "$work/after"
same "$work/before" "$work/after" "something changed"
echo second >&5
[[ $(cat "$mount/open") == $'first\nsecond' ]] || fail "the open file: $(cat "$mount/open")"
[[ $(cat /proc/self/fd/6) == contents-QWXZ ]] || fail "the unlinked file: $(cat /proc/self/fd/6)"
[[ $(cat filename-QWXZ) == contents-QWXZ && $(pwd -P) == "$mount/directory" ]] || fail "the working directory: $(pwd -P)"
s3oramfs unlock "$mount" 2> "$work/said" && grep -q 'is not locked' "$work/said" || fail "$(cat "$work/said")"

step "a signal, while someone writes"
cd "$work"
exec 5>&- 6>&-
(
  i=0
  while echo $((i += 1)) >> "$mount/lines" 2> "$work/end"; do :; done
) 2> "$work/end" &
writer=$!
wait_until "something is written" test -s "$mount/lines"
kill -USR1 "$daemon"
wait $writer
wait_until "it is locked" status_says locked
s3oramfs unlock --passfile "$work/pass" "$vault"
lines=$(wc -l < "$mount/lines")
[[ $(seq "$lines") == "$(cat "$mount/lines")" ]] || fail "a line is lost: $(tail -n 3 "$mount/lines")"

step "before a suspend; unmounted while locked"
mkdir "$work/programs"
printf '#!/bin/sh\necho "%s"\n' "$mount" > "$work/programs/findmnt" # other tests mount too
chmod +x "$work/programs/findmnt"
PATH=$work/programs:$bin:$PATH "$hook" post suspend
status_says healthy || fail "locked after a suspend"
PATH=$work/programs:$bin:$PATH "$hook" pre suspend
status_says locked || fail "not locked before a suspend"
s3oramfs umount "$mount"
! is_mounted "$mount" || fail "it is still mounted"
wait_until "all processes of the vault have ended" no_processes_of "$vault"
expect 23 "" s3oramfs lock "$mount"
s3oramfs fsck --passfile "$work/pass" "$vault"

# typed "LINE LINE..." COMMAND...: runs the command at a terminal at which these lines are typed.
typed() {
  python3 - "$@" << 'END'
import os, pty, sys

lines = sys.argv[1].split()
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
said = b""
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:  # the program has ended
        break
    said += part
    if part.endswith((b": ", b"again: ")) and lines:
        os.write(terminal, lines.pop(0).encode() + b"\n")
sys.stdout.buffer.write(said)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
}

step "typed passphrases"
echo tundra-grackle-mumpsimus > "$work/typed"
chmod 600 "$work/typed"
s3oramfs passwd --passfile "$work/pass" --new-passfile "$work/typed" "$vault" 2> "$work/said"
! grep -q hint "$work/said" || fail "a warning about a strong passphrase: $(cat "$work/said")"
said=$(typed "no tundra-grackle-mumpsimus" "$bin/s3oramfs" fsck "$vault") || fail "fsck: $said"
[[ $said == *"wrong passphrase, try again"*"is sound"* ]] || fail "fsck: $said"
expect 10 "wrong passphrase" typed "no no no tundra-grackle-mumpsimus" "$bin/s3oramfs" passwd --remove 9 "$vault"
said=$(typed "tundra-grackle-mumpsimus kitchen7 kitchen7" "$bin/s3oramfs" passwd --add "$vault") || fail "passwd: $said"
[[ $said == *"hint: "*"may guess"* && $said != *kitchen7* ]] || fail "passwd: $said"

step "unlocked by a key file"
s3oramfs passwd --passfile "$work/typed" --add --new-keyfile "$work/key" "$vault"
s3oramfs mount --keyfile "$work/key" "$vault" "$mount"
s3oramfs lock "$mount"
printf 'another key' > "$work/wrong"
expect 10 "not this vault's key file" s3oramfs unlock --keyfile "$work/wrong" "$mount"
(cd "$work" && s3oramfs unlock --keyfile key "$mount")
status_says healthy || fail "the key file did not unlock the vault"
s3oramfs umount "$mount"

# A program that inherits an open file uses the mount when it ends, because it closes the file.
step "unmounted when idle, but not while a file is open"
expect 2 "write a time as" s3oramfs mount -o idle=soon "$vault" "$mount"
chmod 644 "$work/typed"
s3oramfs mount --passfile "$work/typed" -o idle=1s,log-level=debug "$vault" "$mount" 2> "$work/said"
grep -q "^s3oramfs: $work/typed: .*chmod 600" "$work/said" || fail "no warning in plain words: $(cat "$work/said")"
echo content > "$mount/file"
sleep 1000 < "$mount/file" &
holder=$!
looked() { (($(grep -c 'idle, but in use' "$vault/run/fused.log") >= 2)); }
wait_until "it has looked twice" looked
is_mounted "$mount" || fail "unmounted although a file is open"
kill "$holder"
wait_until "it is unmounted" eval '! is_mounted "$mount"'
wait_until "all processes of the vault have ended" no_processes_of "$vault"
