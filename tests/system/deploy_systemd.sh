# shellcheck shell=bash
# Runs s3oramfs deploy to machines that seem to have systemd: what it asks of systemctl, loginctl and
# sudo, which are scripts here, and what it refuses. Each machine is this one, as another user sees it.
if [[ ${1:-} != namespace ]]; then
  # /run/systemd/system says that systemd runs, and other tests must not see it.
  exec unshare --mount --propagation private bash "$0" namespace "$@"
fi
shift
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
((EUID == 0)) || fail "this test makes users, and so needs root"

users=()
cleanup_more() {
  local user pid
  for user in "${users[@]}"; do
    for pid in $(ps -o pid= -u "$user"); do kill -9 "$pid"; done
    userdel -r "$user" 2> /dev/null
  done
}

# The others are hidden so that a fault of the program harms only this test.
for folder in /run /usr/local /var/lib; do mount -t tmpfs none "$folder"; done
mkdir -p /run/systemd/system
chmod 755 "$work"
fake=$work/fake state=$work/state vault=$work/vault
mkdir "$fake"
mkdir -m 777 "$state"

# ssh: runs the command as the user of USER@HOST. The words before "--" are options of ssh.
cat > "$fake/ssh" << END
#!/bin/bash
while [[ \$1 != -- ]]; do shift; done
user=\${2%@*}
[[ \$user == root ]] || export HOME=/home/\$user
[[ \$user != root ]] || export HOME=$work/root
export PATH=$fake:/usr/bin:/bin
cd / && exec setpriv --reuid "\$user" --regid "\$(id -g "\$user")" --clear-groups bash -c "\$3"
END
# loginctl: grants the user's own wish if there is a file "self", and root's always.
cat > "$fake/loginctl" << END
#!/bin/bash
[[ \$1 != --no-ask-password ]] || shift
case \$1 in
  show-user)
    [[ -e $state/linger-\$3 ]] || { echo "User is not logged in or lingering" >&2; exit 1; }
    echo Linger=yes ;;
  enable-linger)
    [[ -e $state/self || -n \${AS_ROOT-} ]] || { echo "Access denied" >&2; exit 1; }
    touch "$state/linger-\$2" ;;
  *) exit 1 ;;
esac
END
cat > "$fake/sudo" << END
#!/bin/bash
[[ \$1 == -n && -e $state/sudo ]] || { echo "a password is required" >&2; exit 1; }
shift
rm -f "$state/sudo"
AS_ROOT=yes exec "\$@"
END
# systemctl: starts the program that the user's unit names. There is no unit of the system's.
cat > "$fake/systemctl" << 'END'
#!/bin/bash
[[ $1 == --user ]] || exit 1
[[ $2 == enable ]] || exit 0
command=$(sed -n 's/^ExecStart=//p' "$HOME/.config/systemd/user/$4.service" | tr -d '"')
setsid $command < /dev/null >> "$HOME/server.log" 2>&1 &
END
chmod 755 "$fake"/*

tag=s3s$$
targets=()
for n in 1 2 3; do
  user=${tag}u$n
  useradd -m -p '*' -s /bin/bash "$user"
  users+=("$user")
  targets+=("$user@127.$((n + 10)).$(($$ >> 8 & 255)).$(($$ & 255))")
done
free_port port
deploy() { s3oramfs deploy --ssh "$fake/ssh" --port "$port" --bind --no-passphrase "$@"; }
stopped() { ! server_of "$1"; }
server_of() { pgrep -u "$1" -f "s3oramfs-serverd --config" > /dev/null; }

step "root without the unit of the package"
root=root@127.20.0.1
expect 2 "--package FILE" deploy "$vault" "${targets[@]:0:2}" "$root"
[[ ! -e /home/${users[0]}/.local ]] || fail "something was copied before the refusal"
[[ ! -e $vault ]] || fail "a vault was made"
# With the package: a program that is there without the unit does not count.
mkdir -p "$work/root/.local/bin"
printf '#!/bin/bash\n' > "$work/root/.local/bin/s3oramfs-serverd"
printf '#!/bin/bash\necho "$*" >> %s\nexit 1\n' "$state/installed" > "$fake/apt-get"
chmod 755 "$fake/apt-get" "$work/root/.local/bin/s3oramfs-serverd"
echo "no package" > "$work/server.deb"
expect 1 "installing the package at $root" deploy --package "$work/server.deb" "$vault" "$root"
grep -q "^install .*\.deb" "$state/installed" || fail "the package was not installed"
rm -f /tmp/s3oramfs-server.deb "$fake/apt-get"

step "users who may not linger"
expect 1 "loginctl enable-linger ${users[0]}" deploy "$vault" "${targets[@]}"
! server_of "${users[0]}" || fail "a server runs that systemd will stop"

step "one who may by sudo"
touch "$state/sudo" # for once
expect 1 "loginctl enable-linger ${users[1]}" deploy "$vault" "${targets[@]}"
[[ -e $state/linger-${users[0]} ]] || fail "${users[0]} does not linger"

step "users who may by themselves; the vault is begun already"
touch "$state/self"
deploy "$vault" "${targets[@]}"
for user in "${users[@]}"; do
  [[ -e $state/linger-$user ]] || fail "$user does not linger"
  server_of "$user" || fail "no server of $user runs"
done

step "again: a server that has stopped starts"
pkill -u "${users[2]}" -f s3oramfs-serverd
wait_until "the server is gone" stopped "${users[2]}"
deploy "$vault" "${targets[@]}" > "$work/again"
grep -q "made already" "$work/again" || fail "it says: $(< "$work/again")"
wait_until "the server runs again" server_of "${users[2]}"
expect 19 "already holds a vault" deploy "$vault" "${targets[@]:1}" "${targets[0]}"
