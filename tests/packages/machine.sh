# shellcheck shell=bash
# Sourced by the tests in the booted system. Has its servers, and a vault of each scheme on some of
# them. That of s3oram is the one of the examples. The packages are in /packages.
set -uo pipefail
# shellcheck source=tests/packages/checks.sh
. /tests/checks.sh

stores=/var/lib/s3oramfs
vault=/var/vaults/private
files=/srv/private
passphrase=/etc/s3oramfs/private.passphrase
servers=(a b c d e f g)
declare -A servers_of=([s3oram]="a b c" [mirror]="d e f" [ring]="g")
declare -A vault_of=([s3oram]=$vault [mirror]=/var/vaults/mirror [ring]=/var/vaults/ring)
declare -A files_of=([s3oram]=$files [mirror]=/srv/mirror [ring]=/srv/ring)
units=()
for name in "${servers[@]}"; do units+=("s3oramfs-server@$name.service"); done
trap 'journalctl --boot --no-pager > /tests.journal' EXIT
export DEBIAN_FRONTEND=noninteractive

install_newer() { dpkg -i /packages/newer/s3oramfs_*.deb /packages/newer/s3oramfs-server_*.deb; }
show() { systemctl show --value --property "$2" "s3oramfs-server@$1.service"; }
all_active() { systemctl is-active --quiet "${units[@]}"; }
restarted() {
  local now
  now=$(show "$1" MainPID)
  [[ $now != 0 && $now != "$2" ]] && systemctl is-active --quiet "s3oramfs-server@$1.service"
}
killed_all_return() {
  local name
  local -A before=()
  for name in "${servers[@]}"; do before[$name]=$(show "$name" MainPID); done
  kill -9 "${before[@]}" || return 1
  for name in "${servers[@]}"; do within 60 restarted "$name" "${before[$name]}" || return 1; done
}

# write_files FILE: writes into the mounted FILE without asking for durability.
write_files() { head -c 3000000 /dev/urandom | tee "$1" | sha256sum > "/root/sum${1//\//-}"; }
written_through() { write_files "$1" && sync "$1"; }
same_files() { [[ $(sha256sum < "$1") == "$(cat "/root/sum${1//\//-}")" ]]; }
# findmnt would cause an automount point to be mounted.
is_mounted() { grep " $1 .* - fuse.s3oramfs " /proc/self/mountinfo; }
# closed VAULT DIRECTORY: nothing is left to write, and no process that would write it.
closed() { none is_mounted "$2" && flock --nonblock "$1/lock" true; }
# durable [SCHEME]: data that was not durable is lost with the servers' memory.
durable() {
  local scheme=${1:-s3oram}
  closed "${vault_of[$scheme]}" "${files_of[$scheme]}" && killed_all_return
}
# mounted [SCHEME], unmounted [SCHEME]: mounts and unmounts its vault by hand.
mounted() { s3oramfs mount --passfile "$passphrase" "${vault_of[${1:-s3oram}]}" "${files_of[${1:-s3oram}]}"; }
unmounted() { s3oramfs umount "${files_of[${1:-s3oram}]}"; }

# metrics PORT LINE: the page served at PORT has a line that begins with LINE.
metrics() {
  local page
  page=$(
    exec 3<> "/dev/tcp/127.0.0.1/$1" || exit 1
    printf 'GET /metrics HTTP/1.1\r\nHost: localhost:%s\r\n\r\n' "$1" >&3
    cat <&3
  ) || return 1
  grep "^$2" <<< "$page" || { echo "$page"; return 1; }
}
servers_have_metrics() {
  local port
  for port in 9751 9752 9753; do
    metrics $port 's3oramfs_serverd_requests_total{kind="retrieve"} [1-9]' || return 1
  done
}

as_user() { runuser -u alice -- env XDG_RUNTIME_DIR="/run/user/$(id -u alice)" HOME=/home/alice "$@"; }
