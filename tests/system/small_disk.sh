# shellcheck shell=bash
# Disks that are too small for a vault. init says so, with numbers, before it makes anything, here
# and at remote servers. The disks are images, so this needs root and loop devices.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

disk=$work/disk
mkdir "$disk"
# with_disk MKFS-COMMAND SIZE: makes such a disk and mounts it at $disk.
with_disk() {
  ! is_mounted "$disk" || umount "$disk"
  rm -f "$work/image"
  truncate -s "$2" "$work/image"
  # shellcheck disable=SC2086
  $1 "$work/image" > "$work/mkfs.log" 2>&1 || fail "$1: $(< "$work/mkfs.log")"
  mount -o loop "$work/image" "$disk" || fail "no image can be mounted here: this test needs root and loop devices"
}
nothing_made() { [[ ! -e $disk/vault ]] || fail "init left $(find "$disk/vault" | head)"; }

step "too small for a local vault"
with_disk "mkfs.ext4 -q -m 0" 24M
expect 21 "are needed to begin with" s3oramfs init --local --no-passphrase "$disk/vault"
nothing_made
expect 21 "are needed to begin with" s3oramfs init --local --no-passphrase --first-height=10 "$disk/vault"
nothing_made

step "large enough for what init calls enough"
said=$(s3oramfs init --local --no-passphrase "$disk/vault" 2>&1) || [[ $? == 21 ]] || fail "init: $said"
needed=$(grep -oE '[0-9.]+ MiB are needed' <<< "$said" | grep -oE '^[0-9]+')
with_disk "mkfs.ext4 -q -m 0 -O ^has_journal" "$((needed * 11 / 10 + 8))M"
s3oramfs init --local --no-passphrase "$disk/vault"
mkdir "$work/mount"
s3oramfs mount "$disk/vault" "$work/mount"
echo kept > "$work/mount/file"
sync "$work/mount/file" || fail "a new vault takes no file"
s3oramfs umount "$work/mount"
rm -r "$disk/vault"

step "a file system that cannot reserve space"
with_disk "mkfs.ext2 -q -m 0" 300M
s3oramfs init --local --no-passphrase "$disk/vault"
s3oramfs mount "$disk/vault" "$work/mount"
head -c 3M /dev/urandom > "$work/data"
cp "$work/data" "$work/mount/file"
s3oramfs umount "$work/mount"
grep -q 'cannot reserve space' "$disk/vault/run/"*.log || fail "no warning was given"
s3oramfs mount "$disk/vault" "$work/mount"
cmp "$work/data" "$work/mount/file"
s3oramfs umount "$work/mount"

step "no inodes"
with_disk "mkfs.ext4 -q -m 0 -N 64" 200M
for ((file = $(stat -f -c %d "$disk"); file > 10; --file)); do : > "$disk/file$file"; done
expect 21 "more files (df -i)" s3oramfs init --local --no-passphrase "$disk/vault"
nothing_made

step "read-only"
mount -o remount,ro "$disk"
expect 1 "file system is read-only" s3oramfs init --local --no-passphrase "$disk/vault"

step "remote servers: one disk is too small"
with_disk "mkfs.ext4 -q -m 0" 24M
make_servers store
rm -r "$disk"/* # lost+found
mv "$work/store2" "$disk/store2"
ln -s "$disk/store2" "$work/store2"
start_servers
init=(s3oramfs init "${server_options[@]}" --first-height 6 --keyfile "$work/key" "$work/vault")
said=$("${init[@]}" 2>&1) || [[ $? == 15 ]] || fail "init: $said"
authorize "$(shown_key <<< "$said")"
expect 21 "server 2" "${init[@]}" --wait 20
expect 21 "are needed to begin with" "${init[@]}" --wait 20
for n in 1 2 3; do
  [[ ! -s $work/store$n/slots ]] || fail "server $n made files"
done
stop_servers

step "too small for the vault itself"
! head -c 30M /dev/zero > "$disk/filler" 2> "$work/filler.log" || fail "30 MB fit on a disk of 24 MB"
expect 21 "are needed to begin with" s3oramfs init "${server_options[@]}" --no-passphrase "$disk/vault"
nothing_made
