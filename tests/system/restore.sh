# shellcheck shell=bash
# A machine is lost, and everything comes back from the servers, a small file and a passphrase. Then
# only vault.db is lost, with remote servers and in a local vault.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

vault=$work/vault mount=$work/mount
mkdir "$mount"
(umask 077 && echo "a long passphrase" > "$work/pass")
make_servers store
start_servers
init=(s3oramfs init "${server_options[@]}" --block-size 16K --passfile "$work/pass" "$vault")
authorize "$("${init[@]}" 2> /dev/null | shown_key)"
"${init[@]}" --wait 20 > /dev/null

# Waits until status --json says so about the backup: $1 is a Python expression of b.
backup_is() {
  s3oramfs status --json "$vault" |
    python3 -c "import json, sys; b = json.load(sys.stdin)['backup']; sys.exit(not ($1))"
}

# The machine of the mounted vault has a power cut, as far as this can be done. The next process
# waits until the daemon is gone.
kill_daemon() {
  kill -9 "$(daemon_of "$vault")"
  umount -l "$mount"
}

step "a file with the keys"
s3oramfs backup --keys "$work/keys" "$vault"
[[ $(stat -c %a "$work/keys") == 600 ]] || fail "others may read the file with the keys"
expect 19 "$work/keys" s3oramfs backup --keys "$work/keys" "$vault"
expect 23 "not mounted" s3oramfs backup "$vault"

step "a sheet of paper"
s3oramfs backup --sheet "$work/sheet.html" "$vault"
s3oramfs backup --sheet "$work/sheet.txt" "$vault"
[[ $(stat -c %a "$work/sheet.html" "$work/sheet.txt") == $'600\n600' ]] || fail "others may read the sheet"
expect 19 "$work/sheet.txt" s3oramfs backup --sheet "$work/sheet.txt" "$vault"
# The QR codes are drawn, and read by an independent reader.
awk -v folder="$work" '/<svg/ { n += 1; on = 1 } on { print > (folder "/code" n ".svg") } /<.svg>/ { on = 0 }' \
  "$work/sheet.html"
for code in "$work"/code*.svg; do
  rsvg-convert -w 900 -b white -o "$code.png" "$code"
  zbarimg -q --raw -S disable -S qrcode.enable "$code.png" >> "$work/scanned" || fail "$code cannot be read"
done
diff <(grep -E '^[0-9]+/' "$work/scanned" | sort) <(grep -E '^[0-9]+/' "$work/sheet.txt" | sort) ||
  fail "the codes and the text differ"
sed -E '3s/^(.*)(.)$/\1?/; 5d' <(grep -E '^[0-9]+/' "$work/sheet.txt") > "$work/mistyped"
expect 12 "not as printed: line 3; missing: line 5" s3oramfs restore --from "$work/mistyped" "$work/nothing"
[[ ! -e $work/nothing ]] || fail "a mistyped sheet made a vault"

step "files, and an automatic backup"
s3oramfs mount --passfile "$work/pass" -o backup=1 "$vault" "$mount"
make_tree "$work/tree" 100 1000000
cp -a "$work/tree" "$mount/"
head -c 1M /dev/urandom > "$work/random"
cp "$work/random" "$mount/random"
sync "$mount/random"
wait_until "the names are backed up" backup_is "b['exists']"
s3oramfs umount "$vault"
s3oramfs mount --passfile "$work/pass" -o backup=3600 "$vault" "$mount"
echo later > "$mount/later"
mkdir "$mount/few" && head -c 500K /dev/urandom | split -b 20K - "$mount/few/"
s3oramfs backup "$vault"
backup_is "b['current']" || fail "the backup is not current"
s3oramfs status "$vault" | grep -q '^backup    of everything$' || fail "status does not show the backup"
snapshot "$mount" > "$work/before"

step "files that were deleted or replaced later come back"
rm -r "$mount/few" # 32 blocks: too few to cause a backup
echo newer > "$mount/later"
sync "$mount/later"

step "the machine is gone"
kill_daemon
mv "$vault" "$work/lost"
expect 10 "passphrase" s3oramfs restore --from "$work/keys" --passfile "$work/keys" "$vault"
expect 12 "$work/pass" s3oramfs restore --from "$work/pass" --passfile "$work/pass" "$vault"
mkdir "$work/restored"
sed "s/$host:${server_port[1]}/127.0.0.1:1/" "$work/keys" > "$work/former.keys"
expect 14 "to continue: s3oramfs restore $work/restored" \
  s3oramfs restore --from "$work/former.keys" --timeout 1 --passfile "$work/pass" "$work/restored"
expect 19 "begun there from another file" s3oramfs restore --from "$work/keys" --passfile "$work/pass" "$work/restored"
s3oramfs restore --from "$work/scanned" --passfile "$work/pass" "$vault"
expect 19 "vault.db" s3oramfs restore --passfile "$work/pass" "$vault"
expect 19 "$vault" s3oramfs restore --from "$work/sheet.html" --passfile "$work/pass" "$vault"
s3oramfs fsck --passfile "$work/pass" "$vault"
s3oramfs mount --passfile "$work/pass" "$vault" "$mount"
[[ $(< "$mount/later") == later || $(< "$mount/later") == newer ]] || fail "the file later has the wrong content"
rm "$mount/later"
snapshot "$mount" | grep -v -e '/later$' -e '^d .* \.$' > "$work/after"
grep -v -e '/later$' -e '^d .* \.$' "$work/before" > "$work/expected"
same "$work/expected" "$work/after" "what was restored differs"
cp "$work/random" "$mount/more"
s3oramfs umount "$vault"

