# shellcheck shell=bash
# Each fault is named, has its own exit code, and changes nothing.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

mount=$work/mount
mkdir "$mount" "$work/empty"
echo right > "$work/right"
echo wrong > "$work/wrong"
: > "$work/nothing"

# The files of a vault that only its own mount may change.
kept() { sha256sum "$1/vault.json" "$1/vault.key"; }
# refused CODE WORDS VAULT COMMAND...: the command also leaves no mount, no process and no changed
# file.
refused() {
  local before
  before=$(kept "$3")
  expect "$1" "$2" "${@:4}"
  ! is_mounted "$mount" || fail "mounted nevertheless: ${*:4}"
  wait_until "all processes of $3 have ended" no_processes_of "$3"
  [[ $(kept "$3") == "$before" ]] || fail "changed the vault: ${*:4}"
}

step "arguments"
expect 2 "no-such-command" s3oramfs no-such-command
full() { "$@" > /dev/full; }
for words in "s3oramfs --help" "s3oramfs init --help" "$bin/s3oramfs-serverd --version" "$bin/s3oramfs-fused --help"; do
  # shellcheck disable=SC2086 # a command
  expect 1 "could not be written" full $words
done
expect 2 "VAULT" s3oramfs init --local
expect 2 "--expect: 0" s3oramfs init --local --no-passphrase --expect 0 "$work/new"
expect 2 "100" s3oramfs init --local --no-passphrase --block-size 100 "$work/new"
expect 2 "--allow-overflow" s3oramfs init --local --no-passphrase --bucket-size 16 --evict-every 46 "$work/new"
expect 2 "shuffle" s3oramfs init --local --no-passphrase --evictor sort "$work/new"
expect 2 "3 servers" s3oramfs init --local --no-passphrase --privacy-threshold 2 --evictor shuffle "$work/new"
expect 2 "seeds" s3oramfs init --local --no-passphrase --privacy information-theoretic --evictor shuffle "$work/new"
expect 2 "--allow-overflow" s3oramfs init --local --no-passphrase --evictor matrix \
  --evict-every 64 --bucket-size 70 "$work/new"
expect 2 "--allow-overflow" s3oramfs init --local --no-passphrase --evict-every 20 \
  --bucket-size 4 "$work/new"
expect 2 "--server is given 2 times" s3oramfs init --scheme s3oram --server a:1,x "$work/new" --no-passphrase --server b:1,x
expect 11 "$work/nothing" s3oramfs repair --server 1 "$work/nothing" --timeout 2
expect 2 "is not a key" s3oramfs init --no-passphrase --server a:1,x "$work/new"
# A wrong value is refused with the name of its option, also if --help does not show that option.
for word in --first-height={0,25,x} --between={0,x} --line={5,x} --evict-every={0,x} --bucket-size={0,x} \
  --privacy-threshold={0,64} --servers={0,128} --block-size={100,5000,x} --expect={0,x} --timeout={0,x} \
  --wait=x --scheme=x --privacy=x --evictor=x --security=x --top-cache={0,x,1K}; do
  expect 2 "${word%%=*}" s3oramfs init --local --no-passphrase "$word" "$work/new"
done
expect 2 "--between: x is not a number above 0" s3oramfs init --local --no-passphrase --between x "$work/new"
expect 2 "--servers 2: " s3oramfs init --local --scheme s3oram --servers 2 --no-passphrase "$work/new"
expect 2 "--bucket-size 30" s3oramfs init --local --no-passphrase --evictor matrix --allow-overflow \
  --evict-every 64 --bucket-size 30 "$work/new"
