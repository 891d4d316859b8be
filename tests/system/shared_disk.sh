# shellcheck shell=bash
# Three servers share a disk. Each of them alone would find room for its tree, but not all three
# together. The room that they reserve must not be the whole disk, or nobody could write there any
# more, not even the vault's own database. (Seen on ext4, in one of three attempts.) The disk is an
# image, so this needs root and loop devices.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

truncate -s 3600M "$work/image"
mkfs.ext4 -q -m 0 "$work/image"
mkdir "$work/disk"
mount -o loop "$work/image" "$work/disk" || fail "no image can be mounted here: this test needs root and loop devices"
step "a volume for which there is no room is not begun"
expect 21 "are needed to begin with" s3oramfs init --local --no-passphrase --first-height=10 "$work/disk/large"
[[ ! -e $work/disk/large ]] || fail "files were left behind"

for attempt in {1..12}; do
  step "attempt $attempt"
  s3oramfs init --local --no-passphrase --first-height=9 "$work/disk/$attempt" > "$work/init.log" 2>&1 ||
    fail "attempt $attempt: $(tail -n 1 "$work/init.log")"
  rm -r "$work/disk/$attempt"
done
umount "$work/disk"
