# shellcheck shell=bash
# A mounted vault moves from a local ring to three remote servers, and another one from a local
# mirror to a ring, while files are read and written. The daemon is killed at the beginning, on the
# way and at the end. SEED may be given.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse
: "${SEED:=$RANDOM}"
RANDOM=$SEED
step "seed $SEED"

vault=$work/vault mount=$work/mount busy=
mkdir "$mount"
written() { snapshot "$mount/tree" > "$work/written"; }
intact() {
  snapshot "$mount/tree" > "$work/read"
  same "$work/written" "$work/read" "$1"
}
sync_files() { find "$mount/tree" -type f -exec sync {} + -o -type d -exec sync {} +; }
moving() { [[ $(< "$vault/vault.json") == *'"moving_from"'* ]]; }
not_moving() { ! moving; }
has_moved() {
  local status
  status=$(s3oramfs status --json "$vault" | tr -d ' \n')
  [[ $status =~ '"moved":'([0-9]+) && ${BASH_REMATCH[1]} -gt $1 ]]
}
# Kills the daemon, and mounts the vault again. Everything that was synced must be in it.
kill_and_mount() {
  kill -9 "$daemon"
  # A busy process would go on in the directory under the mount.
  [[ -z $busy ]] || wait "$busy" || fail "a file had other content: $(< "$work/busy.log")"
  busy=
  umount -l "$mount"
  s3oramfs mount "$vault" "$mount"
  daemon=$(daemon_of "$vault")
  intact "$1"
}
# Changes files until told to stop, and checks each one immediately.
busy() {
  local i
  for ((i = 0; ; ++i)); do
    head -c $((RANDOM % 30000)) /dev/urandom > "$work/piece"
    cp "$work/piece" "$mount/busy$((i % 3))" || return 0
    cmp "$work/piece" "$mount/busy$((i % 3))" || { [[ -e $work/killed ]] && return 0 || return 1; }
    [[ ! -e $work/killed ]] || return 0
  done
}

step "a local ring with files"
s3oramfs init --local --scheme ring --no-passphrase --expect 64M --block-size 8K "$vault" > "$work/init.log"
expect 23 "not mounted, and blocks move only while it is" s3oramfs migrate --local --servers 3 "$vault"
s3oramfs mount "$vault" "$mount"
daemon=$(daemon_of "$vault")
make_tree "$mount/tree" 30 300000
head -c 1000000 /dev/urandom > "$work/rest" # read only at the end: a read moves it
cp "$work/rest" "$mount/rest"
sync "$mount/rest"
sync_files
written
expect 2 "no migration is under way" s3oramfs migrate "$vault"

step "to three remote servers, with a kill at the beginning"
make_servers there 3
start_servers
begin() { s3oramfs migrate --no-wait --rate 60K "${server_options[@]}" "$vault"; }
begin > "$work/migrate.log" 2>&1 && fail "the new servers admitted an unknown client"
authorize "$(shown_key < "$work/migrate.log")"
expect 19 "was begun for other servers" s3oramfs migrate --local --servers 3 "$vault"
stop_server 2
expect 14 "server 2" s3oramfs migrate --timeout 2 "${server_options[@]}" "$vault"
intact "although a new server is away"
start_server 2
begin > "$work/migrate.log" 2>&1 &
command=$!
wait_until "vault.json names the new servers" moving
kill_and_mount "after a kill at the beginning"
ended "$command" 0 1 # 1: the daemon ended before it had answered
moving || fail "the migration has ended already"

step "with a kill on the way"
wait_until "blocks move" has_moved 10
s3oramfs status "$vault" | grep -E '^moving    from ring \(.*\): [0-9]+ % of [0-9]+ blocks here, about .* left; at most 60.0 KiB a second$' \
  > "$work/status.log" || fail "status does not show it: $(s3oramfs status "$vault")"
expect 2 "a migration is under way" s3oramfs migrate --local "$vault"
busy > "$work/busy.log" 2>&1 &
busy=$!
intact "while blocks move"
find "$mount/tree" -name '*1' -type f -delete
written
sync_files
touch "$work/killed"
kill_and_mount "after a kill on the way"
s3oramfs umount "$mount"
s3oramfs fsck "$vault" > "$work/fsck.log" || fail "$(< "$work/fsck.log")"
expect 23 "not mounted, and blocks move only while it is" s3oramfs migrate "$vault"
s3oramfs mount "$vault" "$mount"
daemon=$(daemon_of "$vault")
intact "after a mount on the way"

step "with a kill at the end"
s3oramfs migrate --rate 0 "$vault" > "$work/migrate.log" 2>&1 &
command=$!
wait_until "vault.json names the new servers alone" not_moving
kill_and_mount "after a kill at the end"
cmp "$work/rest" "$mount/rest" || fail "a file that was only copied is not intact"
wait "$command" || fail "migrate did not see the end: $(< "$work/migrate.log")"
[[ ! -e $vault/servers && ! -e $vault/next && ! -e $vault/top.cache && ! -e $vault/source/vault.db && -e $vault/source/servers/1 ]] ||
  fail "files: $(ls "$vault" "$vault/source")"
s3oramfs status --check "$vault"
expect 19 "rm -r $vault/source" s3oramfs migrate --local "$vault"
s3oramfs umount "$mount"
s3oramfs fsck "$vault"
stop_servers

step "from a local mirror to a ring"
vault=$work/mirror
s3oramfs init --local --scheme mirror --no-passphrase --expect 64M --block-size 8K "$vault" > "$work/init.log"
s3oramfs mount "$vault" "$mount"
make_tree "$mount/tree" 30 300000
written
rm "$work/killed"
busy > "$work/busy.log" 2>&1 &
busy=$!
s3oramfs migrate --local --scheme ring "$vault" > "$work/migrate.log"
touch "$work/killed"
wait "$busy" || fail "a file had other content: $(< "$work/busy.log")"
grep -q "rm -r $vault/source" "$work/migrate.log" || fail "$(< "$work/migrate.log")"
intact "when all have moved"
s3oramfs status --check "$vault"
s3oramfs umount "$mount"
s3oramfs fsck "$vault"
s3oramfs mount "$vault" "$mount"
intact "at the next mount"
s3oramfs umount "$mount"