expect 2 "ADDRESS x: " s3oramfs server "$work/new" 1 x
expect 2 "--server x: " s3oramfs server replace "$work/new" 1 --server x
expect 2 "not-a-server" s3oramfs init --no-passphrase --server not-a-server --server b --server c "$work/new"
expect 2 "--keyfile: its value is empty" s3oramfs init --local --keyfile "" "$work/new"
expect 2 "--from: its value is empty" s3oramfs restore --from "" "$work/new"
expect 2 "--keys: its value is empty" s3oramfs backup --keys "" "$work/new"
expect 2 "VAULT: its value is empty" s3oramfs fsck ""
expect 2 "$work/nothing" s3oramfs init --local --passfile "$work/nothing" "$work/new"
expect 1 "$work/no-such-file" s3oramfs init --local --passfile "$work/no-such-file" "$work/new"
[[ ! -e $work/new ]] || fail "a refused init left files behind"
deep=$work/$(printf 'deep/%.0s' {1..100})
mkdir -p "$deep"
expect 2 "path is too long" s3oramfs init --local --no-passphrase "$deep/new"
[[ ! -e $deep/new ]] || fail "a refused init left files behind"

step "a local vault"
s3oramfs init --local --passfile "$work/right" --block-size 4K "$work/vault"
vault=$work/vault
expect 19 "$vault" s3oramfs init --local --no-passphrase "$vault"
expect 19 "$work" s3oramfs init --local --no-passphrase "$work"
refused 10 "$vault" "$vault" s3oramfs mount --passfile "$work/wrong" "$vault" "$mount"
refused 10 "passphrase" "$vault" s3oramfs mount --keyfile "$work/right" "$vault" "$mount"
expect 2 "--new-passfile" setsid "$bin/s3oramfs" passwd --passfile "$work/right" "$vault"
expect 2 "--passfile FILE" setsid "$bin/s3oramfs" init --local "$work/new"
cp -r "$vault" "$work/broken"
echo '{' > "$work/broken/vault.json"
expect 12 "not overwritten" s3oramfs init --local --no-passphrase "$work/broken"
expect 2 "-o passfile: its value is missing" s3oramfs mount -o passfile "$vault" "$mount"
expect 2 "ro takes no value" s3oramfs mount -o ro=1 "$vault" "$mount"
expect 2 "help" s3oramfs help mount umount
s3oramfs help --help > "$work/help"
grep -q "^  init --local VAULT" "$work/help" || fail "help --help"
expect 11 "$work/empty" s3oramfs mount "$work/empty" "$mount"
expect 11 "$work/empty" s3oramfs status "$work/empty"
expect 11 "$work/empty" s3oramfs fsck "$work/empty"
expect 2 "VAULT" s3oramfs fsck
expect 2 "--new-keyfile" s3oramfs passwd --list --new-keyfile "$work/new" "$vault"
expect 2 "--no-passphrase" s3oramfs passwd --list --no-passphrase "$vault"
expect 2 "--new-keyfile" s3oramfs passwd --remove 2 --new-keyfile "$work/new" "$vault"
expect 1 "$work/missing/picture.svg" s3oramfs bench --plot "$work/missing/picture.svg" "$work"
expect 2 "ends in .svg or .png" s3oramfs bench --plot "$work/picture.jpg" "$work"
expect 11 "$work/missing" s3oramfs mount "$work/missing" "$mount"
refused 17 "$work/missing" "$vault" s3oramfs mount --passfile "$work/right" "$vault" "$work/missing"
refused 17 "$work/right" "$vault" s3oramfs mount --passfile "$work/right" "$vault" "$work/right"
expect 23 "$mount" s3oramfs umount "$mount"
expect 23 "$vault" s3oramfs umount "$vault"

step "a vault in use"
# A daemon that was started without stdin, stdout and stderr must not use these numbers for its
# files. It must not keep its caller's descriptors either.
exec 4> "$work/callers"
flock 4
s3oramfs mount -o noatime "$vault" --passfile <(echo right) "$mount" <&- >&- 2>&-
exec 4>&-
flock --nonblock "$work/callers" true || fail "the daemon holds a file of its caller"
echo kept > "$mount/file"
expect 13 "$vault" s3oramfs fsck --repair "$vault"
expect 13 "$vault" s3oramfs mount --passfile "$work/right" "$vault" "$work/empty"
exec 3< "$mount/file"
expect 17 "in use" s3oramfs umount "$mount"
exec 3<&-
[[ $(< "$mount/file") == kept ]] || fail "the mount was affected"
mount -t tmpfs other "$mount"
expect 17 "another mount lies over it" s3oramfs umount "$vault"
umount --internal-only "$mount"
[[ $(< "$mount/file") == kept ]] || fail "the mount above is still there"
s3oramfs umount "$mount"

