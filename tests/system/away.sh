# shellcheck shell=bash
# A mirror of three servers goes on while one of them hangs or is killed, without an error or a long
# pause. That server catches up without help, and then another one may go away.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

vault=$work/vault mount=$work/mount
mkdir "$mount"
readonly most_ms=5000 # 3 s, and a margin for a busy machine
s3oramfs init --scheme mirror --local --servers 3 --no-passphrase --block-size 4K "$vault" \
  > "$work/init.log"
s3oramfs mount "$vault" "$mount"

server() { processes_of "s3oramfs-serverd --store $vault/servers/$1 "; }
started_again() { s3oramfs status --json "$vault" | grep -E '"restarts": [1-9]' > /dev/null; }
all_in_step() { ! s3oramfs status --json "$vault" | grep -E '"place": "(away|catching up)"' > /dev/null; }

# Writes files one after another, each durable before the next, until told to stop. Prints the
# longest time that one write took, in ms.
write_files() {
  local begun took longest=0 number=0
  until [[ -e $work/stop ]]; do
    begun=${EPOCHREALTIME/[.,]/}
    head -c 20000 /dev/urandom > "$mount/$1-$number"
    sync "$mount/$1-$number"
    number=$((number + 1))
    took=$(((${EPOCHREALTIME/[.,]/} - begun) / 1000))
    ((took <= longest)) || longest=$took
  done
  echo "$longest"
}
begin_to_write() {
  rm -f "$work/stop"
  write_files "$1" > "$work/longest.$1" 2> "$work/errors.$1" &
  writer=$!
}
end_writing() {
  touch "$work/stop"
  wait "$writer" || fail "a program got an error: $(< "$work/errors.$1")"
  [[ ! -s $work/errors.$1 ]] || fail "a program got an error: $(< "$work/errors.$1")"
  echo "the longest pause: $(< "$work/longest.$1") ms"
  (($(< "$work/longest.$1") < most_ms)) || fail "a pause of $(< "$work/longest.$1") ms"
}

step "a server hangs"
begin_to_write hangs
kill -STOP "$(server 2)"
wait_until "the server is left out" status_says "2 of 3 servers hold all data"
expect 0 "healthy; warning: server " s3oramfs status --check "$vault"
status_says "warning: server 2 is away" || fail "status does not say who is away"
end_writing hangs
kill -CONT "$(server 2)"
wait_until "it has caught up" all_in_step

step "another server is killed"
begin_to_write killed
kill -9 "$(server 3)"
wait_until "it is started again" started_again
end_writing killed
wait_until "it has caught up" all_in_step
[[ $(s3oramfs status "$vault" | head -n 1) == healthy ]] || fail "not healthy: $(s3oramfs status "$vault")"

step "everything can be read from any two servers"
snapshot "$mount" > "$work/written"
kill -STOP "$(server 1)"
wait_until "the server is left out" status_says "server 1 is away"
[[ ! -w /proc/sys/vm/drop_caches ]] || echo 3 > /proc/sys/vm/drop_caches
snapshot "$mount" > "$work/read"
same "$work/written" "$work/read" "something changed"
kill -CONT "$(server 1)"
wait_until "it has caught up" all_in_step
s3oramfs umount "$mount"
s3oramfs scrub "$vault" > "$work/scrub.log"
! grep -q healed "$work/scrub.log" || fail "a server lacked something: $(< "$work/scrub.log")"
