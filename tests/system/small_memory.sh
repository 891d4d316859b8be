# shellcheck shell=bash
# Three servers in little memory, whose shares of the files alone are ten times as much: everything
# comes back. The limit holds for their own memory and for what the kernel keeps of their files. Where
# no limit can be set (no cgroup to write to, or files that are memory themselves) the rest is done
# without one.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

limit=$((100 << 20)) # of all three together
cache=2M            # of each
data_mib=340        # and each server has a share of each byte

# try_group PARENT: a control group below it, in which a process finds the limit.
try_group() {
  group=$1/s3oramfs-test-$$
  mkdir "$group" 2> /dev/null || return 1
  if [[ -e $1/cgroup.subtree_control ]]; then
    { echo +memory > "$1/cgroup.subtree_control"; } 2> /dev/null
  fi
  local file
  for file in memory.max memory.limit_in_bytes; do
    if [[ -e $group/$file ]] &&
      { echo "$limit" > "$group/$file"; } 2> /dev/null &&
      (echo "$BASHPID" > "$group/cgroup.procs") 2> /dev/null; then
      [[ ! -e $group/memory.swap.max ]] || echo 0 > "$group/memory.swap.max"
      return
    fi
  done
  rmdir "$group"
  return 1
}

# Of the first version the memory controller's own tree, of the second the only one; where this
# process is, or else at the top.
find_group() {
  local version path top
  [[ $(stat -f -c %T "$work") != tmpfs ]] || return 1
  while IFS=: read -r version controllers path; do
    if [[ ,$controllers, == *,memory,* ]]; then
      top=/sys/fs/cgroup/memory
    elif [[ $version == 0 ]]; then
      top=/sys/fs/cgroup
    else
      continue
    fi
    try_group "$top${path%/}" || try_group "$top" || continue
    return 0
  done < /proc/self/cgroup
  return 1
}
of_group() { cat "$group/$1" "$group/$2" 2> /dev/null | head -n 1; }
cleanup_more() {
  [[ -n ${group:-} ]] || return 0
  wait_until "the servers have left their group" rmdir "$group"
}

if find_group; then
  step "the servers have $((limit >> 20)) MiB together"
  # shellcheck disable=SC2016
  starter=(bash -c 'echo $$ > "$0" && exec "$@"' "$group/cgroup.procs")
else
  group=
  step "NO LIMIT: no cgroup for memory can be made here; the same is done without"
fi
server_more=(--cache "$cache")

mkdir "$work/mount"
make_servers store
start_servers
init=(s3oramfs init "${server_options[@]}" --block-size 16K --evict-every 8
  --bucket-size 8 --keyfile "$work/key" "$work/vault")
code=0
said=$("${init[@]}" 2> "$work/init.log") || code=$?
[[ $code == 15 ]] || fail "init ended with $code instead of 15"
authorize "$(shown_key <<< "$said")"
"${init[@]}" --wait 20
s3oramfs mount --keyfile "$work/key" "$work/vault" "$work/mount"

head -c "${data_mib}M" /dev/urandom > "$work/random"
step "writing $data_mib MiB"
cp "$work/random" "$work/mount/random"
s3oramfs umount "$work/mount"
stored=$(du -c -B 1 "$work"/store[123]/slots | tail -n 1 | cut -f 1)
step "the servers hold $((stored >> 20)) MiB"
((3 * data_mib << 20 >= 10 * limit && stored >= 10 * limit)) || fail "less than ten times the limit: the test shows nothing"

# What had been driven out of memory and was read again.
read_again() { awk '$1 == "workingset_refault_file" { printf "%.0f\n", $2 * 4096 }' "$group/memory.stat"; }
[[ -z $group ]] || before=$(read_again)
s3oramfs mount --keyfile "$work/key" "$work/vault" "$work/mount"
step "reading them"
cmp "$work/random" "$work/mount/random"
if [[ -n $group ]]; then
  from_disk=$(($(read_again) - before))
  step "the servers have read $((from_disk >> 20)) MiB again from their disks"
  ((from_disk > limit)) || fail "the limit does not hold: most was in memory"
  step "at most $(($(of_group memory.peak memory.max_usage_in_bytes) >> 20)) MiB were in use"
fi
s3oramfs umount "$work/mount"
stop_servers
