# shellcheck shell=bash
# Local mirrors of two and of three servers: they are filled and everything is found again; a lost
# store is copied back; a lost vault.db is made again. In the mirror of two a server is killed (for
# three, see away.sh).
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

mount=$work/mount
mkdir "$mount"
written() { snapshot "$mount" > "$work/written"; }
intact() {
  snapshot "$mount" > "$work/read"
  same "$work/written" "$work/read" "something changed"
}
write_some() {
  head -c "$1" /dev/urandom > "$mount/$RANDOM$RANDOM"
  written
}

for servers in 2 3; do
  vault=$work/of-$servers
  step "a mirror of $servers servers"
  s3oramfs init --scheme mirror --local --servers "$servers" --no-passphrase --block-size 4K \
    "$vault" > "$work/init.log"
  grep -q "^Mirror on $servers servers: any 1 of them" "$work/init.log" ||
    fail "init does not say what it is: $(< "$work/init.log")"
  grep -q '"scheme": "mirror"' "$vault/vault.json" || fail "vault.json does not name the scheme"
  s3oramfs mount "$vault" "$mount"
  write_some 2M
  s3oramfs status --json "$vault" | grep -q '"scheme": "mirror"' || fail "status does not show the scheme"
  s3oramfs status --check "$vault"

  step "its servers hold the same bytes"
  s3oramfs umount "$mount"
  [[ -e $vault/servers/$servers && ! -e $vault/servers/$((servers + 1)) ]] || fail "the number of stores is wrong"
  s3oramfs scrub "$vault" > "$work/scrub.log"
  ! grep -q healed "$work/scrub.log" || fail "an intact volume was healed: $(< "$work/scrub.log")"

  if ((servers == 2)); then
    step "a server is killed while files are written"
    s3oramfs mount "$vault" "$mount"
    intact
    pkill -9 -f "s3oramfs-serverd --store $vault/servers/1 " || fail "no server to kill"
    write_some 500K
    sync "$mount"
    intact
    s3oramfs umount "$mount"
  fi

  step "a store is lost"
  rm -r "$vault/servers/1"
  s3oramfs repair --server 1 "$vault" > "$work/repair.log"
  grep -q "server 1 held nothing" "$work/repair.log" || fail "the command does not say whose store was lost"
  s3oramfs mount "$vault" "$mount"
  intact
  write_some 300K
  s3oramfs umount "$mount"

  s3oramfs fsck "$vault"
done

step "vault.db is lost"
rm "$vault"/vault.db*
s3oramfs restore "$vault" > "$work/restore.log"
s3oramfs mount "$vault" "$mount"
intact
write_some 300K
s3oramfs umount "$mount"
s3oramfs fsck "$vault"

step "all stores but one are lost"
rm -r "$vault/servers/1" "$vault/servers/3"
s3oramfs repair --server 1 --server 3 "$vault" > "$work/repair.log"
s3oramfs mount "$vault" "$mount"
intact
s3oramfs umount "$mount"

step "options that contradict each other are refused"
expect 2 "needs 2 to 6" s3oramfs init --scheme mirror --local --servers 7 --no-passphrase "$work/no"
expect 2 "an evictor of its own" \
  s3oramfs init --scheme mirror --local --evictor shuffle --no-passphrase "$work/no"
expect 2 "needs 3 to 127" s3oramfs init --scheme s3oram --local --servers 2 --no-passphrase "$work/no"
