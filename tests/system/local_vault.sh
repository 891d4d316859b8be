# shellcheck shell=bash
# A local vault is made, filled, unmounted and mounted again, and everything is there.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

echo 'correct horse battery staple' > "$work/pass"
mkdir "$work/mount"
s3oramfs init --local --passfile "$work/pass" "$work/vault"
between_mounts() {
  s3oramfs status --json "$work/vault" | grep -q '"mounted": false' || fail "status sees a mount"
}
fill_and_find "$work/vault" "$work/mount" --passfile "$work/pass"

step "a mount point whose name is no UTF-8"
s3oramfs init --local --no-passphrase "$work/odd"
odd="$work/"$'m\xff'
mkdir "$odd"
s3oramfs mount "$work/odd" "$odd"
echo kept > "$odd/file"
s3oramfs status "$work/odd" > "$work/status"
s3oramfs status --json "$work/odd" | grep -q '"healthy": true' || fail "status --json: not healthy"
mkdir "$odd/directory"
expect 11 "inside of $odd" s3oramfs status "$odd/directory"
expect 23 "inside of $odd" s3oramfs umount "$odd/directory"
s3oramfs umount "$odd"
s3oramfs mount "$work/odd" "$odd"
[[ $(< "$odd/file") == kept ]] || fail "what was written is not there"
s3oramfs umount "$odd"

step "no plain text in the servers' stores"
for text in '#include' 'define _STDIO_H'; do
  ! grep -rqaF -- "$text" "$work/vault/servers" || fail "a server's store holds \"$text\""
done
