# shellcheck shell=bash
# A local vault in the least memory that docs/operator.md names for it (LIMIT_MIB). The daemon, the
# servers and the program that copies share one control group, as in a container. Nothing is killed,
# everything comes back, and caches follow the limit. If no control group can be made, the same
# limit is set on the data of each process (ulimit -d), which caches follow too, and the memory of
# all processes is added up.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/control_group.sh
. "$(dirname "$0")/control_group.sh"
need_fuse

: "${LIMIT_MIB:=320}" "${DATA_MIB:=44}"
limit=$((LIMIT_MIB << 20)) vault=$work/vault mount=$work/mount
number() { s3oramfs status --json "$vault" | grep -o "\"$1\": [0-9]*" | head -n 1 | tr -dc 0-9; }
# The memory that the processes of the vault hold themselves, in MiB.
held() {
  local process sum=0 kib
  for process in $(processes_of "$vault"); do
    kib=$(awk '$1 == "RssAnon:" { print $2 }' "/proc/$process/status" 2> /dev/null) || kib=0
    sum=$((sum + ${kib:-0}))
  done
  echo $((sum >> 10))
}
killed() { of_group memory.events memory.oom_control | awk '$1 == "oom_kill" { n = $2 } END { print n + 0 }'; }

set_limit() {
  local file=$group/memory.max
  [[ -e $file ]] || file=$group/memory.limit_in_bytes
  echo "$limit" > "$file"
}

mkdir "$mount"
s3oramfs init --local --no-passphrase "$vault"
head -c "${DATA_MIB}M" /dev/urandom > "$work/data"
# in_limit COMMAND...: runs the command in the group, or with the limit on data.
if find_group; then
  step "$LIMIT_MIB MiB in the control group $group"
  # shellcheck disable=SC2016
  in_limit() { bash -c 'echo $$ > "$0" && exec "$@"' "$group/cgroup.procs" "$@"; }
else
  step "no control group can be made here: $LIMIT_MIB MiB of data in each process instead"
  group=
  LIMIT_MIB=$((LIMIT_MIB + 1024)) # memory that threads reserve counts too
  limit=$((LIMIT_MIB << 20))
  # shellcheck disable=SC2016
  in_limit() { bash -c 'ulimit -d "$0" && exec "$@"' $((limit >> 10)) "$@"; }
fi

in_limit "$bin/s3oramfs" mount "$vault" "$mount"
cache=$(number limit)
step "the cache is $((cache >> 20)) MiB"
((cache <= limit / 8)) || fail "the cache does not follow the limit"
in_limit cp "$work/data" "$mount/data"
in_limit sync "$mount/data"
step "written; the processes hold $(held) MiB"
in_limit cmp -n 12M "$work/data" "$mount/data"
most=$(held)
step "read; the processes hold $most MiB"
((most < LIMIT_MIB)) || fail "the processes hold more than the limit"
s3oramfs status --check "$vault" > "$work/check" || fail "not healthy: $(< "$work/check")"
! grep -q 'ended by itself' "$vault/run/fused.log" || fail "a server ended"
if [[ -n $group ]]; then
  step "at most $(($(of_group memory.peak memory.max_usage_in_bytes) >> 20)) MiB were in use"
  [[ $(killed) == 0 ]] || fail "the kernel killed $(killed) processes"
  limit=$((512 << 20)) && set_limit
  step "in 512 MiB, of which another program takes a third: caches shrink"
  in_limit bash -c 'head -c "$0" /dev/zero | tail -c "$0" | sleep 5' $((limit / 3)) &
  hog=$!
  in_limit cmp -i 12M -n 12M "$work/data" "$mount/data" || fail "data is lost under memory pressure"
  wait "$hog"
  [[ $(killed) == 0 ]] || fail "the kernel killed $(killed) processes under pressure"
fi
s3oramfs umount "$mount"
s3oramfs mount "$vault" "$mount"
cmp -i 36M "$work/data" "$mount/data" # the end of the file
s3oramfs umount "$mount"

step "less than a mount can work with is refused"
limit=$((32 << 20))
if [[ -n $group ]]; then
  set_limit
  expect 20 "of memory" in_limit "$bin/s3oramfs" mount "$vault" "$mount"
else
  expect 20 "address space" in_limit "$bin/s3oramfs" mount "$vault" "$mount"
fi
