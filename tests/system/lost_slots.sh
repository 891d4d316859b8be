# shellcheck shell=bash
# Servers whose `slots` do not match their control.db. They say so before anything is touched, no
# block is given up, and both ways out work: bringing the file back, and s3oramfs repair.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

vault=$work/vault mount=$work/mount
mkdir "$mount"
s3oramfs init --local --no-passphrase --block-size 16K "$vault" > "$work/init.log"
s3oramfs mount "$vault" "$mount"
make_tree "$mount/tree" 40 600000
s3oramfs umount "$mount"
cp -a --sparse=always "$vault/servers" "$work/servers.older"
s3oramfs mount "$vault" "$mount"
for ((n = 0; n < 10; ++n)); do head -c 70000 /dev/urandom > "$mount/newer$n"; done
snapshot "$mount" > "$work/before"
s3oramfs umount "$mount"
cp -a --sparse=always "$vault/servers" "$work/servers.newest"
slots() { echo "$vault/servers/$1/slots"; }
put_back() {
  for n in 1 2 3; do cp -a --sparse=always "$work/servers.newest/$n/slots" "$(slots "$n")"; done
}

missing() { rm "$(slots "$1")"; }
empty() { : > "$(slots "$1")"; }
short() { truncate -s 200000 "$(slots "$1")"; }
zeros() { truncate -s 0 "$(slots "$1")" && truncate -s 100M "$(slots "$1")"; }
noise() { head -c "$(stat -c %s "$(slots "$1")")" /dev/urandom > "$(slots "$1")"; }
of_another() { cp "$work/servers.newest/$(($1 % 3 + 1))/slots" "$(slots "$1")"; }
older() { # with the current size
  cp "$work/servers.older/$1/slots" "$(slots "$1")"
  truncate -s "$(stat -c %s "$work/servers.newest/$1/slots")" "$(slots "$1")"
}
declare -A words=([missing]="is missing" [empty]="buckets need" [short]="buckets need" [zeros]="is not the file"
  [noise]="is not the file" [of_another]="is not the file" [older]="control.db")

same_as_before() {
  snapshot "$mount" > "$work/now"
  same "$work/before" "$work/now" "$1"
  [[ $(s3oramfs status --json "$vault" | grep -o '"unreadable": [0-9]*') == '"unreadable": 0' ]] ||
    fail "$1: blocks were given up"
}

for how in missing empty short zeros noise of_another older; do
  for which in "2" "1 2 3"; do
    step "slots of server $which: $how"
    for n in $which; do "$how" "$n"; done
    expect 18 "lacks its shares" s3oramfs mount "$vault" "$mount"
    code=0
    said=$(s3oramfs mount "$vault" "$mount" 2>&1) || code=$?
    [[ $said == *"${words[$how]}"* ]] || fail "mount says: $said"
    [[ $said == *"server ${which%% *}"* && $said == *"repair --server"* ]] || fail "mount says: $said"
    if [[ $which == 2 && $how != older ]]; then
      s3oramfs repair --server 2 "$vault" > "$work/repair.log"
    else
      expect 18 "lacks its shares" s3oramfs scrub "$vault"
      put_back
    fi
    s3oramfs mount "$vault" "$mount"
    same_as_before "$how at $which"
    s3oramfs umount "$mount"
    cp -a --sparse=always "$vault/servers/." "$work/servers.newest"
  done
done

step "only control.db is missing"
mv "$vault/servers/2/control.db" "$work"
expect 12 "repair --server 2" s3oramfs mount "$vault" "$mount"
rm -f "$vault/servers/2"/control.db*
mv "$work/control.db" "$vault/servers/2"
s3oramfs mount "$vault" "$mount"
same_as_before "control.db came back"

step "a server loses its slots while it is mounted, and is killed"
mv "$(slots 2)" "$work/slots"
kill -9 "$(processes_of "$vault/servers/2")"
# (The check fails too, as it should; only its words count here.)
lacks() { [[ $(s3oramfs status --check "$vault" 2>&1) == *"server 2"*"slots is missing"* ]]; }
wait_until "status says what it lacks" lacks
mv "$work/slots" "$(slots 2)"
healthy() { s3oramfs status --check "$vault" > "$work/said" 2>&1; }
wait_until "the vault goes on without help" healthy
same_as_before "slots came back"
s3oramfs umount "$mount"
