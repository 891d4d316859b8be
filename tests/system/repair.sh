# shellcheck shell=bash
# A server's store is lost for good. Its shares are rebuilt from the others', and nothing is lost.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/faults.sh
. "$(dirname "$0")/faults.sh"
need_fuse

mount=$work/mount
mkdir "$mount"
written() { snapshot "$mount" > "$work/written"; }
intact() {
  snapshot "$mount" > "$work/read"
  same "$work/written" "$work/read" "something changed"
}
is_whole() {
  s3oramfs scrub "$vault" > "$work/scrub.log" && ! grep -q "healed" "$work/scrub.log"
}
write_some() {
  head -c "$1" /dev/urandom > "$mount/$RANDOM$RANDOM"
  written
}

step "a local vault"
vault=$work/local
s3oramfs init --local --no-passphrase --block-size 4K "$vault" > "$work/init.log"
s3oramfs mount "$vault" "$mount"
write_some 2M
expect 13 "$vault" s3oramfs repair --server 2 "$vault"
is_whole || fail "an intact volume is called damaged while it is mounted"
s3oramfs umount "$mount"
is_whole || fail "an intact volume is called damaged"
rm -r "$vault/servers/2"
expect 18 "s3oramfs repair --server 2 $vault" s3oramfs mount "$vault" "$mount"
expect 12 "servers/2" s3oramfs fsck "$vault"
s3oramfs repair --server 2 "$vault" > "$work/repair.log"
grep -q "server 2 held nothing" "$work/repair.log" || fail "the command does not say whose store was lost"
is_whole || fail "the repair left damage"
s3oramfs mount "$vault" "$mount"
intact
write_some 300K
s3oramfs umount "$mount"

step "slots damaged at too many servers stay as they are while the vault is not mounted"
# An eviction is due, because there have been enough accesses for it.
damaged=$work/damaged
cp "$work/written" "$work/written.local"
s3oramfs init --local --no-passphrase "$damaged" > "$work/init.log"
s3oramfs mount "$damaged" "$mount"
for n in {1..6}; do head -c 200000 /dev/urandom > "$mount/f$n"; done
written
s3oramfs umount "$mount"
ruin() { damage_every 16384 17 "$damaged"/servers/[12]/slots; }
cp "$damaged/servers/1/slots" "$work/slots"
ruin
said=$(s3oramfs scrub "$damaged" 2>&1) || [[ $? == 12 ]] || fail "scrub: $said"
slots=$(grep -o '[0-9]* slots are damaged' <<< "$said")
for n in {1..3}; do expect 12 "$slots at too many servers, and nothing was changed there" s3oramfs scrub "$damaged"; done
cp "$work/slots" "$damaged/servers/1/slots"
s3oramfs scrub "$damaged" > "$work/scrub.log"
s3oramfs mount "$damaged" "$mount"
intact
s3oramfs umount "$mount"

step "slots given up in a mounted vault are reported without a request"
ruin
s3oramfs mount "$damaged" "$mount"
head -c 2M /dev/urandom > "$mount/new" # with evictions
sync "$mount/new"
expect 24 "could not be read" s3oramfs status --check "$damaged"
s3oramfs umount "$mount"
expect 12 "could not be read" s3oramfs fsck "$damaged"

cp "$work/written.local" "$work/written"

step "damage in scattered places of a disk, while the vault is in use"
rot() {
  local n
  for n in 1 3; do damage_every 100000 $((n * 20000)) "$vault/servers/$n/slots"; done
}
heals() {
  s3oramfs scrub "$vault" > "$work/scrub.log"
  grep -q "shares of server 1, [0-9]* shares of server 3" "$work/scrub.log" || fail "scrub has found nothing"
  is_whole || fail "scrub has left damage"
}
rot
heals
s3oramfs mount "$vault" "$mount"
intact
rot
(while :; do write_some 50K; done) &
writer=$!
heals
kill "$writer"
wait "$writer" || [[ $? == 143 ]]
status_says "scrub     of everything: 0 shares healed, 0 slots lost" || fail "status: $(s3oramfs status "$vault")"
written
s3oramfs umount "$mount"
s3oramfs mount "$vault" "$mount"
intact

step "a scrub ends with the mount"
"$bin/s3oramfs" scrub "$vault" > "$work/cut.log" 2>&1 &
scrub=$!
wait_until "the daemon scrubs" status_says "scrub     "
s3oramfs umount "$mount"
wait "$scrub" || [[ $? == 23 ]] || fail "scrub: $(cat "$work/cut.log")"
is_whole || fail "an intact volume is called damaged"

