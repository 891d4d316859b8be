# shellcheck shell=bash
# Runs s3oramfs deploy over ssh to an sshd of its own, as three users of this machine, each at its
# own loopback address. s3oramfs is not installed there beforehand.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse
((EUID == 0)) || fail "this test makes users, and so needs root"
[[ -x /usr/sbin/sshd ]] || fail "sshd is missing (Debian package openssh-server)"

users=()
cleanup_more() {
  local user
  [[ ! -s $work.sshd ]] || kill "$(< "$work.sshd")"
  rm -f "$work.sshd"
  for user in "${users[@]}"; do
    for pid in $(ps -o pid= -u "$user"); do kill -9 "$pid"; done
    userdel -r "$user" 2> /dev/null
  done
}

chmod 755 "$work"
ssh-keygen -q -t ed25519 -N '' -f "$work/host_key"
ssh-keygen -q -t ed25519 -N '' -f "$work/user_key"
tag=s3o$$
targets=()
for n in 1 2 3; do
  user=${tag}u$n
  useradd -m -p '*' -s /bin/bash "$user"
  users+=("$user")
  install -d -m 700 -o "$user" -g "$user" "/home/$user/.ssh"
  install -m 600 -o "$user" -g "$user" "$work/user_key.pub" "/home/$user/.ssh/authorized_keys"
  targets+=("$user@127.$((n + 10)).$(($$ >> 8 & 255)).$(($$ & 255))")
done
free_port ssh_port
free_port port
mkdir -p /run/sshd
/usr/sbin/sshd -f /dev/null -h "$work/host_key" -o "PidFile=$work.sshd" -o "ListenAddress=0.0.0.0:$ssh_port" \
  -o UsePAM=no -o PasswordAuthentication=no -E "$work/sshd.log"
wait_until "sshd runs" test -s "$work.sshd"
ssh="ssh -p $ssh_port -i $work/user_key -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=$work/known -o LogLevel=ERROR"
vault=$work/vault mount=$work/mount
mkdir "$mount"
deploy() { s3oramfs deploy --ssh "$ssh" --port "$port" --bind --no-passphrase "$@"; }

step "a dry run"
deploy --dry-run "$vault" "${targets[@]}" > "$work/dry"
for target in "${targets[@]}"; do
  grep -q "^ssh .* -- $target " "$work/dry" || fail "no command at $target"
done
grep -q "s3oramfs-serverd join --start" "$work/dry" || fail "no join command is shown"
[[ ! -e $vault ]] || fail "a dry run made the vault"
[[ ! -e /home/${users[0]}/.local ]] || fail "a dry run did something"

step "refusals"
expect 2 "TARGET" deploy "$vault"
expect 2 "the same machine" deploy "$vault" "${targets[@]:0:2}" "root@${targets[0]#*@}"
expect 2 "localhost is a name" deploy -- "$vault" "${targets[@]:0:2}" root@localhost
expect 2 "USER@HOST" deploy -- "$vault" "${targets[@]:0:2}" "-oProxyCommand=x"
expect 1 "failed" deploy "$vault" "${targets[@]:0:2}" "nobody-there@${targets[2]#*@}"
[[ ! -e $vault/vault.db ]] || fail "deploy made the volume"

step "one command"
start=$SECONDS
deploy "$vault" "${targets[@]}"
step "in $((SECONDS - start)) s"
s3oramfs mount "$vault" "$mount"
echo hello > "$mount/file"
s3oramfs umount "$mount"
for n in 0 1 2; do
  store=/home/${users[n]}/.local/share/s3oramfs/vault
  [[ $(stat -c %U "$store/slots") == "${users[n]}" ]] || fail "the shares are not ${users[n]}'s"
  pgrep -u "${users[n]}" -f "s3oramfs-serverd --config $store/server.conf" > /dev/null || fail "no server of ${users[n]}"
done

step "again: everything exists already, and a server has stopped"
for pid in $(pgrep -u "${users[1]}" -f s3oramfs-serverd); do kill "$pid"; done
deploy "$vault" "${targets[@]}" > "$work/again"
grep -q "made already" "$work/again" || fail "it says: $(< "$work/again")"
s3oramfs mount "$vault" "$mount"
[[ $(< "$mount/file") == hello ]] || fail "the file is gone"
s3oramfs umount "$mount"
expect 19 "already holds a vault" deploy "$vault" "${targets[@]:1}" "${targets[0]}"

step "again, after it was cut short"
other=$work/other
for pid in $(pgrep -u "${users[2]}" -f s3oramfs-serverd); do kill "$pid"; done
free_port port
deploy --name other "$other" "${targets[@]}" > "$work/cut" 2>&1 &
cut=$!
wait_until "the first server is made" test -e "/home/${users[0]}/.local/share/s3oramfs/other/server.key"
for pid in $(processes_of "deploy --ssh") $(processes_of "$work/user_key"); do
  kill -9 "$pid" 2> /dev/null || [[ ! -e /proc/$pid ]] || fail "process $pid cannot be killed"
done
! wait "$cut" || fail "deploy was not cut short"
deploy --name other "$other" "${targets[@]}"
s3oramfs status "$other"
s3oramfs mount "$other" "$mount"
s3oramfs umount "$mount"
