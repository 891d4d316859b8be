# shellcheck shell=bash
# A mount that nobody uses is unmounted; a file that is open is a use. It runs alone, because a sync
# of the whole machine uses every mount.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

vault=$work/vault mount=$work/mount
mkdir "$mount"
s3oramfs init --local --no-passphrase "$vault" > "$work/init.log"
expect 2 "write a time as" s3oramfs mount -o idle=soon "$vault" "$mount"
s3oramfs mount -o idle=1s,log-level=debug "$vault" "$mount"
echo content > "$mount/file"
exec 5< "$mount/file"
looked() { (($(grep -c 'idle, but in use' "$vault/run/fused.log") >= 2)); }
wait_until "it has looked twice" looked
is_mounted "$mount" || fail "unmounted although a file is open"
exec 5<&-
wait_until "it is unmounted" eval '! is_mounted "$mount"'
wait_until "all processes of the vault have ended" no_processes_of "$vault"
s3oramfs fsck "$vault"
