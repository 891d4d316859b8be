# shellcheck shell=bash
# What can be seen from outside: status in words and its exit code, metrics of the client and of a
# server, and `s3oramfs bench`, on a vault of three remote servers.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

vault=$work/vault mount=$work/mount
mkdir "$mount"

# get PORT PATH: prints the whole answer.
get() {
  exec 3<> "/dev/tcp/$host/$1"
  printf 'GET %s HTTP/1.1\r\nHost: localhost:%s\r\n\r\n' "$2" "$1" >&3
  cat <&3
  exec 3>&- 3<&-
}
# sample PORT NAME: prints one value of the page, as a whole number.
sample() {
  get "$1" /metrics | awk -v name="$2" '$1 == name { printf "%d", $2; found = 1 } END { exit !found }' ||
    fail "port $1 has no sample $2"
}
# grows PORT NAME FORMER: the value is now larger than FORMER.
grows() {
  (($(sample "$1" "$2") > $3)) || fail "port $1: $2 stays at $3"
}
first_line() { s3oramfs status "$vault" | head -n 1; }
says() { [[ $(first_line) == $1 ]]; }
# code_of COMMAND...: prints the command's exit code.
code_of() {
  local code=0
  "$@" > "$work/said" 2>&1 || code=$?
  echo "$code"
}

bench_works() { compgen -G "$mount/s3oramfs-bench-*/data" > "$work/said"; }

make_servers s
free_port client
free_port server_metrics
server_more=()
for n in 1 3; do start_server "$n"; done
server_more=(--metrics "$host:$server_metrics")
start_server 2
init=(s3oramfs init "${server_options[@]}" --no-passphrase --block-size 16K "$vault")
code=$(code_of "${init[@]}")
[[ $code == 15 ]] || fail "init ended with $code: $(< "$work/said")"
authorize "$(shown_key < "$work/said")"
"${init[@]}" --wait 20 > /dev/null

step "refusals"
expect 2 loopback s3oramfs mount --metrics 0.0.0.0:9751 "$vault" "$mount"
expect 2 "127.0.0.1:9751" s3oramfs mount -o metrics=9751 "$vault" "$mount"
expect 2 metrics-public serverd --store "$work/s2" --index 2 --listen 127.0.0.1:1 --metrics 0.0.0.0:1
says "not mounted" || fail "status of an unmounted vault: $(first_line)"
[[ $(code_of s3oramfs status --check "$vault") == 23 ]] || fail "--check of an unmounted vault"

step "an unmounted vault that a process holds, as a daemon does while it ends"
flock "$vault/lock" sleep 2 &
holder=$!
wait_until "it is held" eval '! flock --nonblock "$vault/lock" true'
expect 23 "is not mounted" s3oramfs status --check "$vault" # waits
wait "$holder"
flock "$vault/lock" sleep 60 &
holder=$!
wait_until "it is held" eval '! flock --nonblock "$vault/lock" true'
expect 13 "in use by process" s3oramfs status "$vault"
expect 13 "not mounted: a daemon still closes it" s3oramfs status --check "$vault"
pkill -P "$holder"
wait "$holder" || true

step "metrics of the client and of a server"
s3oramfs mount --timeout 5 --metrics "$host:$client" "$vault" "$mount"
says healthy || fail "status: $(first_line)"
[[ $(code_of s3oramfs status --check "$vault") == 0 ]] || fail "--check: $(< "$work/said")"
accesses=$(sample "$client" s3oramfs_accesses_total)
sent=$(sample "$client" 's3oramfs_sent_bytes_total{server="2"}')
writes=$(sample "$server_metrics" 's3oramfs_serverd_requests_total{kind="write_root"}')
received=$(sample "$server_metrics" 's3oramfs_serverd_received_bytes_total{peer="client"}')
syncs=$(sample "$server_metrics" s3oramfs_serverd_sync_seconds_count)
evictions=$(sample "$client" s3oramfs_evictions_total)
head -c 2M /dev/urandom > "$mount/file"
sync "$mount/file"
grows "$client" s3oramfs_accesses_total "$accesses"
grows "$client" s3oramfs_access_seconds_count "$accesses"
grows "$client" 's3oramfs_sent_bytes_total{server="2"}' "$sent"
grows "$client" s3oramfs_evictions_total "$evictions"
grows "$server_metrics" 's3oramfs_serverd_requests_total{kind="write_root"}' "$writes"
grows "$server_metrics" 's3oramfs_serverd_received_bytes_total{peer="client"}' "$received"
grows "$server_metrics" s3oramfs_serverd_sync_seconds_count "$syncs"
[[ $(sample "$client" s3oramfs_healthy) == 1 ]] || fail "the metric says that the vault is not healthy"
[[ $(sample "$client" 's3oramfs_server_answering{server="2"}') == 1 ]] || fail "server 2 answers"
(($(sample "$server_metrics" s3oramfs_serverd_store_bytes) > 2000000)) || fail "the store has no size"
[[ $(get "$client" /metrics) != *"$vault"* ]] || fail "the metrics page names the vault"
[[ $(get "$client" /) == "HTTP/1.1 404"* ]] || fail "the server answers for more than /metrics"
if command -v promtool > /dev/null; then # of the package prometheus, if it is installed
  for port in "$client" "$server_metrics"; do
    get "$port" /metrics | sed '1,/^\r$/d' | promtool check metrics
  done
