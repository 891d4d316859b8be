# shellcheck shell=bash
# "healthy" means that a write begun now becomes durable. If something prevents that, it is reported
# within 5 s, with the server and the cause, by status, by `status --check`, in the JSON, by the
# metrics and in the log. Everything goes on without help once the cause is gone.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

vault=$work/vault mount=$work/mount
mkdir "$mount"
store() { echo "$vault/servers/$1"; }
server() { processes_of "$(store "$1")"; }
check() { s3oramfs status --check "$vault" 2>&1; }
healthy() { [[ $(check) == healthy ]]; }
now() { echo "${EPOCHREALTIME/./}"; } # us
last_answer="" slowest=0
# says WORDS...: succeeds if the check fails with a message that has all these words.
says() {
  local code=0 word
  last_answer=$(check) || code=$?
  [[ $code == 24 ]] || return 1
  for word in "$@"; do [[ $last_answer == *"$word"* ]] || return 1; done
}
logged() { tail -c "+$((log_start + 1))" "$1" | grep -F "$2" > /dev/null; }
metric() {
  exec 3<> "/dev/tcp/$host/$port"
  printf 'GET /metrics HTTP/1.1\r\nHost: localhost:%s\r\n\r\n' "$port" >&3
  awk -v name="$1" '$1 == name { print $2; found = 1 } END { exit !found }' <&3
  exec 3>&- 3<&-
}
# break_it NAME BREAK KIND WORDS...: BREAK is a function. Within 5 s everything reports the problem.
break_it() {
  local begun took
  step "$1"
  log_start=$(stat -c %s "$vault/run/fused.log")
  begun=$(now)
  "$2"
  until says "${@:4}"; do
    (($(now) - begun < ${WITHIN:-5000000})) || fail "after 5 s status says: $last_answer"
    sleep 0.1
  done
  took=$((($(now) - begun) / 1000))
  ((took <= slowest)) || slowest=$took
  step "  said after $took ms: $last_answer"
  [[ $(s3oramfs status "$vault" | head -n 1) == *"$4"* ]] || fail "the first line of status is wrong"
  s3oramfs status --json "$vault" | grep -F "\"kind\": \"${3%%\{*}\"" > /dev/null || fail "no cause $3 in the JSON"
  [[ $(metric s3oramfs_healthy) == 0 ]] || fail "the metric says that the vault is healthy"
  [[ $(metric "s3oramfs_problem$(label "$3")") == 1 ]] || fail "no metric of $3"
  wait_until "the log says so" logged "$vault/run/fused.log" "unhealthy: "
  logged "$vault/run/fused.log" "$4" || fail "the log does not name $4"
}
# label KIND[{N}]: prints the labels of the sample of this kind.
label() {
  if [[ $1 == *"{"* ]]; then
    local n=${1#*\{}
    echo "{kind=\"${1%%\{*}\",server=\"${n%\}}\"}"
  else
    echo "{kind=\"$1\"}"
  fi
}
# mend_it MEND: removes the cause, after which everything goes on.
mend_it() {
  "$1"
  wait_until "it is healthy again" healthy
  wait_until "the log says so" logged "$vault/run/fused.log" "healthy again"
  works
}
works() {
  local name=file$((++files))
  head -c 70000 /dev/urandom > "$work/$name"
  cp "$work/$name" "$mount/$name"
  wait_until "a write becomes durable" synced "$mount/$name"
  healthy || fail "after a write became durable: $(check)"
}
synced() { sync "$1" 2> "$work/works.log"; }
compare() {
  for ((i = 1; i <= files; ++i)); do cmp "$work/file$i" "$mount/file$i"; done
}
files=0

free_port port
s3oramfs init --local --no-passphrase --block-size 16K "$vault" > "$work/init.log"
mount_it() { s3oramfs mount --timeout 3 --metrics "$host:$port" "$vault" "$mount"; }
mount_it
for ((n = 0; n < 12; ++n)); do works; done

stop_2() { kill -STOP "$(server 2)"; }
go_on_2() { kill -CONT "$(server 2)"; }
break_it "a server hangs" stop_2 "server_silent{2}" "server 2 has not answered for"
mend_it go_on_2

# The server stands still between the copy and the cut, or the file that is put back could be too old.
cut_control() {
  kill -STOP "$(server 2)"
  cp -a "$(store 2)/control.db" "$work/control.kept"
  truncate -s 4096 "$(store 2)/control.db"
  kill -CONT "$(server 2)"
}
put_control() { cat "$work/control.kept" > "$(store 2)/control.db"; }
break_it "control.db is cut short while its server runs" cut_control "server_store{2}" "server 2" control.db
wait_until "server 2 says why in its log" grep -qF "control.db was truncated" "$vault/run/server-2.log"
mend_it put_control

lose_control() { mv "$(store 2)/control.db" "$work/control.away"; }
find_control() { mv "$work/control.away" "$(store 2)/control.db"; }
break_it "control.db is removed" lose_control "server_store{2}" "server 2" "control.db was removed"
mend_it find_control

lose_slots() { mv "$(store 3)/slots" "$work/slots.away"; }
find_slots() { mv "$work/slots.away" "$(store 3)/slots"; }
break_it "slots is removed" lose_slots "server_store{3}" "server 3" "slots was removed"
mend_it find_slots

cut_slots() {
  kill -STOP "$(server 3)"
  cp -a --sparse=always "$(store 3)/slots" "$work/slots.kept"
  truncate -s 100000 "$(store 3)/slots"
  kill -CONT "$(server 3)"
}
fill_slots() { cat "$work/slots.kept" > "$(store 3)/slots"; }
break_it "slots is cut short" cut_slots "server_store{3}" "server 3" "slots was truncated"
mend_it fill_slots

die_for_good() {
  kill -9 "$(server 1)"
  mkdir "$work/away"
  mv "$(store 1)"/control.db{,-wal,-shm} "$work/away"
  head -c 8192 /dev/urandom > "$(store 1)/control.db"
}
live_again() {
  rm -f "$(store 1)"/control.db{,-wal,-shm}
  mv "$work/away"/control.db* "$(store 1)"
}
break_it "a server ends, and cannot be started again" die_for_good "server_silent{1}" "server 1" "exit code 12" "control.db"
mend_it live_again

lose_database() { mv "$vault/vault.db" "$work/vault.db.away"; }
find_database() { mv "$work/vault.db.away" "$vault/vault.db"; }
break_it "vault.db is removed" lose_database vault_db "vault.db was removed"
date > "$mount/not yet"
! sync "$mount/not yet" 2> "$work/works.log" || fail "a commit into a removed file counts as durable"
mend_it find_database

# A store that was rolled back: writes wait, and nothing is lost once the newest store is back.
kill -STOP "$(server 2)" # a copy as after a crash
cp -a "$(store 2)" "$work/store.old"
kill -CONT "$(server 2)"
wait_until "server 2 is back" healthy
for ((n = 0; n < 12; ++n)); do works; done
set_back() {
  mv "$(store 2)" "$work/store.new"
  cp -a "$work/store.old" "$(store 2)"
  kill -9 $(processes_of "$(store 2)")
}
put_right() {
  mv "$(store 2)" "$work/store.unused"
  mv "$work/store.new" "$(store 2)"
}
break_it "a store is set back to an older copy" set_back "server_store{2}" "server 2" "set back"
head -c 300000 /dev/urandom > "$work/held"
cp "$work/held" "$mount/held"
! sync "$mount/held" 2> "$work/works.log" || fail "a write is durable without server 2"
s3oramfs umount "$mount" 2> "$work/works.log" && fail "umount says that everything is durable"
mend_it put_right
sync "$mount/held"

compare
s3oramfs umount "$mount"
mount_it
compare
cmp "$work/held" "$mount/held" || fail "data that waited for the newest store is lost"

step "a stopped daemon is reported as such"
daemon=$(daemon_of "$vault")
kill -STOP "$daemon"
begun=$(now)
expect 24 "process $daemon is stopped" s3oramfs status --check "$vault"
(($(now) - begun < 5000000)) || fail "status took longer than 5 s"
begun=$(now)
expect 14 "process $daemon is stopped" s3oramfs umount "$mount"
(($(now) - begun < 5000000)) || fail "umount took longer than 5 s"
kill -CONT "$daemon"
wait_until "it is healthy again" healthy

step "reading fails at the timeout, and not later"
s3oramfs umount "$mount"
mount_it
kill -STOP $(server 1) $(server 2) $(server 3)
begun=$(now)
! cat "$mount/file1" > "$work/read" 2> "$work/works.log" || fail "data was read without a server"
took=$((($(now) - begun) / 1000))
((took < 5500)) || fail "reading failed after $took ms, with a timeout of 3 s"
kill -CONT $(server 1) $(server 2) $(server 3)
wait_until "it is healthy again" healthy
cmp "$work/file1" "$mount/file1"
s3oramfs umount "$mount"
step "everything was reported within $slowest ms"
