# shellcheck shell=bash
# The same as local_vault.sh on three remote servers, over TCP under CURVE. All servers are stopped
# in between.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

mkdir "$work/mount"
make_servers store
start_servers

step "the servers do not know the client yet"
# Without fixed_lines, so that init measures the lines.
init=(s3oramfs init "${server_options[@]:0:6}" --keyfile "$work/key" "$work/vault")
code=0
said=$("${init[@]}" 2> "$work/init.log") || code=$?
[[ $code == 15 ]] || fail "init ended with $code instead of 15"
key=$(shown_key <<< "$said")
expect 19 unfinished s3oramfs init "${server_options[@]:0:6}" --block-size 128K --no-passphrase "$work/vault"
expect 15 "init again" "${init[@]}"
step "an unfinished vault may have numbers that measured lines chose, but no others"
s3oramfs init --local --bucket-size 8 --evict-every 8 --no-passphrase "$work/other" > "$work/other.log"
expect 19 unfinished "${init[@]}" --evict-every 64
for number in bucket_size evict_every stash_slots; do
  line=$(grep "\"$number\"" "$work/other/vault.json")
  sed -i "s/.*\"$number\".*/$line/" "$work/vault/vault.json"
done
expect 15 "init again" "${init[@]}"
expect 19 unfinished "${init[@]}" "${fixed_lines[@]}"

step "now they do, and the same command goes on and measures the lines"
authorize "$key"
"${init[@]}" --wait 20 > "$work/init.log"
cat "$work/init.log"
grep -qE "^Line: .*; between servers: [0-9f]" "$work/init.log" || fail "no line was measured"
expect 19 "$work/vault" "${init[@]}"

between_mounts() {
  stop_servers
  no_processes_of "$work/store" || fail "a server still runs"
  start_servers
}
fill_and_find "$work/vault" "$work/mount" --keyfile "$work/key"
stop_servers
