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

step "no plain text in the servers' stores"
for text in '#include' 'define _STDIO_H'; do
  ! grep -rqaF -- "$text" "$work/vault/servers" || fail "a server's store holds \"$text\""
done
