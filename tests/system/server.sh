# shellcheck shell=bash
# A server is replaced with another machine while the vault is mounted. A mirror goes on meanwhile;
# with s3oram, where all servers are needed, accesses wait. The other servers learn of the new one
# without a restart, and the previous one is no longer admitted. Then the same for a vault that is
# not mounted.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

mount=$work/mount
mkdir "$mount"

# newcomer NAME N PORT...: makes the store $work/NAME for server N and runs it. Sets new_address.
newcomer() {
  local name=$1 n=$2 port key peers=() i
  mkdir -m 700 "$work/$name"
  free_port port
  key=$(serverd keygen --store "$work/$name" 2> /dev/null)
  new_address=$host:$port,$key
  for ((i = 1; i <= server_count; ++i)); do peers+=("$i=$host:${server_port[i]},${server_key[i]}"); done
  peers[n - 1]="$n=$new_address"
  serverd peers --store "$work/$name" "${peers[@]}"
  "$bin/s3oramfs-serverd" --store "$work/$name" --listen "$host:$port" >> "$work/$name.log" 2>&1 &
  server_pid[$name]=$!
  wait_until "the new server listens" answers_on "$port"
  server_port[n]=$port server_key[n]=$key
}
intact() { (cd "$mount" && sha256sum --quiet -c "$work/sums") || fail "a file has changed"; }

for scheme in mirror s3oram; do
  vault=$work/$scheme
  step "$scheme: a vault on three servers"
  make_servers "$scheme-"
  start_servers
  init=(s3oramfs init --scheme "$scheme" "${server_options[@]}" --no-passphrase --block-size 4K "$vault")
  client=$("${init[@]}" 2> "$work/init.log" | shown_key) || [[ $? == 15 ]] ||
    fail "init does not end as for a key that no server knows"
  authorize "$client" > /dev/null
  "${init[@]}" --wait 20 > "$work/init.log"
  s3oramfs mount "$vault" "$mount"
  for file in 1 2 3 4; do head -c 100000 /dev/urandom > "$mount/$file"; done
  (cd "$mount" && sha256sum ./* > "$work/sums")

  step "$scheme: a machine that does not know the client cannot take a server's place"
  former="2  $host:${server_port[2]},${server_key[2]}"
  newcomer "$scheme-new2" 2
  expect 15 "authorize it there" s3oramfs server replace "$vault" 2 --server "$new_address"
  s3oramfs server list "$vault" > "$work/list.log"
  grep -qF "$former  answers" "$work/list.log" || fail "$(< "$work/list.log")"

  step "$scheme: a new machine takes the place of server 2, mounted"
  serverd authorize --store "$work/$scheme-new2" "$client" > /dev/null
  kill -HUP "${server_pid[$scheme-new2]}"
  [[ $scheme == mirror ]] || stop_server 2 # the server is gone: everything waits for the new one
  s3oramfs server replace "$vault" 2 --server "$new_address" > "$work/replace.log" &
  replacing=$!
  wait_until "the daemon has begun" grep -qF "2=$new_address" "$work/$scheme-1/peers"
  # The command may be interrupted, and run again while the daemon is still replacing the server.
  s3oramfs server replace "$vault" 2 --server "$new_address" > "$work/again.log"
  grep -qF "every share of server 2 is intact" "$work/again.log" || fail "$(< "$work/again.log")"
  wait "$replacing" || fail "the first command failed: $(< "$work/replace.log")"
  grep -qF "every share of server 2 is intact" "$work/replace.log" || fail "$(< "$work/replace.log")"
  s3oramfs server list "$vault" > "$work/list.log"
  grep -qF "2  $new_address  answers" "$work/list.log" || fail "$(< "$work/list.log")"
  for n in 1 3; do
    grep -qF "2=$new_address" "$work/$scheme-$n/peers" || fail "server $n does not know the new one"
  done
  [[ $scheme != mirror ]] || stop_server 2
  head -c 100000 /dev/urandom > "$mount/5"
  (cd "$mount" && sha256sum ./* > "$work/sums")
  [[ $(s3oramfs status "$vault" | head -n 1) == healthy ]] || fail "$(s3oramfs status "$vault")"

  s3oramfs umount "$mount"
  [[ $scheme != mirror ]] || continue
  step "$scheme: another machine takes the place of server 3, not mounted"
  stop_server 3
  newcomer "$scheme-new3" 3
  serverd authorize --store "$work/$scheme-new3" "$client" > /dev/null
  kill -HUP "${server_pid[$scheme-new3]}"
  s3oramfs server replace "$vault" 3 --server "$new_address" > "$work/replace.log"
  grep -qF "server 3 held nothing" "$work/replace.log" || fail "$(< "$work/replace.log")"
  s3oramfs mount "$vault" "$mount"
  intact
  s3oramfs umount "$mount"
done

step "impossible replacements are refused"
expect 20 "is fixed when it is made" s3oramfs server add "$vault"
expect 20 "is fixed when it is made" s3oramfs server remove "$vault" 3
expect 2 "there is no server 4" s3oramfs server replace "$vault" 4 --server "$new_address"
s3oramfs init --local --no-passphrase "$work/local" > "$work/init.log"
expect 2 "run on this machine" s3oramfs server replace "$work/local" 1 --server "$new_address"
