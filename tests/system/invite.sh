# shellcheck shell=bash
# Servers of other people: each gets one string, which is pasted once. Tests what an invitation
# permits and what it does not, and what a server says about itself.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

vault=$work/vault mount=$work/mount
mkdir "$mount"
addresses=()
for n in 1 2 3; do
  free_port "server_port[$n]"
  addresses+=("$host:${server_port[n]}")
done
server_name=store
invitation_of() { sed -n "/^Server $1, at/,/join/s/.*join //p" "$work/invite.out"; }
join() { serverd join --store "$work/store$1" --listen "${addresses[$1 - 1]}" "${@:2}"; }
# Runs as the server's unit would, with the configuration that join has made.
run_joined() {
  "$bin/s3oramfs-serverd" --config "$work/store$1/server.conf" >> "$work/store$1.log" 2>&1 &
  server_pid[store$1]=$!
  wait_until "server $1 listens" answers_on "${server_port[$1]}"
}

step "arguments that are not a list of servers"
expect 2 "HOST:PORT" s3oramfs invite --no-passphrase "$vault" one two three
expect 2 "given twice" s3oramfs invite --no-passphrase "$vault" "${addresses[0]}" "${addresses[0]}" "${addresses[1]}"
[[ ! -e $vault ]] || fail "it made a vault nevertheless"

step "inviting"
expect 14 "not joined yet: servers 1" s3oramfs invite --no-passphrase --wait 0 "$vault" "${addresses[@]}"
s3oramfs invite --no-passphrase --wait 0 "$vault" "${addresses[@]}" > "$work/invite.out" 2>&1 && fail "invite did not wait"
expect 1 "init" s3oramfs mount "$vault" "$mount"
cp "$work/invite.out" "$work/first"
s3oramfs invite --no-passphrase --wait 0 "$vault" "${addresses[@]}" > "$work/invite.out" 2>&1 && fail "invite did not wait"
diff <(grep join "$work/first") <(grep join "$work/invite.out") || fail "the second string is a different one"
if command -v qrencode > /dev/null; then
  s3oramfs invite --qr --no-passphrase --wait 0 "$vault" "${addresses[@]}" > "$work/qr" 2>&1 ||
    [[ $? == 14 ]] || fail "invite does not end as without the servers: $(< "$work/qr")"
  (($(grep -c '▀\|▄\|█' "$work/qr") > 30)) || fail "no QR codes"
else
  fail "qrencode is missing (Debian package qrencode)"
fi

step "joining"
text=$(invitation_of 2)
[[ $text == s3oramfs1-* ]] || fail "no invitation for server 2: $(cat "$work/invite.out")"
expect 2 "not a whole invitation" join 2 "${text%?????}"
expect 2 "not a whole invitation" join 2 "s3oramfs1-rubbish"
expect 2 "letters, digits" join 2 "$text" --name ../elsewhere
join 1 "$(invitation_of 1)" > "$work/join1"
join 2 - <<< "$(invitation_of 2)" > "$work/join2"
join 3 "$(invitation_of 3)" > "$work/join3"
join 3 "$(invitation_of 3)" > "$work/join3.again"
[[ $(stat -c %a "$work/store1/server.conf") == 644 ]] ||
  fail "the system's unit, which runs as another user, cannot read the configuration"
diff "$work/join3" "$work/join3.again" || fail "joining twice differs from joining once"
[[ $(stat -c %a "$work/store2/invitation") == 600 ]] || fail "others may read the invitation"
serverd status --store "$work/store2" | grep -q "waits     as server 2 of 3" || fail "$(serverd status --store "$work/store2")"
for n in 1 2; do run_joined "$n"; done
expect 14 "not joined yet: server 3" s3oramfs invite --no-passphrase --wait 5 "$vault" "${addresses[@]}"
# A server that is restarted meanwhile still waits.
stop_server 2
run_joined 2

step "the volume is made once all have joined"
s3oramfs invite --no-passphrase --wait 60 "$vault" "${addresses[@]}" > "$work/invite.out" 2>&1 &
inviting=$!
run_joined 3
wait "$inviting" || fail "the round did not end: $(cat "$work/invite.out")"
! grep -q "join s3oramfs1-.*" <(invitation_of 1) || fail "it invites a server that has joined"
for n in 1 2 3; do
  [[ ! -e $work/store$n/invitation ]] || fail "server $n keeps its invitation"
  serverd status --store "$work/store$n" > "$work/status"
  grep -q "^server    $n of 3$" "$work/status" || fail "$(cat "$work/status")"
  grep -q '^runs      yes$' "$work/status" || fail "$(cat "$work/status")"
  grep -q '^holds     .* of shares, since 20' "$work/status" || fail "$(cat "$work/status")"
done
# Both sides show the same letters and digits.
told=$(grep -ohE '([2-9A-Z]{4}-){3}[2-9A-Z]{4}' "$work/join3")
[[ -n $told ]] && grep -q "Server 3 .*$told" "$work/invite.out" || fail "the two sides show different letters"
s3oramfs mount "$vault" "$mount"
echo hello > "$mount/file"
s3oramfs top --count 2 "$vault" > "$work/top"
(($(grep -c "^server [123] ($host:" "$work/top") == 6)) || fail "top shows: $(cat "$work/top")"
s3oramfs umount "$mount"

step "a used invitation is worthless"
join 1 "$(sed -n '/^Server 1, at/,/join/s/.*join //p' "$work/first")" | grep -q "joined already" ||
  fail "server 1 joined twice"
[[ ! -e $work/store1/invitation ]] || fail "the used invitation is back"
expect 19 "another client" serverd join --store "$work/store1" - <<< "$(
  s3oramfs invite --no-passphrase --wait 0 "$work/other" "${addresses[@]}" 2>&1 | sed -n 's/.*join //p' | head -n 1
)"

step "changed keys take effect without a restart"
serverd authorize --store "$work/store1" "$(head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d =)" > "$work/said"
grep -q "runs, and admits this client" "$work/said" || fail "authorize says: $(cat "$work/said")"
wait_until "server 1 has read its clients again" grep -q "2 client keys are admitted" "$work/store1.log"
stop_servers
serverd authorize --store "$work/store1" "$(head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d =)" |
  grep -q "No server runs" || fail "authorize does not know that no server runs"

step "a list without the server's own key"
mapfile -t all < <(serverd peers --store "$work/store1")
wrong=$(serverd keygen --store "$work/elsewhere" 2> /dev/null)
expect 2 "this server's own key" serverd peers --store "$work/store1" "1=${addresses[0]},$wrong" "${all[@]:1}"
[[ $(serverd peers --store "$work/store1") == "$(printf '%s\n' "${all[@]}")" ]] || fail "the list was changed"
