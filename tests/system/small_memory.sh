# shellcheck shell=bash
# Three servers whose stores are ten times the memory that they have: everything comes back. The
# limit must cover both their own memory and the kernel's cache of their files, so a control group
# of version 1 or 2 is made for it, and the stores must be on a disk. LIMIT_MIB and DATA_MIB may be
# given.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/control_group.sh
. "$(dirname "$0")/control_group.sh"
need_fuse

: "${LIMIT_MIB:=64}" "${DATA_MIB:=12}"
limit=$((LIMIT_MIB << 20)) # of all three together
cache=2M                  # of each

[[ $(stat -f -c %T "$work") != tmpfs ]] || fail "$work lies in memory: set TMPDIR to a directory on a disk"
find_group || fail "no control group can be made here that limits memory: this test needs one, as root"
step "the servers have $LIMIT_MIB MiB together"
# shellcheck disable=SC2016
starter=(bash -c 'echo $$ > "$0" && exec "$@"' "$group/cgroup.procs")
server_more=(--cache "$cache")

mkdir "$work/mount"
make_servers store
start_servers
init=(s3oramfs init "${server_options[@]}" --block-size 16K --evict-every 8
  --bucket-size 8 --first-height 10 --keyfile "$work/key" "$work/vault")
code=0
said=$("${init[@]}" 2> "$work/init.log") || code=$?
[[ $code == 15 ]] || fail "init ended with $code instead of 15"
authorize "$(shown_key <<< "$said")"
"${init[@]}" --wait 20
s3oramfs mount --keyfile "$work/key" "$work/vault" "$work/mount"

head -c "${DATA_MIB}M" /dev/urandom > "$work/random"
step "writing $DATA_MIB MiB"
cp "$work/random" "$work/mount/random"
s3oramfs umount "$work/mount"
stored=$(du -c -B 1 "$work"/store[123]/slots | tail -n 1 | cut -f 1)
step "the servers hold $((stored >> 20)) MiB"
((stored >= 10 * limit)) || fail "less than ten times the limit: the test shows nothing"

# The pages that had been driven out of memory and were read again.
read_again() { awk '$1 == "workingset_refault_file" { printf "%.0f\n", $2 * 4096 }' "$group/memory.stat"; }
before=$(read_again)
s3oramfs mount --keyfile "$work/key" "$work/vault" "$work/mount"
step "reading them"
cmp "$work/random" "$work/mount/random"
from_disk=$(($(read_again) - before))
step "the servers have read $((from_disk >> 20)) MiB again from their disks"
((from_disk > limit)) || fail "the limit has no effect: most data stayed in memory"
step "at most $(($(of_group memory.peak memory.max_usage_in_bytes) >> 20)) MiB were in use"
s3oramfs umount "$work/mount"
stop_servers
