# shellcheck shell=bash
# Sourced after lib.sh by tests of programs that have little memory. find_group makes a control
# group, of version 1 or 2, in which $limit bytes may be used, and stores its directory in $group.

# try_group PARENT: makes a control group below PARENT, and checks that a process in it finds the
# limit.
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

# Version 1 has a tree of its own for the memory controller; version 2 has only one tree. Tries the
# place of this process first, then the top.
find_group() {
  local version path top
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
# of_group FILE-OF-VERSION-2 FILE-OF-VERSION-1: prints the group's file of the version in use.
of_group() { cat "$group/$1" 2> /dev/null || cat "$group/$2"; }
cleanup_more() {
  [[ -d ${group:-} ]] || return 0
  wait_until "the servers have left their group" rmdir "$group"
}
