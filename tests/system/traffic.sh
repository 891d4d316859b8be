# shellcheck shell=bash
# What goes over the client's link, as `status --json` counts it: with computational privacy at most
# 1.1 blocks up and down an access, queries and evictions included; as in the paper, a block to each
# server and one from each.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"
need_fuse

mkdir "$work/mount"

# Sums of a member over the servers, seen by the client; then over the links between them.
of_client() { sed -n "s/^      \"$1\": \([0-9]*\).*/\1/p" "$work/status" | awk '{ n += $1 } END { print n }'; }
of_links() { sed -n "s/^          \"$1\": \([0-9]*\).*/\1/p" "$work/status" | awk '{ n += $1 } END { print n }'; }
volume() { sed -n "s/^    \"$1\": \([0-9]*\).*/\1/p" "$work/status" | head -n 1; }
# within WHAT COUNT FROM TO
within() {
  awk -v n="$2" -v from="$3" -v to="$4" 'BEGIN { exit !(from <= n && n <= to) }' ||
    fail "$1: $2 is not from $3 to $4"
}
per_block() { awk -v n="$1" -v a="$accesses" -v b="$block" 'BEGIN { printf "%.3f", n / a / b }'; }

# measure KIND BLOCK LEAST MOST
measure() {
  local kind=$1 size=$2 least=$3 most=$4 accesses block up down
  step "$kind privacy, blocks of $size"
  s3oramfs init --local --no-passphrase --privacy "$kind" --block-size "$size" "$work/vault" > /dev/null
  s3oramfs mount "$work/vault" "$work/mount"
  head -c 12M /dev/urandom > "$work/data"
  cp "$work/data" "$work/mount/data"
  sync "$work/mount/data"
  s3oramfs umount "$work/mount"
  s3oramfs mount "$work/vault" "$work/mount"
  cmp "$work/data" "$work/mount/data" || fail "what comes back is something else"
  s3oramfs status --json "$work/vault" > "$work/status"
  accesses=$(volume accesses) block=$(volume block_size)
  ((accesses >= (12 << 20) / block)) || fail "only $accesses accesses"
  up=$(per_block "$(of_client bytes_sent)") down=$(per_block "$(of_client bytes_received)")
  step "  $accesses accesses: $up blocks up and $down down each; $(per_block "$(of_links bytes_sent)") between servers"
  within "blocks up" "$up" "$least" "$most"
  within "blocks down" "$down" "$least" "$most"
  # Each byte between servers is sent by one and received by one; what is under way may differ.
  within "received between servers, in what was sent" \
    "$(awk -v s="$(of_links bytes_sent)" -v r="$(of_links bytes_received)" 'BEGIN { print r / s }')" 0.9 1.1
  s3oramfs umount "$work/mount"
  rm -r "$work/vault"
}

measure computational 64K 1.0 1.1
measure computational 256K 1.0 1.1
measure information-theoretic 64K 3.0 3.5
