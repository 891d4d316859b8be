# shellcheck shell=bash
# One bit of a name's record in vault.db flips, as on a disk that rots: no name is gone without a
# word, no backup of the names is made of that, and nothing is lost.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

mount=$work/mount
vault=$work/vault
mkdir "$mount"
mount_vault() { s3oramfs mount "$@" "$vault" "$mount"; }
umount_vault() {
  s3oramfs umount "$mount"
  wait_until "all processes of the vault have ended" no_processes_of "$vault"
}
# put PATTERN AT BYTES: where vault.db has the pattern (at one place), from its byte AT on.
put() {
  local place
  place=$(LC_ALL=C grep -obUaP "$1" "$vault/vault.db" | cut -d : -f 1)
  [[ -n $place ]] || fail "vault.db does not have $1"
  for each in $place; do
    # shellcheck disable=SC2059 # it is the bytes
    printf "$3" | dd of="$vault/vault.db" bs=1 seek=$((each + $2)) conv=notrunc status=none
  done
}
names() { (cd "$mount" && find . | LC_ALL=C sort); }
contents() { (cd "$mount" && find . -type f -exec sha256sum {} + | LC_ALL=C sort -k 2); }
generation() { sqlite3 "$vault/vault.db" "SELECT MAX(generation) FROM backups"; }

s3oramfs init --local --no-passphrase "$vault"
mount_vault
for directory in 0 1 2; do
  mkdir "$mount/d$directory"
  for i in {1..30}; do echo "d$directory f$i" > "$mount/d$directory/f$i"; done
  ln -s "d$directory/f1" "$mount/l$directory"
done
s3oramfs backup "$vault"
names > "$work/names"
contents > "$work/contents"
umount_vault
s3oramfs fsck "$vault"
cp "$vault/vault.db" "$work/sound.db"

# What a record's header says of its values: how long it is, and their types.
name_d1='\x06\x09\x10\x01\x02\x06d1'
name_f13='\x06.\x12.[\x02\x03]\x06.f13'

for where in type size; do
  step "a bit of a name's $where"
  if [[ $where == type ]]; then put "$name_d1" 2 '\x11'; else put "$name_f13" 0 '\x0e'; fi
  mount_vault
  names > "$work/names.now"
  contents > "$work/contents.now"
  same "$work/names" "$work/names.now" "names are lost"
  same "$work/contents" "$work/contents.now" "contents are others"
  grep -q "vault.db was damaged" "$vault/run/fused.log" || fail "the log says nothing"
  [[ -e $vault/vault.db.damaged ]] || fail "no copy of what was damaged"
  expect 0 "healthy" s3oramfs status --check "$vault"
  touch "$mount/new"
  s3oramfs backup "$vault"
  rm "$mount/new"
  umount_vault
  s3oramfs fsck "$vault"
  rm "$vault"/vault.db.damaged*
done

step "fsck and restore put it right as well"
put "$name_d1" 2 '\x11'
expect 12 "damaged" s3oramfs fsck "$vault"
s3oramfs fsck --repair "$vault"
put "$name_f13" 0 '\x0e'
s3oramfs restore --force "$vault"
mount_vault
names > "$work/names.now"
same "$work/names" "$work/names.now" "names are lost"
contents > "$work/contents.now"
same "$work/contents" "$work/contents.now" "contents are others"
s3oramfs backup "$vault"
umount_vault
s3oramfs fsck "$vault"

step "more than can be put right"
before=$(generation)
put "$name_f13" 0 '\x0e\x0e\x0e'
mount_vault
! ls "$mount/d0" "$mount/d1" "$mount/d2" > "$work/listed" 2> "$work/said" || fail "a short listing"
grep -q "Input/output error" "$work/said" || fail "ls says: $(< "$work/said")"
for directory in 0 1 2; do
  ! cat "$mount/d$directory/f13" 2> "$work/said" || fail "a lost name was found"
  grep -q "Input/output error" "$work/said" || fail "cat says: $(< "$work/said")"
  ! echo other 2> "$work/said" > "$mount/d$directory/f13" || fail "a second file of that name"
  [[ $(< "$mount/d$directory/f7") == "d$directory f7" ]] || fail "another file suffers"
done
echo other > "$mount/other"
sync "$mount/other"
expect 24 "vault.db is damaged" s3oramfs status --check "$vault"
expect 0 "no newer one is made, as vault.db is damaged" s3oramfs status "$vault"
s3oramfs status --json "$vault" | grep -q '"hindered": true' || fail "JSON does not say it"
expect 12 "no backup is made" s3oramfs backup "$vault"
umount_vault
[[ $(generation) == "$before" ]] || fail "a backup was made of damaged tables"
s3oramfs restore --force "$vault"
mount_vault
names > "$work/names.now"
same "$work/names" "$work/names.now" "the last backup has lost names"
contents > "$work/contents.now"
same "$work/contents" "$work/contents.now" "contents are others"
expect 0 "healthy" s3oramfs status --check "$vault"
umount_vault
s3oramfs fsck "$vault"
