# shellcheck shell=bash
# Whatever is wrong, it is named, has its own exit code, and changes nothing.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

mount=$work/mount
mkdir "$mount" "$work/empty"
echo right > "$work/right"
echo wrong > "$work/wrong"
: > "$work/nothing"

# The files of a vault that nothing but its own mounting may change.
kept() { sha256sum "$1/vault.json" "$1/vault.key"; }
# refused CODE WORDS VAULT COMMAND...: also leaves no mount, no process and no changed file.
refused() {
  local before
  before=$(kept "$3")
  expect "$1" "$2" "${@:4}"
  ! is_mounted "$mount" || fail "mounted all the same: ${*:4}"
  wait_until "all processes of $3 have ended" no_processes_of "$3"
  [[ $(kept "$3") == "$before" ]] || fail "changed the vault: ${*:4}"
}

step "arguments"
expect 2 "no-such-command" s3oramfs no-such-command
expect 2 "VAULT" s3oramfs init --local
expect 2 "100" s3oramfs init --local --no-passphrase --block-size 100 "$work/new"
expect 2 "--allow-overflow" s3oramfs init --local --no-passphrase --bucket-size 16 --evict-every 46 "$work/new"
expect 2 "shuffle" s3oramfs init --local --no-passphrase --evictor sort "$work/new"
expect 2 "3 servers" s3oramfs init --local --no-passphrase --privacy-threshold 2 --evictor shuffle "$work/new"
expect 2 "seeds" s3oramfs init --local --no-passphrase --privacy information-theoretic --evictor shuffle "$work/new"
expect 2 "--allow-overflow" s3oramfs init --local --no-passphrase --evictor matrix \
  --evict-every 64 --bucket-size 70 "$work/new"
expect 2 "--allow-overflow" s3oramfs init --local --no-passphrase --evict-every 20 \
  --bucket-size 4 "$work/new"
expect 2 "2 servers" s3oramfs init --no-passphrase --server a:1,x --server b:1,x "$work/new"
expect 2 "not-a-server" s3oramfs init --no-passphrase --server not-a-server --server b --server c "$work/new"
expect 2 "$work/nothing" s3oramfs init --local --passfile "$work/nothing" "$work/new"
expect 1 "$work/no-such-file" s3oramfs init --local --passfile "$work/no-such-file" "$work/new"
[[ ! -e $work/new ]] || fail "a refused init left something"

step "a local vault"
s3oramfs init --local --passfile "$work/right" --block-size 4K "$work/vault"
vault=$work/vault
expect 19 "$vault" s3oramfs init --local --no-passphrase "$vault"
expect 19 "$work" s3oramfs init --local --no-passphrase "$work"
refused 10 "$vault" "$vault" s3oramfs mount --passfile "$work/wrong" "$vault" "$mount"
refused 10 "passphrase" "$vault" s3oramfs mount --keyfile "$work/right" "$vault" "$mount"
expect 11 "$work/empty" s3oramfs mount "$work/empty" "$mount"
expect 11 "$work/empty" s3oramfs status "$work/empty"
expect 11 "$work/empty" s3oramfs fsck "$work/empty"
expect 2 "VAULT" s3oramfs fsck
expect 11 "$work/missing" s3oramfs mount "$work/missing" "$mount"
refused 17 "$work/missing" "$vault" s3oramfs mount --passfile "$work/right" "$vault" "$work/missing"
refused 17 "$work/right" "$vault" s3oramfs mount --passfile "$work/right" "$vault" "$work/right"
expect 23 "$mount" s3oramfs umount "$mount"
expect 23 "$vault" s3oramfs umount "$vault"

step "a vault in use"
s3oramfs mount --passfile "$work/right" "$vault" "$mount"
echo kept > "$mount/file"
expect 13 "$vault" s3oramfs fsck "$vault"
expect 13 "$vault" s3oramfs mount --passfile "$work/right" "$vault" "$work/empty"
exec 3< "$mount/file"
expect 17 "in use" s3oramfs umount "$mount"
exec 3<&-
[[ $(< "$mount/file") == kept ]] || fail "the mount suffered"
s3oramfs umount "$mount"

