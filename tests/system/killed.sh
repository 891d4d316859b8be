# shellcheck shell=bash
# The daemon is killed while it writes, and at once mounted again: what was synced is there, and
# every file that is there can be read.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

: "${ROUNDS:=4}"
vault=$work/vault
mount=$work/mount
mkdir "$mount"
s3oramfs init --local --no-passphrase "$vault"
s3oramfs mount "$vault" "$mount"
for ((round = 1; round <= ROUNDS; ++round)); do
  head -c 300000 /dev/urandom > "$work/synced$round"
  cp "$work/synced$round" "$mount/"
  sync "$mount/synced$round" "$mount"
  accesses() { s3oramfs status --json "$vault" | grep -o '"accesses": [0-9]*' | tr -dc 0-9; }
  before=$(accesses)
  (for i in {1..200}; do head -c 200000 /dev/urandom > "$mount/unsynced$round.$i" || exit; done) 2> "$work/writer.log" &
  writer=$!
  # Somewhere in the evictions that follow each 64 accesses.
  moved_on() { (($(accesses) >= before + 60 * round)); }
  wait_until "round $round has written enough" moved_on
  daemon=$(s3oramfs status --json "$vault" | grep -o '"pid": [0-9]*' | tr -dc 0-9)
  kill -9 "$daemon"
  is_gone() { ! kill -0 "$daemon" 2> /dev/null; }
  wait_until "the daemon is gone" is_gone
  wait "$writer" || step "the writer noticed"
  s3oramfs umount "$mount"
  s3oramfs fsck "$vault" # a crash is no damage
  s3oramfs mount "$vault" "$mount"
  for ((i = 1; i <= round; ++i)); do
    cmp "$work/synced$i" "$mount/synced$i" || fail "round $round: synced$i is not what it was"
  done
  find "$mount" -type f -print0 | xargs -0 cat > "$work/all" || fail "round $round: a file cannot be read"
  step "round $round: $(find "$mount" -type f | wc -l) files"
done
s3oramfs umount "$mount"