step "a damaged vault"
cp -a "$vault" "$work/damaged"
damaged=$work/damaged
head -c 100 "$vault/vault.json" > "$damaged/vault.json"
refused 12 "$damaged/vault.json" "$damaged" s3oramfs mount --passfile "$work/right" "$damaged" "$mount"
expect 12 "$damaged/vault.json" s3oramfs status "$damaged"
sed 's/"block_size": 4096/"block_size": -1/' "$vault/vault.json" > "$damaged/vault.json"
refused 12 "block_size" "$damaged" s3oramfs mount --passfile "$work/right" "$damaged" "$mount"
sed 's/"format": [0-9]*/"format": 1000/' "$vault/vault.json" > "$damaged/vault.json"
refused 20 "$damaged/vault.json" "$damaged" s3oramfs mount --passfile "$work/right" "$damaged" "$mount"
cp "$vault/vault.json" "$damaged/vault.json"
head -c 20 "$vault/vault.key" > "$damaged/vault.key"
refused 12 "$damaged/vault.key" "$damaged" s3oramfs mount --passfile "$work/right" "$damaged" "$mount"
expect 12 "from a copy" s3oramfs mount --passfile "$work/right" "$damaged" "$mount"
expect 12 "$damaged/vault.key" s3oramfs fsck --repair "$damaged"
cp "$vault/vault.key" "$damaged/vault.key"
chmod 644 "$damaged/vault.key"
refused 1 "chmod 600" "$damaged" s3oramfs mount --passfile "$work/right" "$damaged" "$mount"
chmod 600 "$damaged/vault.key"
s3oramfs init --local --passfile "$work/right" "$work/stranger" > /dev/null
cp "$work/stranger/vault.key" "$damaged/vault.key"
expect 12 "vault.key belongs to another vault" \
  s3oramfs mount --passfile "$work/right" "$damaged" "$mount"
cp "$vault/vault.key" "$damaged/vault.key"
mv "$damaged/servers/1" "$work/store"
expect 18 "servers/1: the store of this server is gone" \
  s3oramfs mount --passfile "$work/right" "$damaged" "$mount"
mv "$damaged/servers/2" "$damaged/servers/1"
mv "$work/store" "$damaged/servers/2"
expect 18 "belongs to server" s3oramfs mount --passfile "$work/right" "$damaged" "$mount"

step "servers that cannot be used"
make_servers store
expect 14 "$host:${server_port[1]}" \
  s3oramfs init "${server_options[@]}" --timeout 2 --no-passphrase "$work/new"
[[ ! -e $work/new ]] || fail "an init without servers left files behind"
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

step "the servers hold another volume"
code=0
said=$(s3oramfs init "${server_options[@]}" --block-size 4K --no-passphrase "$work/b" 2> /dev/null) || code=$?
[[ $code == 15 ]] || fail "an unknown key ended with $code instead of 15"
authorize "$(shown_key <<< "$said")"
expect 18 "$host:" \
  s3oramfs init "${server_options[@]}" --wait 20 --block-size 4K --no-passphrase "$work/b"

step "reasons for which a server does not start"
# refuses CODE WORDS OPTION...: server 2, started with these options, ends immediately.
refuses() { expect "$1" "$2" timeout 10 "$bin/s3oramfs-serverd" --store "$work/store2" "${@:3}"; }
free_port port
here=$host:$port
expect 13 "store $work/store2: another server runs on this store" \
  serverd --store "$work/store2" --listen "$here"
