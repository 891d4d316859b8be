# shellcheck shell=bash
# Copies of a vault and of a server's store, and one vault used twice at a time. Anything that would
# lose data is refused, with the reason, and the data of the right copy stays intact.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/system/faults.sh
. "$(dirname "$0")/faults.sh"
need_fuse

mkdir "$work/second"
intact() {
  local n
  for ((n = 1; n <= written; ++n)); do
    cmp "$work/file$n" "$1/file$n" || fail "file$n is not what was synced"
  done
}
written=0
write_more() {
  for _ in {1..6}; do
    written=$((written + 1))
    head -c 40K /dev/urandom > "$work/file$written"
    cp "$work/file$written" "$1/"
    sync "$1/file$written" "$1"
  done
}

step "two mounts of one vault, begun at the same time"
s3oramfs init --local --no-passphrase --block-size 4K "$work/local" 2> "$work/init.log"
mkdir "$work/m1" "$work/m2"
codes=()
for m in 1 2; do
  "$bin/s3oramfs" mount "$work/local" "$work/m$m" 2> "$work/m$m.err" &
  pids[m]=$!
done
for m in 1 2; do
  code=0
  wait "${pids[m]}" || code=$?
  codes[m]=$code
done
[[ "${codes[*]}" == "0 13" || "${codes[*]}" == "13 0" ]] ||
  fail "two mounts at once ended with ${codes[*]} instead of 0 and 13"
grep -q "$work/local" "$work"/m?.err || fail "the refused mount names no vault"

step "its servers do not hold /dev/fuse, and only their own stores"
((codes[1] == 0)) && local_mount=$work/m1 || local_mount=$work/m2
free_port port
for n in 1 2 3; do
  pid=$(processes_of "$work/local/servers/$n")
  ! find "/proc/$pid/fd" -lname '*fuse*' | grep . || fail "server $n holds /dev/fuse"
  expect 13 "another server" serverd --store "$work/local/servers/$n" --index "$n" --listen "$host:$port"
done

step "a vault inside its own mount"
s3oramfs umount "$local_mount"
ln -s "$work/local/servers" "$work/link"
for m in "$work/local/servers" "$work" "$work/link"; do
  expect 17 "inside" s3oramfs mount "$work/local" "$m"
done

step "a vault that is moved while it is mounted"
mkdir "$work/m"
for name in "$work/m" "$work/moved" "$work/local"; do
  s3oramfs mount "$work/local" "$work/m"
  echo "$name" > "$work/m/name"
  mv "$work/local" "$work/moved"
  expect 0 "by process" s3oramfs status "$work/moved"
  expect 0 "by process" s3oramfs status "$work/m"
  expect 0 "$work/moved" s3oramfs status "$work/local"
  expect 17 "is taken" s3oramfs mount "$work/moved" "$work/m"
  s3oramfs umount "$name"
  ! is_mounted "$work/m" || fail "still mounted"
  no_processes_of "$work/local" || fail "umount did not wait for the daemon"
  mv "$work/moved" "$work/local"
  s3oramfs mount "$work/local" "$work/m"
  [[ $(< "$work/m/name") == "$name" ]] || fail "the written data is not there"
  s3oramfs umount "$work/m"
done

step "another vault in place of the mounted one"
s3oramfs mount "$work/local" "$work/m"
mv "$work/local" "$work/moved"
s3oramfs init --local --no-passphrase "$work/local" 2> "$work/init.log"
expect 0 "not mounted" s3oramfs status "$work/local"
expect 0 "by process" s3oramfs status "$work/m"
expect 23 "no such vault is mounted" s3oramfs umount "$work/local"
expect 17 "is taken" s3oramfs mount "$work/local" "$work/m"
s3oramfs umount "$work/m"

step "a copy of a vault, while the right one has moved on"
set_up remote
s3oramfs mount "$vault" "$mount"
write_more "$mount"
s3oramfs umount "$mount"
cp -a "$vault" "$work/copy"
s3oramfs mount "$vault" "$mount"
write_more "$mount"
s3oramfs umount "$mount"
expect 16 "$work/copy" s3oramfs mount "$work/copy" "$work/second"
! is_mounted "$work/second" || fail "an old copy was mounted"
s3oramfs mount "$vault" "$mount"
intact "$mount"