step "a damaged vault"
cp -a "$vault" "$work/damaged"
damaged=$work/damaged
head -c 100 "$vault/vault.json" > "$damaged/vault.json"
refused 12 "$damaged/vault.json" "$damaged" s3oramfs mount --passfile "$work/right" "$damaged" "$mount"
expect 12 "$damaged/vault.json" s3oramfs status "$damaged"
sed 's/"block_size": 4096/"block_size": -1/' "$vault/vault.json" > "$damaged/vault.json"
refused 12 "block_size" "$damaged" s3oramfs mount --passfile "$work/right" "$damaged" "$mount"
sed 's/"format": 3/"format": 1000/' "$vault/vault.json" > "$damaged/vault.json"
refused 20 "$damaged/vault.json" "$damaged" s3oramfs mount --passfile "$work/right" "$damaged" "$mount"
cp "$vault/vault.json" "$damaged/vault.json"
head -c 20 "$vault/vault.key" > "$damaged/vault.key"
refused 12 "$damaged/vault.key" "$damaged" s3oramfs mount --passfile "$work/right" "$damaged" "$mount"
expect 12 "$damaged/vault.key" s3oramfs fsck --repair "$damaged"
cp "$vault/vault.key" "$damaged/vault.key"
chmod 644 "$damaged/vault.key"
refused 12 "chmod 600" "$damaged" s3oramfs mount --passfile "$work/right" "$damaged" "$mount"

step "servers that cannot be used"
make_servers store
expect 14 "127.0.0.1:${server_port[1]}" \
  s3oramfs init "${server_options[@]}" --timeout 2 --no-passphrase "$work/new"
[[ ! -e $work/new ]] || fail "an init without servers left something"
start_servers
code=0
said=$(s3oramfs init "${server_options[@]}" --block-size 4K --no-passphrase "$work/a" 2> /dev/null) || code=$?
[[ $code == 15 ]] || fail "an unknown key ended with $code instead of 15"
# An unfinished vault cannot be mounted.
expect 1 "init" s3oramfs mount "$work/a" "$mount"
expect 1 "init" s3oramfs fsck "$work/a"
authorize "$(shown_key <<< "$said")"
s3oramfs init "${server_options[@]}" --wait 20 --block-size 4K --no-passphrase "$work/a"
cp -a "$work/a" "$work/copy"
s3oramfs mount "$work/a" "$mount"
echo kept > "$mount/file"
s3oramfs umount "$mount"
refused 16 "$work/copy" "$work/copy" s3oramfs mount "$work/copy" "$mount"

step "another volume at the servers"
code=0
said=$(s3oramfs init "${server_options[@]}" --block-size 4K --no-passphrase "$work/b" 2> /dev/null) || code=$?
[[ $code == 15 ]] || fail "an unknown key ended with $code instead of 15"
authorize "$(shown_key <<< "$said")"
expect 18 "127.0.0.1:" \
  s3oramfs init "${server_options[@]}" --wait 20 --block-size 4K --no-passphrase "$work/b"

step "random bytes from strangers"
for n in 1 2 3; do
  for size in 0 1 9 64 1000 1000000; do
    # A server may close the connection before it has read all.
    (exec 3<> "/dev/tcp/127.0.0.1/${server_port[n]}" && head -c "$size" /dev/urandom >&3) \
      2> /dev/null || step "server $n closed the connection after $size bytes or fewer"
  done
  kill -0 "${server_pid[store$n]}" || fail "server $n died"
done
s3oramfs mount "$work/a" "$mount"
[[ $(< "$mount/file") == kept ]] || fail "the volume suffered"
s3oramfs umount "$work/a"

step "servers that are gone"
stop_servers
refused 14 "127.0.0.1:" "$work/a" s3oramfs mount --timeout 2 "$work/a" "$mount"
