# shellcheck shell=bash
# Runs a vault under a workload while things fail: failures.sh PROGRAMS TEST-PROGRAMS local|remote
# [EVICTOR]. With `local` the vault and its servers share one disk. With `remote` each server has a
# disk and a link of its own, and the client has a disk. After each round everything is checked.
# ROUNDS, SEED and KINDS (the failures, in turn) may be given; VERBOSE=1 shows what the workload
# did.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/faults.sh
. "$(dirname "$0")/faults.sh"
need_fuse

: "${SEED:=1}"
RANDOM=$SEED
timeout=3
# The kernel does renames between directories one after another, so the rename of each of the three
# workers may wait for the deadline.
longest=$((3 * timeout + 3))
if [[ $3 == local ]]; then
  : "${ROUNDS:=5}" "${KINDS:=daemon power_client server_killed power_client server_stopped}"
elif [[ ${4:-} == matrix ]]; then # failures that interrupt evictions
  : "${ROUNDS:=5}" "${KINDS:=server_killed power_server daemon power_all power_client}"
else
  : "${ROUNDS:=8}"
  : "${KINDS:=server_killed power_server daemon link_cut power_all link_silent power_client server_stopped}"
fi
evictor=${4:-shuffle}
set_up "$3" --evictor "$evictor"

remount() {
  s3oramfs umount "$mount" 2> "$work/umount.log" || fail "umount: $(< "$work/umount.log")"
  s3oramfs mount --timeout "$timeout" "$vault" "$mount"
}
a_server() { echo $((1 + RANDOM % 3)); }
pause() { sleep "$((RANDOM % $1)).$((RANDOM % 10))"; }
survival() {
  case $((RANDOM % 4)) in
    0) echo nothing ;;
    1) echo all ;;
    *) echo random "$seed" ;;
  esac
}
# lose_power DISK PID...: the disk loses power at one of the next syncs, after which the processes
# do nothing more.
lose_power() {
  wait_until "$1 is frozen" power_is "$1" frozen
  kill -9 "${@:2}"
}
# return_power DISK: gives a disk its power back, once no process uses it.
return_power() {
  # shellcheck disable=SC2046
  tell "$1" on $(survival)
}

# ---- failures

daemon() {
  start_work "$seed" 60
  pause 2
  kill_now "$(daemon_of "$vault")"
  end_work 3
  remount
  check_work verify
}

power_client() {
  local users
  start_work "$seed" 60
  pause 2
  tell "$disk" freeze "$((1 + RANDOM % 50))"
  mapfile -t users < <(processes_of "$vault")
  lose_power "$disk" "${users[@]}"
  tell "$disk" off
  wait_until "all processes of the vault are gone" no_processes_of "$vault"
  end_work 3
  return_power "$disk"
  remount
  check_work verify
}

power_server() {
  local n store
  n=$(a_server) store=$work/store$n
  start_work "$seed" 4
  pause 2
  tell "$store" freeze "$((1 + RANDOM % 50))"
  lose_power "$store" "$(server_pid_of "$n")"
  tell "$store" off
  wait_until "server $n is gone" is_gone "$(server_pid_of "$n")"
  return_power "$store"
  restart_server "$n"
  end_work 0
  nothing_took "$longest"
  check_work compare
}

power_all() {
  local n d users pid
  start_work "$seed" 60
  pause 2
  for d in "$disk" "$work"/store?; do tell "$d" freeze "$((1 + RANDOM % 20))"; done
  mapfile -t users < <(processes_of "$vault")
  wait_until "a disk is frozen" any_frozen
  for d in "$disk" "$work"/store?; do tell "$d" freeze; done
  users+=("${server_pid[@]}")
  kill -9 "${users[@]}"
  for d in "$disk" "$work"/store?; do tell "$d" off; done
  for pid in "${users[@]}"; do wait_until "process $pid is gone" is_gone "$pid"; done
  end_work 3
  for d in "$disk" "$work"/store?; do return_power "$d"; done
  start_servers
  remount
  check_work verify
}
any_frozen() { grep -q frozen "$disk/.dropfs" "$work"/store?/.dropfs; }

server_killed() {
  local n
  n=$(a_server)
  start_work "$seed" 4
  pause 2
  kill_now "$(server_pid_of "$n")"
  restart_server "$n"
  end_work 0
  nothing_took "$longest"
  check_work compare
}

server_stopped() {
  local pid
  pid=$(server_pid_of "$(a_server)")
  start_work "$seed" $((timeout + 5))
  pause 1
  kill -STOP "$pid"
  sleep $((timeout + 2))
  kill -CONT "$pid"
  end_work 0
  nothing_took "$longest"
  check_work compare
}

link_silent() {
  local n
  n=$(a_server)
  start_work "$seed" $((timeout + 7))
  pause 1
  kill -STOP "${link_pid[n]}"
  sleep $((timeout + 2))
  kill -CONT "${link_pid[n]}"
  end_work 0
  nothing_took "$longest"
  check_work compare
}

link_cut() {
  local n
  n=$(a_server)
  start_work "$seed" 6
  pause 1
  kill_now "${link_pid[n]}"
  pause 2
  make_link "$n"
  end_work 0
  nothing_took "$longest"
  check_work compare
}

s3oramfs mount "$vault" "$mount"
start_work 0 1
end_work 0
s3oramfs status --json "$vault" | grep "\"evictor\": \"$evictor\"" > /dev/null || fail "the vault has another evictor"
s3oramfs umount "$mount"
s3oramfs mount --timeout "$timeout" "$vault" "$mount"
read -ra kinds <<< "$KINDS"
for ((round = 0; round < ROUNDS; ++round)); do
  kind=${kinds[round % ${#kinds[@]}]}
  seed=$((SEED * 1000 + round))
  step "round $((round + 1)), seed $seed: $kind"
  "$kind"
done
s3oramfs umount "$mount"
