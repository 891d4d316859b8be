# shellcheck shell=bash
# A local vault is made, filled, unmounted and mounted again, and everything is there.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

echo 'correct horse battery staple' > "$work/pass"
mkdir "$work/mount"
s3oramfs init --local --passfile "$work/pass" "$work/vault"
between_mounts() {
  s3oramfs status --json "$work/vault" | grep '"mounted": false' > /dev/null || fail "status sees a mount"
}
fill_and_find "$work/vault" "$work/mount" --passfile "$work/pass"

step "a mount that waits for the passphrase holds no lock"
mkfifo "$work/typed"
echo 'another one' > "$work/new-pass"
chmod 600 "$work/pass" "$work/new-pass"
waits_for_passphrase() { pgrep -fx "cat $work/typed" > /dev/null; }
mount_typing() { # in the background; its result goes to $work/said
  (
    code=0
    s3oramfs mount --passprog "cat $work/typed" "$work/vault" "$work/mount" > "$work/said" 2>&1 || code=$?
    echo "ended with $code" >> "$work/said"
  ) &
  wait_until "it asks for the passphrase" waits_for_passphrase
}
has_ended() { grep -q '^ended with' "$work/said"; }
mount_typing
s3oramfs fsck --passfile "$work/pass" "$work/vault" > /dev/null
cat "$work/pass" > "$work/typed"
wait_until "it has ended" has_ended
grep -q '^ended with 0' "$work/said" || fail "it is not mounted: $(< "$work/said")"
s3oramfs umount "$work/mount"
mount_typing
s3oramfs passwd --passfile "$work/pass" --new-passfile "$work/new-pass" "$work/vault"
cat "$work/pass" > "$work/typed"
wait_until "it has ended" has_ended
grep -q '^ended with 10' "$work/said" || fail "the previous passphrase: $(< "$work/said")"
grep -q 'changed while you were being asked' "$work/said" || fail "no reason is given: $(< "$work/said")"
mount_typing
cat "$work/new-pass" > "$work/typed"
wait_until "it has ended" has_ended
grep -q '^ended with 0' "$work/said" || fail "the new passphrase: $(< "$work/said")"
mkdir "$work/elsewhere" # nobody is asked for a passphrase
expect 13 "already mounted" s3oramfs mount --passprog "cat $work/typed" "$work/vault" "$work/elsewhere"
s3oramfs umount "$work/mount"

step "the disk space is as init says"
"$(dirname "$0")/../bench/disk" "$bin" 30

step "a mount point whose name is not UTF-8"
s3oramfs init --local --no-passphrase "$work/odd"
odd="$work/"$'m\xff'
mkdir "$odd"
s3oramfs mount "$work/odd" "$odd"
echo kept > "$odd/file"
s3oramfs status "$work/odd" > "$work/status"
s3oramfs status --json "$work/odd" | grep -q '"healthy": true' || fail "status --json: not healthy"
mkdir "$odd/directory"
expect 11 "inside $odd" s3oramfs status "$odd/directory"
expect 23 "inside $odd" s3oramfs umount "$odd/directory"
s3oramfs umount "$odd"
s3oramfs mount "$work/odd" "$odd"
[[ $(< "$odd/file") == kept ]] || fail "the written data is not there"
s3oramfs umount "$odd"

step "no plain text in the servers' stores"
for text in '#include' 'define _STDIO_H'; do
  ! grep -rqaF -- "$text" "$work/vault/servers" || fail "a server's store holds \"$text\""
done
