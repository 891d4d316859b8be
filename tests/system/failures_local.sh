# shellcheck shell=bash
# A local vault under a workload, while its daemon is killed, its servers are killed or stand still,
# and the power goes. ROUNDS and SEED may be given; KINDS chooses among the failures.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/faults.sh
. "$(dirname "$0")/faults.sh"
need_fuse

: "${ROUNDS:=6}" "${SEED:=1}" "${KINDS:=daemon power server power daemon stopped}"
RANDOM=$SEED
timeout=3
disk=$work/disk
vault=$disk/vault
mount=$work/mount
mkdir "$mount"
make_disk "$disk"
# Small, so that much happens in a short time.
s3oramfs init --local --no-passphrase --block-size 4K --evict-every 16 --bucket-size 32 \
  --allow-overflow "$vault"
sync "$disk"
mount_again() { s3oramfs mount --timeout "$timeout" "$vault" "$mount"; }
server_of() { processes_of "$vault/servers/$1"; }

daemon_killed() {
  start_work "$seed" 60
  sleep "$((RANDOM % 3)).$((RANDOM % 10))"
  kill_now "$(daemon_of "$vault")"
  end_work 3
  s3oramfs umount "$mount"
  mount_again
  check_work verify
}

power_lost() {
  local all survival=(nothing "random $seed" "random $seed" all)
  start_work "$seed" 60
  sleep "$((RANDOM % 2)).$((RANDOM % 10))"
  tell "$disk" freeze "$((1 + RANDOM % 50))"
  wait_until "the disk is frozen" power_is "$disk" frozen
  mapfile -t all < <(processes_of "$vault")
  kill -9 "${all[@]}"
  tell "$disk" off
  wait_until "all processes of the vault are gone" no_processes_of "$vault"
  end_work 3
  s3oramfs umount "$mount" 2> "$work/umount.log" || umount "$mount"
  # shellcheck disable=SC2086
  tell "$disk" on ${survival[RANDOM % 4]}
  mount_again
  check_work verify
}

server_killed() {
  start_work "$seed" 4
  sleep "1.$((RANDOM % 10))"
  kill_now "$(server_of $((1 + RANDOM % 3)))"
  end_work 0
  check_work compare
}

server_stopped() {
  local server
  server=$(server_of $((1 + RANDOM % 3)))
  start_work "$seed" $((timeout + 5))
  sleep "0.$((RANDOM % 10))"
  kill -STOP "$server"
  sleep $((timeout + 2))
  kill -CONT "$server"
  end_work 0
  check_work compare
}

declare -A round_of=([daemon]=daemon_killed [power]=power_lost [server]=server_killed
  [stopped]=server_stopped)
read -ra kinds <<< "$KINDS"
mount_again
start_work 0 1
end_work 0
for ((round = 0; round < ROUNDS; ++round)); do
  kind=${kinds[round % ${#kinds[@]}]}
  seed=$((SEED * 1000 + round))
  step "round $((round + 1)), seed $seed: $kind"
  "${round_of[$kind]}"
done
s3oramfs umount "$mount"