stop_server 2
refuses 2 "--index 0" --listen "$here" --index 0
printf '# two\n\nlisen = "%s"\n' "$here" > "$work/conf"
refuses 2 "$work/conf: line 3: no such setting \"lisen\": did you mean \"listen\"?" --config "$work/conf"
refuses 2 "$work/none" --config "$work/none"
refuses 19 "$host:${server_port[1]}: another process listens there" --listen "$host:${server_port[1]}"
refuses 1 "192.0.2.1:$port: no interface of this machine" --listen "192.0.2.1:$port"
refuses 2 "is that of server 2 in the list of servers" --listen "$here" --index 1
expect 2 "$work/nowhere: no such directory; 's3oramfs-serverd keygen" \
  serverd --store "$work/nowhere" --listen "$here" --index 2
chmod 640 "$work/store2/server.key"
refuses 1 "$work/store2/server.key: others may read this key (mode 0640): 'chmod 600' it" --listen "$here"
chmod 600 "$work/store2/server.key"
chmod 666 "$work/store2/clients"
refuses 1 "$work/store2/clients: others may write to it (mode 0666)" --listen "$here"
chmod 600 "$work/store2/clients"
cp "$work/store2/peers" "$work/peers"
echo "4=somewhere" >> "$work/store2/peers"
refuses 2 "$work/store2/peers: line 4: " --listen "$here"
cp "$work/peers" "$work/store2/peers"
cp "$work/store2/control.db" "$work/control.db"
sqlite3 "$work/store3/control.db" ".backup '$work/store2/control.db'" # another server's, of this volume
refuses 18 "$work/store2 belongs to server 3 of its volume, and this is server 2" --listen "$here"
head -c 10000 /dev/urandom > "$work/store2/control.db"
refuses 12 "$work/store2/control.db" --listen "$here"
cp "$work/control.db" "$work/store2/control.db"
if ((EUID == 0)); then # only root can mount a small disk
  mkdir "$work/full"
  mount -t tmpfs -o size=64k,nr_inodes=30,mode=700 none "$work/full"
  cp "$work/store2/server.key" "$work/store2/peers" "$work/full"
  head -c 40k /dev/zero > "$work/full/other"
  expect 21 "$work/full/control.db: its disk is full; make room there" \
    timeout 10 "$bin/s3oramfs-serverd" --store "$work/full" --listen "$here"
  for more in {1..30}; do touch "$work/full/more$more" 2> /dev/null || break; done
  expect 21 "$work/full/store: No space left" serverd keygen --store "$work/full/store"
  umount "$work/full"
fi
start_server 2

step "a peer with another key"
mkdir -m 700 "$work/peer"
key=$(serverd keygen --store "$work/peer")
other=$(serverd keygen --store "$work/new")
rm -r "$work/new"
serverd peers --store "$work/peer" "1=$host:${server_port[1]},${server_key[1]}" \
  "2=$host:${server_port[2]},$other" "3=$here,$key"
"$bin/s3oramfs-serverd" --store "$work/peer" --listen "$here" > "$work/peer.log" 2>&1 &
peer=$!
wait_until "the log says that server 1 does not know it" \
  grep -q "server 1 at tcp://$host:${server_port[1]} does not know our key $key" "$work/peer.log"
wait_until "server 1 logs whom it refused" grep -q "key $key is not known here" "$work/store1.log"
wait_until "the log says that server 2 has another key" \
  grep -q "server 2 at tcp://$host:${server_port[2]} .* it has a different key than $other" "$work/peer.log"
kill "$peer"
wait "$peer"

step "random bytes from strangers"
for n in 1 2 3; do
  for size in 0 1 9 64 1000 1000000; do
    # A server may close the connection before it has read everything.
    (exec 3<> "/dev/tcp/$host/${server_port[n]}" && head -c "$size" /dev/urandom >&3) \
      2> /dev/null || step "server $n closed the connection after $size bytes or fewer"
  done
  kill -0 "${server_pid[store$n]}" || fail "server $n died"
done
s3oramfs mount "$work/a" "$mount"
[[ $(< "$mount/file") == kept ]] || fail "the volume was affected"
s3oramfs umount "$work/a"

step "servers that do not run"
stop_servers
refused 14 "$host:" "$work/a" s3oramfs mount --timeout 2 "$work/a" "$mount"
