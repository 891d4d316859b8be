# shellcheck shell=bash
# A distant server costs a sequential writer or reader no throughput. Over lines of the same rate,
# with a round trip of 100 ms to the servers and between them, it takes at most 1.5 times as long as
# without delay. One access at a time would take several times as long.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse
host=127.0.0.1 # the relay's address

# Mbit/s of the client's line, each way. On a faster line the evictions between distant servers, not
# the line, would set the pace (20 accesses must take longer than an eviction, about 1.4 s).
rate=5
relay_program=$bin/wan_relay
vault=$work/vault mount=$work/mount
relay_pid=()
declare -A took=() relay_port=()

# Servers reach each other through the relay too, by one way for each pair.
set_up() {
  local code=0 said n m peers
  make_servers store
  for n in 1 2 3; do
    free_port "listen_port[$n]"
    relay_port[user-$n]=${server_port[n]}
  done
  for n in 1 2 3; do
    peers=()
    for m in 1 2 3; do
      relay_port[$n-$m]=${listen_port[m]}
      ((n == m)) || free_port "relay_port[$n-$m]"
      peers+=("$m=127.0.0.1:${relay_port[$n-$m]},${server_key[m]}")
    done
    unset "relay_port[$n-$n]"
    serverd peers --store "$work/store$n" "${peers[@]}"
  done
  start_servers
  start_relay 0 0
  local init=(s3oramfs init --no-passphrase --block-size 64K "$vault" "${server_options[@]}")
  said=$("${init[@]}" 2> "$work/init.log") || code=$?
  [[ $code == 15 ]] || fail "init ended with $code instead of 15"
  authorize "$(shown_key <<< "$said")"
  "${init[@]}" --wait 20 > /dev/null 2> "$work/init.log"
  # The measured runs overwrite this data, so that the tree no longer grows.
  s3oramfs mount "$vault" "$mount"
  for _ in 1 2; do dd if="$work/data" of="$mount/data" bs=1M conv=notrunc,fsync status=none; done
  s3oramfs umount "$mount"
  wait_until "all processes of the vault have ended" no_processes_of "$vault"
  stop_relay
}

# start_relay ROUND-TRIP RATE: in ms and Mbit/s, 0 for no limit. The relay runs until its input
# ends.
start_relay() {
  local link links=()
  for link in "${!relay_port[@]}"; do
    links+=("$link=${relay_port[$link]}:${listen_port[${link#*-}]}")
  done
  exec {relay_input}<> "$work/relay"
  "$relay_program" --up "$2" --down "$2" --rtt "$1" --server-rtt "$1" "${links[@]}" \
    < "$work/relay" > "$work/relay.log" 2>&1 &
  relay_pid=($!)
  for link in "${!relay_port[@]}"; do
    wait_until "the relay listens for $link" answers_on "${relay_port[$link]}"
  done
}
stop_relay() {
  kill "${relay_pid[@]}"
  wait "${relay_pid[@]}" || [[ $? == 143 ]] || fail "the relay ended with $?"
  relay_pid=()
  exec {relay_input}>&-
}
cleanup_more() { # its command line does not show whose it is
  ((${#relay_pid[@]} == 0)) || kill -9 "${relay_pid[@]}"
}

# timed NAME COMMAND...: stores the command's duration in milliseconds in took[NAME].
timed() {
  local start=${EPOCHREALTIME/./}
  "${@:2}"
  took[$1]=$(((${EPOCHREALTIME/./} - start) / 1000))
}
# as_fast WHAT NEAR FAR: FAR is at most 1.5 times NEAR.
as_fast() {
  step "  $1: $2 ms with no round trip, $3 with one of 100 ms"
  ((2 * $3 <= 3 * $2)) || fail "$1 takes $3 ms far away, and $2 nearby"
}

# write_and_read ROUND-TRIP: reads after mounting again, when nothing is in memory.
write_and_read() {
  step "a round trip of $1 ms"
  start_relay "$1" "$rate"
  s3oramfs mount "$vault" "$mount"
  head -c 3M /dev/urandom > "$work/data"
  timed "write $1" dd if="$work/data" of="$mount/data" bs=1M conv=notrunc,fsync status=none
  s3oramfs umount "$mount"
  s3oramfs mount "$vault" "$mount"
  timed "read $1" dd if="$mount/data" of="$work/read" bs=1M status=none
  cmp "$work/data" "$work/read" || fail "other data comes back"
  s3oramfs umount "$mount"
  wait_until "all processes of the vault have ended" no_processes_of "$vault"
  stop_relay
}

mkdir "$mount"
mkfifo "$work/relay"
head -c 3M /dev/urandom > "$work/data"
set_up
write_and_read 0
write_and_read 100
as_fast "a sequential write" "${took[write 0]}" "${took[write 100]}"
as_fast "a sequential read" "${took[read 0]}" "${took[read 100]}"
stop_servers
