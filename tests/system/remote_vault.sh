# shellcheck shell=bash
# The same on three servers of their own, over TCP under CURVE; all are stopped in between.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

mkdir "$work/mount"
make_servers store
start_servers

step "the servers do not know the client yet"
init=(s3oramfs init "${server_options[@]}" --keyfile "$work/key" "$work/vault")
code=0
said=$("${init[@]}" 2> "$work/init.log") || code=$?
[[ $code == 15 ]] || fail "init ended with $code instead of 15"
key=$(shown_key <<< "$said")
expect 19 unfinished s3oramfs init "${server_options[@]}" --block-size 128K --no-passphrase "$work/vault"
expect 15 "init again" "${init[@]}"
authorize "$key"
step "now they do: the same command goes on"
"${init[@]}" --wait 20
expect 19 "$work/vault" "${init[@]}"

between_mounts() {
  stop_servers
  no_processes_of "$work/store" || fail "a server is left"
  start_servers
}
fill_and_find "$work/vault" "$work/mount" --keyfile "$work/key"
stop_servers
