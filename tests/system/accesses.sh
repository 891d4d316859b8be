# shellcheck shell=bash
# Counts by `status --json` what operations on a mounted vault cost in accesses, and compares the
# counts with the table at the top of docs/filesystem.md.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

vault=$work/vault mount=$work/mount
size=2500000 block=65536 # not a multiple of the block size
blocks=$(((size + block - 1) / block))
mkdir "$mount"
head -c "$size" /dev/urandom > "$work/data"
s3oramfs init --local --no-passphrase --block-size "$block" "$vault" > /dev/null

# Backups of the names would be accesses too, so there is none except the one at the unmount.
mount_vault() { s3oramfs mount --backup 86400 "$vault" "$mount"; }
# Afterwards no file contents are in memory.
remount() {
  s3oramfs umount "$mount"
  mount_vault
}
accesses() { s3oramfs status --json "$vault" | sed -n 's/^    "accesses": \([0-9]*\).*/\1/p'; }
# costs ACCESSES WHAT COMMAND...: the command costs exactly this many accesses.
costs() {
  local before after
  before=$(accesses)
  "${@:3}" || fail "$2"
  after=$(accesses)
  step "$2: $((after - before)) accesses"
  ((after - before == $1)) || fail "$2 cost $((after - before)) accesses instead of $1"
}

write() { dd if="$work/data" of="$mount/data" bs="$block" conv=fsync status=none; }
read_all() { cmp "$work/data" "$mount/data"; }
names() {
  local i
  mkdir "$mount"/directory{1..300} && touch "$mount"/{1..300} && chmod 600 "$mount"/{1..300} || return
  for i in {1..300}; do
    mv "$mount/$i" "$mount/directory$i/renamed" && ln "$mount/directory$i/renamed" "$mount/linked$i" &&
      setfattr -n user.test -v "value $i" "$mount/linked$i" || return
  done
  ln -s target "$mount/symlink"
  rm "$mount"/linked{1..300}
  sync "$mount" "$mount"/directory{1..300}
}
overwrite() { dd if="$work/data" of="$mount/data" bs=1000 count=1 seek=100 conv=notrunc,fsync status=none; }
punch() { fallocate --punch-hole --offset "$1" --length "$2" "$mount/data" && sync "$mount/data"; }
cache() { s3oramfs status --json "$vault" | sed -n '/^  "cache"/,/}/s/^    "'"$1"'": \([0-9]*\).*/\1/p'; }
cache_holds() {
  [[ $(cache limit) == $((8 << 20)) ]] || fail "the limit of the cache is $(cache limit) bytes"
  (($(cache bytes) > 4 << 20 && $(cache bytes) <= 8 << 20)) || fail "of $1 the cache holds $(cache bytes) bytes"
}
end() { truncate -s "$((3 * block))" "$mount/data" && sync "$mount/data" && rm "$mount/data" && sync "$mount"; }

mount_vault
costs "$blocks" "writing $size bytes" write
costs 0 "reading what is in memory" read_all
costs 0 "creating, renaming, linking, removing 300 files, with attributes" names
remount
costs "$blocks" "reading $size bytes" read_all
remount
costs 2 "overwriting part of a block" overwrite
remount
costs 2 "punching part of a block" punch "$((10 * block + 100))" 1000
costs 0 "punching whole blocks" punch "$((20 * block))" "$((2 * block))"
costs 0 "truncating and removing" end
s3oramfs umount "$mount"

step "a cache of 8 MiB"
head -c 16M /dev/urandom > "$work/large"
s3oramfs mount --cache 8M --backup 86400 "$vault" "$mount"
dd if="$work/large" of="$mount/large" bs="$block" conv=fsync status=none
cache_holds "what was written"
s3oramfs umount "$mount"
s3oramfs mount --cache 8M --backup 86400 "$vault" "$mount"
cmp "$work/large" "$mount/large"
cache_holds "what was read"
s3oramfs umount "$mount"
