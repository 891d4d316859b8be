# shellcheck shell=bash
# New keys on both sides, and a server that moves. Only public keys go from one machine to another,
# and a client that has only the previous keys is refused.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

vault=$work/vault mount=$work/mount
mkdir "$mount"
make_servers store
start_servers
code=0
said=$(s3oramfs init "${server_options[@]}" --block-size 4K --no-passphrase "$vault" 2> /dev/null) || code=$?
[[ $code == 15 ]] || fail "an unknown key ended with $code instead of 15"
former=$(shown_key <<< "$said")
authorize "$former"
s3oramfs init "${server_options[@]}" --wait 20 --block-size 4K --no-passphrase "$vault"
s3oramfs mount "$vault" "$mount"
echo kept > "$mount/file"
cp "$vault/vault.key" "$work/former.key"

step "a new key for the client"
cp -r "$vault" "$work/unfinished"
sed -i 's/"ready": true/"ready": false/' "$work/unfinished/vault.json"
said=$(s3oramfs rekey "$work/unfinished" 2>&1) && fail "an unfinished vault has a new key"
[[ $said == *"'s3oramfs init' again"* && -z $(shown_key <<< "$said") ]] || fail "rekey of an unfinished vault: $said"
code=0
said=$(s3oramfs rekey "$vault" 2>&1) || code=$? # fails, because the vault is mounted
[[ $code == 13 && $said == *"the same rekey again"* ]] || fail "rekey of a mounted vault: $code, $said"
fresh=$(shown_key <<< "$said")
[[ -n $fresh && $fresh != "$former" ]] || fail "no new key: $said"
s3oramfs umount "$vault"
expect 15 "the previous key is still in use" s3oramfs rekey "$vault"
s3oramfs mount "$vault" "$mount" # with the previous key
s3oramfs umount "$vault"
authorize "$fresh"
said=$(s3oramfs rekey --wait 20 "$vault")
[[ $said == *"revoke --store DIR $former"* ]] || fail "rekey does not show the key to revoke: $said"
for n in 1 2 3; do
  serverd revoke --store "$work/store$n" "$former"
  expect 2 "$former" serverd revoke --store "$work/store$n" "$former"
  kill -HUP "${server_pid[store$n]}"
done
s3oramfs mount "$vault" "$mount"
[[ $(< "$mount/file") == kept ]] || fail "the file is gone"
s3oramfs umount "$vault"
cp "$vault/vault.key" "$work/fresh.key"
cp "$work/former.key" "$vault/vault.key"
expect 15 "$host:" s3oramfs mount "$vault" "$mount"
cp "$work/fresh.key" "$vault/vault.key"

step "keys of many clients at the same time"
mkdir -m 700 "$work/crowded"
keys=()
for n in {1..20}; do keys+=("$(serverd keygen --store "$work/crowded/$n")"); done
printf '%s\n' "${keys[@]}" | xargs -P 8 -I KEY "$bin/s3oramfs-serverd" authorize --store "$work/crowded" KEY
for key in "${keys[@]}"; do grep -qxF -e "$key" "$work/crowded/clients" || fail "$key was lost"; done
expect 19 "public key is ${keys[0]}" serverd keygen --store "$work/crowded/1"

step "a server's key is not accepted as a client's"
expect 2 "this is server 2's key" serverd authorize --store "$work/store1" "${server_key[2]}"
cp "$work/store1/clients" "$work/clients"
echo "${server_key[2]}" >> "$work/store1/clients"
stop_servers
expect 2 "s3oramfs-serverd revoke" serverd --store "$work/store1" --listen "$host:${server_port[1]}"
serverd revoke --store "$work/store1" "${server_key[2]}"
cmp "$work/store1/clients" "$work/clients"
start_servers

step "a new key for a server that also moves"
key=$(serverd keygen --rotate --store "$work/store2")
[[ $key != "${server_key[2]}" ]] || fail "the key is the same"
free_port port
for n in 1 2 3; do serverd peers --store "$work/store$n" --update "2=$host:$port,$key"; done
stop_servers
former=${server_port[2]}
server_port[2]=$port
start_servers
expect 14 "no answer from server 2 ($host:$former): check" s3oramfs mount --timeout 2 "$vault" "$mount"
s3oramfs server "$vault" 2 "$host:$port,$(serverd keygen --store "$work/elsewhere")"
expect 14 "no answer from server 2 ($host:$port; it has a different key than the vault says" \
  s3oramfs mount --timeout 3 "$vault" "$mount"
s3oramfs server "$vault" 2 "nosuch.invalid:$port,$key"
expect 14 "this name does not resolve" s3oramfs mount --timeout 2 "$vault" "$mount"
expect 2 "server 1" s3oramfs server "$vault" 2 "$host:$port,${server_key[1]}"
expect 2 "no server 4" s3oramfs server "$vault" 4 "$host:$port,$key"
s3oramfs server "$vault" 2 "$host:$port,$key"
s3oramfs mount "$vault" "$mount"
[[ $(< "$mount/file") == kept ]] || fail "the file is gone"
expect 13 "$vault" s3oramfs server "$vault" 2 "$host:$port,$key"
head -c 3M /dev/urandom > "$work/random"
cp "$work/random" "$mount/random"
s3oramfs umount "$vault"
s3oramfs mount "$vault" "$mount"
cmp "$work/random" "$mount/random"

step "a server that forgets who may connect"
stop_server 1
mv "$work/store1/clients" "$work/clients"
start_server 1
wait_until "status says why it does not answer" status_says "(it does not know this client's key: authorize it there"
stop_server 1
mv "$work/clients" "$work/store1/clients"
start_server 1
cmp "$work/random" "$mount/random"
s3oramfs umount "$vault"

step "a server that forgets the others, or its volume"
stop_servers
mv "$work/store1/peers" "$work/peers"
expect 2 "its volume has 3 servers" serverd --store "$work/store1" --index 1 --listen "$host:${server_port[1]}"
mv "$work/peers" "$work/store1/peers"
rm "$work"/store1/control.db*
expect 12 "put the newest copy of the whole store back" \
  serverd --store "$work/store1" --index 1 --listen "$host:${server_port[1]}"
