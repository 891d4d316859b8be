# shellcheck shell=bash
# Rings. A local ring survives kills of its daemon and its server, and the loss of top.cache and
# vault.db. A ring on a remote server keeps a record, and a recovery file brings it back. SEED may
# be given.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse
: "${SEED:=$RANDOM}" "${ROUNDS:=2}"
RANDOM=$SEED
step "seed $SEED"

mount=$work/mount
mkdir "$mount"
written() { snapshot "$mount/tree" > "$work/written"; }
intact() {
  snapshot "$mount/tree" > "$work/read"
  same "$work/written" "$work/read" "$1"
}
# The machine of the mounted vault has a power cut, as far as this can be done.
kill_daemon() {
  kill -9 "$(daemon_of "$vault")"
  umount -l "$mount"
}
kill_server() { pkill -9 -f "s3oramfs-serverd --store $vault/servers/1 " || fail "no server to kill"; }
sync_files() { find "$mount/tree" -type f -exec sync {} + -o -type d -exec sync {} +; }
write_files() {
  local n
  for n in {1..30}; do head -c $((RANDOM % 60000)) /dev/urandom > "$mount/tree/$1.$n" || return 0; done
}

evicted() { status_says "none due"; }

step "options that contradict each other are refused"
expect 2 "--servers 2: ring needs 1 server" s3oramfs init --local --scheme ring --servers 2 --no-passphrase "$work/no"
expect 2 "an evictor of its own" \
  s3oramfs init --local --scheme ring --evictor shuffle --no-passphrase "$work/no"
expect 2 "one level of the tree takes" \
  s3oramfs init --local --scheme ring --top-cache 1M --no-passphrase "$work/no"
expect 2 "only a ring keeps" s3oramfs init --local --top-cache 1G --no-passphrase "$work/no"
expect 2 "a ring has one server" \
  s3oramfs init --local --scheme ring --privacy-threshold 2 --no-passphrase "$work/no"
expect 2 "checks every answer" \
  s3oramfs init --local --scheme ring --security honest-but-curious --no-passphrase "$work/no"

vault=$work/local
step "a local ring"
s3oramfs init --local --scheme ring --no-passphrase --expect 64M --block-size 8K "$vault" > "$work/init.log"
grep -q '^Ring on one server: it learns neither' "$work/init.log" || fail "init does not show the scheme: $(< "$work/init.log")"
grep -q '^One copy: this server.s disk is your disk: keep it on RAID or back it up\.$' "$work/init.log" ||
  fail "init does not say that there is one copy: $(< "$work/init.log")"
grep -q '"scheme": "ring"' "$vault/vault.json" || fail "vault.json does not name the scheme"
[[ -e $vault/servers/1 && ! -e $vault/servers/2 && -e $vault/top.cache ]] || fail "the vault has the wrong files"
s3oramfs mount "$vault" "$mount"
make_tree "$mount/tree" 80 1000000
written
s3oramfs status "$vault" > "$work/status.log"
grep -q '^servers   1, which learns nothing; it has the only copy$' "$work/status.log" || fail "$(< "$work/status.log")"
grep -qE '^top       [0-9]+ blocks? of at most [0-9]+ in top.cache' "$work/status.log" || fail "$(< "$work/status.log")"
s3oramfs status --check "$vault"
s3oramfs scrub "$vault" | grep 'every row of the server is intact' > /dev/null || fail "scrub does not say the right thing"
s3oramfs umount "$mount"

for ((round = 1; round <= ROUNDS; ++round)); do
  step "round $round: killed while files are written"
  s3oramfs mount "$vault" "$mount"
  intact "something changed by the kill"
  write_files "$round" 2> "$work/writing.log" &
  writing=$!
  sleep "0.$((RANDOM % 9))"
  if ((round % 2 == 0)); then
    kill_server
    wait "$writing"
    sync_files
    written
    kill_daemon
  else
    kill_daemon
    ended "$writing" 0 # it ends when it cannot write any more
    s3oramfs mount "$vault" "$mount"
    sync_files
    written
    kill_daemon
  fi
  case $((RANDOM % 4)) in
    1) rm "$vault/top.cache" ;;
    2) truncate -s 40000 "$vault/top.cache" ;;
    3) shred -n 1 "$vault/top.cache" ;;
  esac
