# shellcheck shell=bash
# Servers are dead, or stopped. Every operation on the mounted directory ends, with or without an
# error, and nothing hangs. Operations that need no server work; afterwards everything goes on.
# Unmounting works too, and says what it could not write.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/faults.sh
. "$(dirname "$0")/faults.sh"
need_fuse

PATH=$bin:$PATH # timeout(1) runs programs, not functions
timeout=2
limit=$((timeout + 12)) # with a margin for slow machines; a hang still exceeds it
set_up remote

# ends CODE COMMAND...: the command ends with this code (or "any"), and in time.
ends() {
  local code=0 start=$SECONDS
  timeout --signal=KILL $limit "${@:2}" > "$work/said.out" 2>&1 || code=$?
  [[ -z ${VERBOSE:-} ]] || step "    $((SECONDS - start)) s: ${*:2}"
  ((code != 137)) || fail "hangs: ${*:2}"
  [[ $1 == any || $code == "$1" ]] || fail "exit code $code instead of $1 from: ${*:2}"$'\n'"$(< "$work/said.out")"
}
said() { grep -q -e "$1" "$work/said.out" || fail "no word of \"$1\" but: $(< "$work/said.out")"; }
# A read that no page cache can answer.
read_directly() { dd if="$1" of=/dev/null bs=4K iflag=direct status=none; }
export -f read_directly