step "blocks that two of three servers have lost are reported until they are deleted"
s3oramfs mount "$vault" "$mount"
lost=$(ls "$mount" | head -n 1)
s3oramfs umount "$mount"
for n in 1 2; do
  head -c "$(stat -c %s "$vault/servers/$n/slots")" /dev/urandom > "$vault/servers/$n/slots"
done
expect 18 "server 1 lacks its shares" s3oramfs mount "$vault" "$mount"
expect 18 "server 2 lacks its shares" s3oramfs repair --server 1 "$vault"
expect 12 "at too many servers" s3oramfs repair --server 1 --server 2 "$vault"
s3oramfs mount "$vault" "$mount"
expect 1 "Input/output error" cat "$mount/$lost"
status_says "could not be read" || fail "status: $(s3oramfs status "$vault")"
s3oramfs umount "$mount"
expect 12 "/$lost: bytes 0-" s3oramfs fsck "$vault"
s3oramfs mount "$vault" "$mount"
status_says "could not be read" || fail "forgotten by the next mount: $(s3oramfs status "$vault")"
rm "$mount"/*
s3oramfs umount "$mount"
s3oramfs fsck "$vault" || fail "status still counts what was deleted"

step "two of three are too many"
rm -r "$vault/servers/1" "$vault/servers/2"
expect 12 "at most 1" s3oramfs repair --server 1 --server 2 "$vault"
[[ ! -e $vault/servers/1 ]] || fail "a store was made nevertheless"
expect 2 "no server 4" s3oramfs repair --server 4 "$vault"

step "remote servers: a machine is lost, and another one takes its place with a new key"
vault=$work/remote
make_servers store
start_servers
init=(s3oramfs init "${server_options[@]}" --block-size 4K --no-passphrase "$vault")
authorize "$("${init[@]}" 2> "$work/init.log" | shown_key)"
"${init[@]}" --wait 20 > "$work/init.log"
s3oramfs mount "$vault" "$mount"
write_some 2M
s3oramfs umount "$mount"
kill_now "${server_pid[store3]}"
client=$(grep -oE '^[A-Za-z0-9_-]{43}' "$work/store3/clients")
rm -r "$work/store3"
server_key[3]=$(serverd keygen --store "$work/store3")
new=3=$host:${server_port[3]},${server_key[3]}
for n in 1 2; do
  serverd peers --store "$work/store$n" --update "$new"
  stop_server "$n"
  start_server "$n"
done
mapfile -t all < <(serverd peers --store "$work/store1")
serverd peers --store "$work/store3" "${all[@]}"
serverd authorize --store "$work/store3" "$client"
start_server 3
s3oramfs server "$vault" 3 "$host:${server_port[3]},${server_key[3]}"
expect 18 "run s3oramfs repair" s3oramfs mount "$vault" "$mount"
expect 18 "server 3 ($host:${server_port[3]}) says: server 3 holds no volume" s3oramfs repair --server 2 "$vault"

step "a repair that is cut short repeatedly"
for pause in 0.1 0.2; do
  "$bin/s3oramfs" repair --server 3 "$vault" > "$work/cut.log" 2>&1 &
  pid=$!
  sleep $pause # a moment, not a condition: any will do
  kill_now $pid
done
s3oramfs repair --server 3 "$vault"
is_whole || fail "the repair left damage"
s3oramfs mount "$vault" "$mount"
intact
write_some 300K
s3oramfs umount "$mount"

step "the vault is used before the repair is complete"
stop_server 1
cp -a "$work/store1" "$work/keys"
rm "$work"/store1/control.db* "$work/store1/slots"
start_server 1
"$bin/s3oramfs" repair --server 1 "$vault" > "$work/cut.log" 2>&1 &
pid=$!
has_its_place() { grep -q "whose shares are to be rebuilt" "$work/store1.log"; }
wait_until "the server has its place again" has_its_place
kill_now $pid
wait_until "the vault is free" s3oramfs mount "$vault" "$mount"
intact
write_some 300K
s3oramfs umount "$mount"
s3oramfs repair --server 1 "$vault"
is_whole || fail "the repair left damage"
s3oramfs mount "$vault" "$mount"
intact
s3oramfs umount "$mount"

step "the lost store comes back: it is out of date"
stop_server 1
rm "$work"/store1/control.db* "$work/store1/slots"
cp -a "$work/keys"/{control.db,slots} "$work/store1/"
start_server 1
expect 18 "set back to an old state" s3oramfs mount "$vault" "$mount"
stop_servers
