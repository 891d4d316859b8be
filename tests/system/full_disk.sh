# shellcheck shell=bash
# Disks that are full: full_disk.sh PROGRAMS TEST-PROGRAMS local|remote. Existing files can be read
# and deleted, nothing remains of what did not fit, and once there is room everything goes on
# without help. With `local` the one disk of the vault and its servers is full. With `remote` first
# the disk of a server is full, then that of the client.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/faults.sh
. "$(dirname "$0")/faults.sh"
need_fuse

timeout=5
set_up "$3"
used() { echo $((($(stat -f -c %b "$1") - $(stat -f -c %f "$1")) * 4096)); }
little_room() { (($(stat -f -c '%a * %S' "$mount") < 50000000)); }
errors() { grep -c -e 'No space left' -e 'Input/output error' "$work/workload.log"; }

# Whether 500 files of this size fit.
fill_with() {
  local file
  for file in {1..500}; do
    { head -c "$1" /dev/urandom > "$mount/filler$1.$file" && sync "$mount/filler$1.$file"; } \
      2> "$work/full.log" && continue
    step "  after $file files of $1: $(tail -n 1 "$work/full.log")"
    cat "$mount/filler$1.$file" > "$work/read" || fail "data that waits for room cannot be read"
    return 1
  done
}
# fill_up DISK BYTES-LEFT: leaves so little room on the disk, and checks what still works.
fill_up() {
  local full=$1 free=$2 file
  step "$full is full"
  head -c 500K /dev/urandom > "$work/kept"
  cp "$work/kept" "$mount/kept"
  for file in {1..5}; do head -c 20K /dev/urandom > "$mount/victim$file"; done
  sync "$mount"/* "$mount"
  ! little_room || fail "there is no room before the disk is full"
  tell "$full" space $(($(used "$full") + free))
  wait_until "df shows the full disk" little_room
  # Writes until the disk is full. How much that is depends on what grows when.
  ! fill_with 100K || fail "50 MB fit into $free bytes"
  ! fill_with 4K || fail "2 MB fit where 100 KB do not"
  start_work "$RANDOM" 3
  end_work 0
  (($(errors) > 0)) || fail "the workload met no error"
  check_work compare
  cmp "$work/kept" "$mount/kept" || fail "an existing file cannot be read on a full disk"
  rm "$mount"/victim* || fail "nothing can be deleted on a full disk"
  sync "$mount" || fail "a deletion cannot be made durable on a full disk"
  rm -f "$mount"/filler* || fail "files that did not fit cannot be deleted"
  status_works

  step "there is room again"
  tell "$full" space 10000000000
  # Writes more than there was room for. The servers are asked again every ten seconds.
  works_again() { cp "$work/fresh" "$mount/again" && sync "$mount/again" "$mount"; } 2> "$work/again.log"
  head -c 1M /dev/urandom > "$work/fresh"
  wait_until "writing works again" works_again
  wait_until "writes succeed again" nothing_fails
  check_work compare
  s3oramfs umount "$mount"
  s3oramfs mount --timeout "$timeout" "$vault" "$mount"
  check_work verify
  cmp "$work/kept" "$mount/kept" && cmp "$work/fresh" "$mount/again" || fail "something is lost"
  rm "$mount/again"
}
nothing_fails() {
  start_work "$RANDOM" 2
  end_work 0
  (($(errors) == 0))
}
status_works() {
  s3oramfs status --json "$vault" | grep '"mounted": true' > /dev/null || fail "status does not work"
}

s3oramfs mount --timeout "$timeout" "$vault" "$mount"
start_work 1 2
end_work 0
if [[ $3 == remote ]]; then fill_up "$work/store2" 300000; fi
fill_up "$disk" 30000
s3oramfs umount "$mount"

step "a vault on a disk without any room can be mounted, and its files deleted"
tell "$disk" space "$(used "$disk")"
s3oramfs mount --timeout "$timeout" -o ro "$vault" "$mount"
cmp "$work/kept" "$mount/kept" || fail "an existing file cannot be read"
s3oramfs umount "$mount"
s3oramfs fsck "$vault"
s3oramfs mount --timeout "$timeout" "$vault" "$mount"
rm "$mount/kept"
sync "$mount" || fail "the deletion cannot be made durable"
s3oramfs umount "$mount"