step "vault.json and vault.key are damaged or edited, and vault.db is sound"
echo '{' > "$vault/vault.json"
: > "$vault/vault.key"
expect 12 "restore --from" s3oramfs mount "$vault" "$mount"
s3oramfs restore --from "$work/keys" "$vault"
[[ $(< "$vault/vault.json.damaged") == '{' && -e $vault/vault.key.damaged ]] ||
  fail "the damaged file is not kept"
sed -i 's/"block_size": 16384/"block_size": 4096/' "$vault/vault.json"
expect 12 "block_size 4096 instead of 16384" s3oramfs mount --passfile "$work/pass" "$vault" "$mount"
expect 12 "block_size 4096 instead of 16384" s3oramfs fsck --repair --passfile "$work/pass" "$vault"
s3oramfs restore --from "$work/keys" "$vault"
grep -q 4096 "$vault/vault.json.damaged-2" || fail "the edited file is not kept"
s3oramfs fsck --passfile "$work/pass" "$vault"
s3oramfs mount --passfile "$work/pass" "$vault" "$mount"
cmp "$work/random" "$mount/more"
s3oramfs umount "$vault"

step "the previous machine is refused"
rm -rf "$work/lost/run"
expect 16 "another copy" s3oramfs mount --passfile "$work/pass" "$work/lost" "$mount"

step "only vault.db is lost, and a server is away at first"
rm "$vault"/vault.db*
expect 12 "vault.db" s3oramfs fsck --passfile "$work/pass" "$vault"
stop_servers
expect 14 "$host" s3oramfs restore --timeout 1 --passfile "$work/pass" "$vault"
start_servers
s3oramfs restore --passfile "$work/pass" "$vault"
s3oramfs mount --passfile "$work/pass" "$vault" "$mount"
cmp "$work/random" "$mount/more"
s3oramfs umount "$vault"

step "a restore that fails leaves an existing vault.db usable"
s3oramfs mount --passfile "$work/pass" -o backup=3600 "$vault" "$mount"
cp "$work/random" "$mount/newest"
sync "$mount/newest"
kill_daemon
stop_server 2
expect 14 "$host" s3oramfs restore --force --timeout 1 --passfile "$work/pass" "$vault"
start_server 2
s3oramfs mount --passfile "$work/pass" -o backup=3600 "$vault" "$mount"
cmp "$work/random" "$mount/newest"
[[ ! -e $vault/vault.db.before-restore ]] || fail "vault.db was put aside"

step "a restore that succeeds keeps the names of a sound vault.db"
echo more > "$mount/more still"
sync "$mount/more still"
kill_daemon
s3oramfs restore --force --passfile "$work/pass" "$vault"
s3oramfs fsck --passfile "$work/pass" "$vault"
s3oramfs mount --passfile "$work/pass" "$vault" "$mount"
cmp "$work/random" "$mount/newest"
[[ $(< "$mount/more still") == more ]] || fail "a file is lost"
s3oramfs umount "$vault"

step "the disk is too full for a second vault.db"
rm -f "$vault"/vault.db.before-restore*
mkdir "$work/small"
mount -t tmpfs -o size=$(($(du -sk "$vault" | cut -f 1) + 4096))k none "$work/small"
cp -a "$vault" "$work/small/"
for free in 420 240 60; do
  rm -f "$work/small/filler"
  head -c $((($(df --output=avail "$work/small" | tail -n 1) - free) * 1024)) /dev/zero > "$work/small/filler"
  code=0
  said=$(s3oramfs restore --force --passfile "$work/pass" "$work/small/vault" 2>&1) || code=$?
  [[ $code == 0 || $code == 21 ]] || fail "with $free KiB: $code, $said"
  rm "$work/small/filler"
  s3oramfs fsck --passfile "$work/pass" "$work/small/vault"
  s3oramfs mount --passfile "$work/pass" "$work/small/vault" "$mount"
  [[ $(< "$mount/more still") == more ]] || fail "with $free KiB a file is lost"
  s3oramfs umount "$mount"
done
[[ $code == 21 ]] || fail "there was room for it"
vault=$work/small/vault
stop_servers

step "the same for a local vault"
vault=$work/local
s3oramfs init --local --no-passphrase --block-size 16K "$vault" > /dev/null
expect 2 "copy the whole vault" s3oramfs backup --keys "$work/other" "$vault"
s3oramfs mount "$vault" "$mount"
cp -a "$work/tree" "$mount/"
find "$mount/tree" -exec sync {} +
kill_daemon
snapshot "$work/tree" > "$work/expected"
s3oramfs restore --force "$vault" > "$work/said"
grep -q "the names that its vault.db had" "$work/said" || fail "there can be no backup yet"
s3oramfs mount "$vault" "$mount"
snapshot "$mount/tree" > "$work/after"
same "$work/expected" "$work/after" "what was there is not there"
s3oramfs umount "$vault"
head -c 100000 /dev/urandom | dd of="$vault/vault.db" conv=notrunc status=none
expect 12 "fsck" s3oramfs mount "$vault" "$mount"
expect 19 "--force" s3oramfs restore "$vault"
s3oramfs restore --force "$vault"
s3oramfs mount "$vault" "$mount"
snapshot "$mount/tree" > "$work/after"
same "$work/expected" "$work/after" "what was restored differs"
s3oramfs umount "$vault"

step "a header that SQLite takes for a newer version's"
printf '\x09' | dd of="$vault/vault.db" bs=1 seek=18 conv=notrunc status=none
expect 12 "its header is damaged" s3oramfs fsck "$vault"
expect 12 "fsck" s3oramfs mount "$vault" "$mount"
s3oramfs restore --force "$vault"
s3oramfs mount "$vault" "$mount"
snapshot "$mount/tree" > "$work/after"
same "$work/expected" "$work/after" "what was restored differs"
s3oramfs umount "$vault"