fi

step "bench"
s3oramfs bench --size 2M --seconds 0.2 --json --plot "$work/picture.svg" "$vault" "$work" > "$work/bench.json"
for name in seq_write seq_read rand_read_4k_p99 sync_write_4k_p50 create delete; do
  [[ $(grep -c "\"$name\": {" "$work/bench.json") == 2 ]] || fail "bench has not measured $name twice"
done
grep -q '"filesystem": "fuse.s3oramfs"' "$work/bench.json" || fail "bench does not know the vault"
grep -q '</svg>' "$work/picture.svg" || fail "bench has drawn no picture"
accesses=$(sample "$client" s3oramfs_accesses_total)
"$bin/s3oramfs" bench --size 2M --seconds 60 "$mount" > "$work/bench.log" 2>&1 &
bench=$!
wait_until "bench works" bench_works
kill -TERM "$bench"
! wait "$bench" || fail "an interrupted bench ended with success"
grep -q interrupted "$work/bench.log" || fail "bench does not say that it was interrupted"
"$bin/s3oramfs" bench --size 2M --seconds 0.2 "$work" "$mount" > "$work/bench.log" 2>&1 &
bench=$!
wait_until "bench measures the second directory" bench_works
kill -TERM "$bench"
! wait "$bench" || fail "an interrupted bench ended with success"
grep -q "^delete files" "$work/bench.log" || fail "earlier measurements are lost: $(< "$work/bench.log")"
expect 2 "none is not a directory" s3oramfs bench --seconds 60 "$work" "$work/none"
for left in "$mount"/s3oramfs-bench-* "$work"/s3oramfs-bench-*; do
  [[ ! -e $left ]] || fail "bench has left $left behind"
done
expect 21 "are free" s3oramfs bench --size 100000G "$mount"

step "a server that is silent"
kill -STOP "${server_pid[s2]}"
date > "$mount/later"
wait_until "status names the silent server" says "server 2 ($host:${server_port[2]}) has not answered for * s: reading and writing wait"
[[ $(code_of s3oramfs status --check "$vault") == 24 ]] || fail "--check: $(< "$work/said")"
[[ $(< "$work/said") == *"server 2"* ]] || fail "--check says: $(< "$work/said")"
[[ $(code_of s3oramfs status "$vault") == 0 ]] || fail "status without --check fails"
[[ $(sample "$client" s3oramfs_healthy) == 0 ]] || fail "the metric says that the vault is healthy"
[[ $(sample "$client" 's3oramfs_server_answering{server="2"}') == 0 ]] || fail "server 2 answers"
kill -CONT "${server_pid[s2]}"
wait_until "it is healthy again" says healthy
s3oramfs umount "$mount"
says "not mounted" || fail "status of an unmounted vault: $(first_line)"

step "a daemon that has ended"
s3oramfs mount "$vault" "$mount"
kill -9 "$(s3oramfs status --json "$vault" | grep -o '"pid": [0-9]*' | tr -dc 0-9)"
wait_until "status notices" says "its daemon has ended: *"
[[ $(code_of s3oramfs status --check "$vault") == 24 ]] || fail "--check: $(< "$work/said")"
s3oramfs umount --force "$mount"
stop_servers