done
s3oramfs mount "$vault" "$mount"
intact "something changed by a kill"
s3oramfs umount "$mount"
s3oramfs fsck "$vault"

step "vault.db and top.cache are lost"
rm "$vault"/vault.db* "$vault/top.cache"
expect 12 "restore" s3oramfs mount "$vault" "$mount"
s3oramfs restore --rewrite-first "$vault" > "$work/restore.log" 2>&1
! grep -E 'damaged|newer version' "$work/restore.log" || fail "nothing is damaged"
s3oramfs mount "$vault" "$mount"
intact "what was restored differs"
write_files restored
sync_files
written
kill_daemon
s3oramfs restore --force "$vault" > "$work/restore.log"
s3oramfs fsck "$vault"
s3oramfs mount "$vault" "$mount"
intact "what was restored beside a sound vault.db differs"
s3oramfs umount "$mount"

step "a store that is lost or damaged"
expect 20 "one copy" s3oramfs repair --server 1 "$vault"
mv "$vault/servers/1" "$work/store"
expect 18 "the only copy" s3oramfs mount "$vault" "$mount"
expect 12 "the only copy" s3oramfs fsck "$vault"
mv "$work/store" "$vault/servers/1"
slots=$vault/servers/1/slots
mv "$slots" "$work/slots"
expect 18 "lacks its buckets: $slots is missing" s3oramfs mount "$vault" "$mount"
cp "$work/slots" "$slots"
s3oramfs mount "$vault" "$mount"
intact "the slots came back, and something changed"
for n in {1..4}; do
  write_files more
  sync_files
done
written
wait_until "the written data is evicted" evicted
mv "$slots" "$work/newest"
wait_until "status counts the lost file" status_says "$slots"
mv "$work/newest" "$slots"
wait_until "the vault goes on without help" s3oramfs status --check "$vault"
s3oramfs umount "$mount"
mv "$slots" "$work/newest"
mv "$work/slots" "$slots"
expect 18 "lacks its buckets: $slots is " s3oramfs mount "$vault" "$mount"
mv "$work/newest" "$slots"
s3oramfs mount "$vault" "$mount"
intact "mislaid slots have changed something"
s3oramfs umount "$mount"

step "one remote server"
vault=$work/remote
make_servers store 1
server_more=(--record "$work/record")
start_servers
init=(s3oramfs init "${server_options[@]}" --expect 64M --block-size 8K --no-passphrase "$vault")
authorize "$("${init[@]}" 2> /dev/null | shown_key)"
"${init[@]}" --wait 20 > "$work/init.log"
grep -q '^One copy: ' "$work/init.log" || fail "init does not say that there is one copy"
s3oramfs backup --keys "$work/keys" "$vault"
s3oramfs mount "$vault" "$mount"
make_tree "$mount/tree" 40 500000
sync_files
stop_servers
start_servers
write_files remote
written
s3oramfs backup "$vault"
kill_daemon
stop_servers
start_servers
rm -r "$vault"
s3oramfs restore --from "$work/keys" "$vault" > "$work/restore.log"
s3oramfs mount "$vault" "$mount"
intact "what was restored differs"
s3oramfs umount "$mount"
s3oramfs fsck "$vault"
stop_servers
for what in access,read root,write eviction,read eviction,write upkeep,read; do
  [[ $(grep -c ",$what," "$work/record") -gt 0 ]] || fail "no $what in the server's record"
done
s3oramfs record plot "$work/record" --output "$work/record.svg"