step "an old copy, while the right one is mounted"
expect 16 "$work/copy" s3oramfs mount "$work/copy" "$work/second"
write_more "$mount"
intact "$mount"
s3oramfs umount "$mount"

step "a clone as new as the original: the one that is used first is the right one"
cp -a "$vault" "$work/clone"
s3oramfs mount "$work/clone" "$work/second"
write_more "$work/second"
expect 16 "$vault" s3oramfs mount "$vault" "$mount"
intact "$work/second"
s3oramfs umount "$work/second"
rm -r "$vault"
cp -a "$work/clone" "$vault"

step "a clone of a mounted vault takes the servers over, and the mounted one is told so"
s3oramfs mount --timeout 2 "$vault" "$mount"
write_more "$mount"
# An eviction that is decided after the copy was made would make the copy an old one.
no_eviction() { s3oramfs status --json "$vault" | grep '"evicting": false' > /dev/null; }
wait_until "no eviction is under way" no_eviction
rm -r "$work/clone"
cp -a "$vault" "$work/clone"
s3oramfs mount "$work/clone" "$work/second"
(
  echo late > "$mount/late"
  ! sync "$mount/late"
) 2> "$work/late.err" || fail "a vault that was overtaken says that it has synced"
intact "$work/second"
[[ ! -e $work/second/late ]] || fail "two vaults wrote to one volume"
code=0
said=$(s3oramfs umount --force "$mount" 2>&1) || code=$?
grep -q -i "session" "$vault/run/fused.log" || fail "the log does not say why the vault was overtaken: $(tail -n 5 "$vault/run/fused.log")"
! is_mounted "$mount" || fail "still mounted"
write_more "$work/second"
intact "$work/second"
s3oramfs umount "$work/second"
expect 16 "$vault" s3oramfs mount "$vault" "$mount"
rm -r "$vault"
cp -a "$work/clone" "$vault"

step "a server whose store is rolled back"
s3oramfs mount "$vault" "$mount"
s3oramfs umount "$mount"
stop_server 2
mkdir "$work/old"
cp -a "$work/store2"/[!.]* "$work/old/"
start_server 2
s3oramfs mount "$vault" "$mount"
write_more "$mount"
s3oramfs umount "$mount"
stop_server 2
mkdir "$work/right"
cp -a "$work/store2"/[!.]* "$work/right/"
set_store() {
  rm -r "$work/store2"/[!.]*
  cp -a "$1"/* "$work/store2/"
}
set_store "$work/old"
start_server 2
# The message names its number or address, and nothing is mounted.
code=0
said=$(s3oramfs mount "$vault" "$mount" 2>&1) || code=$?
[[ $code == 18 || $code == 16 ]] || fail "a rolled-back store ended with $code: $said"
[[ $said == *"$host:${server_port[2]}"* ]] || fail "the server is not named: $said"
! is_mounted "$mount" || fail "mounted nevertheless"
stop_server 2
set_store "$work/right"
start_server 2
s3oramfs mount "$vault" "$mount"
intact "$mount"
write_more "$mount"
intact "$mount"
s3oramfs umount "$mount"

step "the same while the vault is mounted"
s3oramfs mount "$vault" "$mount"
stop_server 2
rm -r "$work/old" && mkdir "$work/old"
cp -a "$work/store2"/[!.]* "$work/old/"
start_server 2
write_more "$mount"
stop_server 2
rm -r "$work/right" && mkdir "$work/right"
cp -a "$work/store2"/[!.]* "$work/right/"
set_store "$work/old"
start_server 2
# Nobody reads or writes meanwhile.
wait_until "status says which server has lost what" \
  status_says "server 2 has lost evictions"
# Its device may not finish in time. The command then says so, and nothing is lost.
s3oramfs umount --force "$mount" 2> "$work/umount.log" ||
  grep -q "requests to the servers did not finish in time" "$work/umount.log" || fail "$(cat "$work/umount.log")"
! is_mounted "$mount" || fail "still mounted"
stop_server 2
set_store "$work/right"
start_server 2
wait_until "the vault is free" s3oramfs mount "$vault" "$mount"
intact "$mount"
s3oramfs umount "$mount"