fill_some() {
  mkdir -p "$mount/directory"
  for file in synced other victim; do head -c 50K /dev/urandom > "$mount/$file"; done
  head -c 50K /dev/urandom > "$work/synced"
  cp "$work/synced" "$mount/synced"
  sync "$mount"/* "$mount"
  s3oramfs umount "$mount"
  s3oramfs mount --timeout "$timeout" "$vault" "$mount"
  head -c 8K "$mount/other" > "$work/cached"
}

# Checks that hold whatever the state of the servers.
operations() {
  step "  operations that need no server work"
  ends 0 ls -lR "$mount"
  ends 0 stat "$mount/synced" "$mount/directory"
  ends 0 stat -f "$mount"
  ends 0 mkdir "$mount/directory/new$1"
  ends 0 mv "$mount/victim" "$mount/renamed"
  ends 0 mv "$mount/renamed" "$mount/victim"
  ends 0 sync "$mount"
  ends 0 bash -c "head -c 8K '$mount/other' | cmp - '$work/cached'"
  ends 0 rm "$mount/victim"
  ends 0 s3oramfs status "$vault"
  step "  operations that need servers fail at the deadline"
  ends 1 bash -c "read_directly '$mount/synced'"
  said "Input/output error"
  wait_until "status reports it" reports_it
  ends any bash -c "echo unsynced > '$mount/written$1'"
  ends 1 sync "$mount/written$1"
  said "Input/output error"
  ends 1 mv "$mount/written$1" "$mount/other" # a file that replaces another is flushed first
  said "Input/output error"
  ends any truncate -s 100 "$mount/other"
  ends any dd if=/dev/zero of="$mount/direct" bs=4K count=10 oflag=direct,sync
  ends 14 s3oramfs scrub --timeout "$timeout" "$vault"
  said "makes no progress: .*its daemon keeps trying"
  echo "$1" > "$mount/held$1"
  ends 14 s3oramfs umount "$mount"
  said "--force"
  is_mounted "$mount" || fail "a failed umount has unmounted"
}

reports_it() {
  ends 0 s3oramfs status "$vault"
  grep -q "NOT ANSWERING" "$work/said.out"
}

goes_on() {
  step "  and everything goes on"
  works() { sync "$mount/held$1" "$mount"; } 2> "$work/works.log"
  wait_until "writing works again" works "$1"
  cmp "$work/synced" "$mount/synced" || fail "synced data is lost"
  [[ $(< "$mount/held$1") == "$1" ]] || fail "held data is lost"
}

s3oramfs mount --timeout "$timeout" "$vault" "$mount"
fill_some
step "one server is stopped"
kill -STOP "${server_pid[store2]}"
operations 1
kill -CONT "${server_pid[store2]}"
goes_on 1
fill_some
step "all servers are dead"
kill_now "${server_pid[@]}"
operations 2
start_servers
goes_on 2

step "unmounting with dead servers"
# Three waits: umount waits for the daemon, and the daemon for the data and for requests under way.
limit=$((3 * timeout + 12))
fill_some
kill_now "${server_pid[@]}"
echo lost > "$mount/lost"
ends 14 s3oramfs umount "$mount"
ends 14 s3oramfs umount --force "$mount"
said "is unmounted, but: not everything could be written"
! is_mounted "$mount" || fail "a forced umount left the mount"
wait_until "the daemon is gone" no_processes_of "$vault"
start_servers
s3oramfs mount --timeout "$timeout" "$vault" "$mount"
cmp "$work/synced" "$mount/synced" || fail "synced data is lost by a forced umount"

step "a daemon that is killed before it has ended"
daemon=$(processes_of "$vault")
kill_now "${server_pid[@]}"
echo lost > "$mount/lost"
ends 1 s3oramfs umount --force "$mount" &
unmounting=$!
wait_until "it is unmounted" eval '! is_mounted "$mount"'
kill_now "$daemon"
wait "$unmounting"
said "is unmounted, but: .*daemon ended"
start_servers
s3oramfs mount --timeout "$timeout" "$vault" "$mount"

step "a daemon that is killed while the kernel writes back to it"
# A thread that waits in the kernel for this cannot die, so without a guard nothing would end.
s3oramfs umount "$mount"
s3oramfs mount --timeout 100 --cache 8M "$vault" "$mount"
echo old > "$mount/replaced"
sync "$mount/replaced"
daemon=$(daemon_of "$vault")
kill -STOP "${server_pid[@]}"
(
  # This is too much data for both caches, so the program waits until the daemon has ended.
  if head -c 20M /dev/zero >&3; then step "everything was accepted"; fi
  exec sleep infinity
) 3> "$mount/open" &
writer=$!
written() { (($(stat -c %s "$mount/open") > 10000000)); }
wait_until "the kernel has more data than the daemon takes" written
mv "$mount/open" "$mount/replaced" 2> "$work/said.out" &
renaming=$!
waits_in_kernel() { grep -qs invalidate_inode_pages2 "/proc/$daemon/task/"*/stack; }
wait_until "a thread waits for what the kernel sends" waits_in_kernel
kill_now "$daemon"
wait_until "it is gone" no_processes_of "$vault"
! wait "$renaming" || fail "a rename worked without a daemon"
kill "$writer"
kill -CONT "${server_pid[@]}"
s3oramfs umount "$mount"
s3oramfs mount --timeout "$timeout" "$vault" "$mount"
[[ $(< "$mount/replaced") == old ]] || fail "a failed rename has replaced something"

step "unmounting lazily"
kill_now "${server_pid[@]}"
echo lost > "$mount/lost"
ends 14 s3oramfs umount --lazy "$mount"
ends any s3oramfs umount --lazy --force "$mount"
! is_mounted "$mount" || fail "a lazy umount left the mount"
wait_until "the daemon is gone" no_processes_of "$vault"
start_servers

step "a mount command that is killed while it waits"
kill_now "${server_pid[@]}"
"$bin/s3oramfs" mount --timeout 30 "$vault" "$mount" 2> "$work/said.out" &
mounting=$!
waits() { grep -q "waiting for servers 1 (" "$work/said.out"; }
wait_until "umount says what it waits for" waits
kill_now "$mounting"
start_servers
wait_until "its daemon is gone" no_processes_of "$vault"
! is_mounted "$mount" || fail "it is mounted nevertheless"

step "unmounting by umount(8)"
s3oramfs mount --timeout "$timeout" "$vault" "$mount"
kill_now "${server_pid[@]}"
echo lost > "$mount/lost"
ends any fusermount3 -u "$mount"
wait_until "the daemon is gone" no_processes_of "$vault"
start_servers
s3oramfs mount "$vault" "$mount"
cmp "$work/synced" "$mount/synced" || fail "synced data is lost"
s3oramfs umount "$mount"
