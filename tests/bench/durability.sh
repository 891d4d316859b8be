#!/bin/bash
# Measures what durability costs: accesses of a local vault with every promise kept, without the
# commit of access records, and without any fdatasync. Rounds alternate, so that changes in the
# machine's speed affect all three alike.
#
#   durability.sh ACCESS_BENCH [BLOCK_SIZE [BLOCKS [AT_ONCE]]]
#
# ACCESS_BENCH comes from a build with -DS3O_RULE_SWITCHES=ON.
set -euo pipefail

bench=$1
: "${ROUNDS:=3}"
names=("everything durable" "no intents" "no fdatasync")
without=("" "intents" "intents,durable-answers,full-sync")
declare -A best
for ((round = 0; round < ROUNDS; ++round)); do
  for i in "${!names[@]}"; do
    said=$(S3ORAMFS_LEAVE_OUT=${without[i]} "$bench" "${@:2}" 2> /dev/null)
    for kind in write read; do
      rate=$(awk -v kind=$kind '$1 == kind { print $2 }' <<< "$said")
      ((rate > ${best[$kind$i]:-0})) && best[$kind$i]=$rate
    done
  done
done
printf '%-20s %12s %12s\n' "accesses a second" write read
for i in "${!names[@]}"; do
  printf '%-20s %6d %4d%% %6d %4d%%\n' "${names[i]}" \
    "${best[write$i]}" $((100 * best[write$i] / best[write2])) \
    "${best[read$i]}" $((100 * best[read$i] / best[read2]))
done
