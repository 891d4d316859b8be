# shellcheck shell=bash
# A mounted vault moves from a ring to s3oram and back to another ring, while files are written.
# Meanwhile its daemon, a server that it leaves and a server that it moves to are killed, and the
# disk of a new server is full. Every synced byte must be there at the end. SEED may be given.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/faults.sh
. "$(dirname "$0")/faults.sh"
need_fuse
: "${SEED:=$RANDOM}"
RANDOM=$SEED
step "seed $SEED"

vault=$work/vault mount=$work/mount
mkdir "$mount"
written() { snapshot "$mount/tree" > "$work/written"; }
intact() {
  snapshot "$mount/tree" > "$work/read"
  same "$work/written" "$work/read" "$1"
}
sync_files() { find "$mount/tree" -type f -exec sync {} + -o -type d -exec sync {} +; }
moving() { [[ $(< "$vault/vault.json") == *'"moving_from"'* ]]; }
not_moving() { ! moving; }
# Prints how many blocks have moved; fails if none move.
moved() {
  local status
  status=$(s3oramfs status --json "$vault" | tr -d ' \n')
  [[ $status =~ '"moved":'([0-9]+) ]] || return 1
  echo "${BASH_REMATCH[1]}"
}
# has_moved COUNT: at least so many more blocks have moved than when `count_moved` was called.
has_moved() {
  local now
  now=$(moved) && ((now >= moved_before + $1))
}
count_moved() { moved_before=$(moved); }

# The servers of both sides run at the same time: `use NAME` chooses those that start_server and the
# like mean.
declare -A port_of=() count_of=()
remember() {
  local n
  count_of[$server_name]=$server_count
  for ((n = 1; n <= server_count; ++n)); do port_of[$server_name$n]=${server_port[n]}; done
}
use() {
  local n
  server_name=$1 server_count=${count_of[$1]}
  for ((n = 1; n <= server_count; ++n)); do server_port[n]=${port_of[$1$n]}; done
}
# kill_server NAME N: the server dies, and is started again.
kill_server() {
  use "$1"
  kill -9 "${server_pid[$1$2]}"
  ended "${server_pid[$1$2]}" 137
  start_server "$2"
}
kill_daemon() {
  kill -9 "$(daemon_of "$vault")"
  ended "$writer" 0
  umount -l "$mount"
  s3oramfs mount "$vault" "$mount"
}
# Changes files until the daemon is killed or it is told to stop, and checks each one immediately.
write_and_check() {
  local i
  for ((i = 0; ; ++i)); do
    [[ ! -e $work/enough ]] || return 0
    head -c $((RANDOM % 30000)) /dev/urandom > "$work/piece"
    cp "$work/piece" "$mount/busy$((i % 3))" || return 0
    cmp "$work/piece" "$mount/busy$((i % 3))" || { is_there && return 1 || return 0; }
  done
}
is_there() { [[ -e $mount/tree ]]; }
begin_writing() {
  rm -f "$work/enough"
  write_and_check > "$work/busy.log" 2>&1 &
  writer=$!
}
end_writing() {
  touch "$work/enough"
  ended "$writer" 0
}
# change_files NAME: writes and deletes some files, and makes this durable.
change_files() {
  local n
  for n in {1..6}; do head -c $((RANDOM % 40000)) /dev/urandom > "$mount/tree/$1.$n"; done
  find "$mount/tree" -name '*3' -type f -delete
  sync_files
  written
}
# migrate_to NAME: begins to move to these servers, slowly.
migrate_to() {
  local code=0
  use "$1"
  s3oramfs migrate --no-wait --rate 100K "${@:2}" "$vault" > "$work/migrate.log" 2>&1 || code=$?
  [[ $code == 15 ]] || fail "exit code $code from the new servers, which do not know the client"
  authorize "$(shown_key < "$work/migrate.log")"
  s3oramfs migrate --no-wait --rate 100K "${@:2}" "$vault" > "$work/migrate.log" 2>&1
  moving || fail "the migration has ended already"
  moved_before=0
  wait_until "blocks move" has_moved 1
}
# troubles FROM TO FULL-DISK: kills one after the other while blocks move.
troubles() {
  begin_writing
  step "  a server that the vault leaves is killed"
  count_moved
  kill_server "$1" 1
  wait_until "blocks move again" has_moved 3
  step "  a server that the vault moves to is killed"
  count_moved
  kill_server "$2" 1
  wait_until "blocks move again" has_moved 3
  change_files "$2"
  step "  the daemon is killed"
  kill_daemon
  intact "after a kill of the daemon"
  begin_writing
  step "  the disk of a new server is full"
  tell "$3" space 0
  sleep 1 # nothing may come of it, so there is nothing to wait for
  tell "$3" space 10000000000
  moving || fail "the migration has ended already"
  count_moved
  wait_until "blocks move again" has_moved 3
  end_writing
}
finish() {
  # It may have ended by itself.
  s3oramfs migrate --rate 0 "$vault" > "$work/migrate.log" 2>&1 || not_moving ||
    fail "$(< "$work/migrate.log")"
  not_moving || fail "the migration has not ended: $(< "$work/migrate.log")"
  intact "after the move to $1"
  s3oramfs status --check "$vault"
}

step "a ring with files"
make_servers ring 1
remember
start_servers
init=(s3oramfs init "${server_options[@]}" --expect 64M --block-size 8K --no-passphrase "$vault")
code=0
"${init[@]}" > "$work/init.log" 2>&1 || code=$?
[[ $code == 15 ]] || fail "exit code $code from a server that does not know the client"
authorize "$(shown_key < "$work/init.log")"
"${init[@]}" --wait 20 > "$work/init.log"
s3oramfs mount "$vault" "$mount"
make_tree "$mount/tree" 30 300000
head -c 800000 /dev/urandom > "$work/rest" # read only at the end, because a read moves it
cp "$work/rest" "$mount/rest"
sync "$mount/rest"
change_files ring

step "to s3oram"
make_disk "$work/three1"
make_servers three 3
remember
start_servers
migrate_to three "${server_options[@]}"
troubles ring three "$work/three1"
finish s3oram
use ring
stop_servers
cmp "$work/rest" "$mount/rest" || fail "a file that was only copied is not intact"

step "back to a ring"
rm -rf "$vault/source" # servers are left, and nothing on this machine
make_disk "$work/back1"
make_servers back 1
remember
start_servers
migrate_to back "${server_options[@]}"
troubles three back "$work/back1"
finish ring
use three
stop_servers
cmp "$work/rest" "$mount/rest" || fail "a file that was only copied is not intact"
s3oramfs umount "$mount"
s3oramfs fsck "$vault"
s3oramfs mount "$vault" "$mount"
intact "at the next mount"
cmp "$work/rest" "$mount/rest" || fail "a file is not intact at the next mount"
s3oramfs umount "$mount"
