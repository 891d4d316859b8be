# shellcheck shell=bash
# The dashboard is valid JSON, its panels do not overlap, and it asks only for metrics that
# docs/monitoring.md lists.
set -euo pipefail
source=$(realpath "$(dirname "$0")/../..")
python3 - "$source/packaging/monitoring/grafana-dashboard.json" "$source/docs/monitoring.md" << 'END'
import json, re, sys

board = json.load(open(sys.argv[1]))
known = set(re.findall(r"`(s3oramfs_[a-z_]+)", open(sys.argv[2]).read()))
assert len(known) > 40, known
taken = {}
asked = set()
for panel in board["panels"]:
    at = panel["gridPos"]
    for x in range(at["x"], at["x"] + at["w"]):
        for y in range(at["y"], at["y"] + at["h"]):
            assert x < 24 and (x, y) not in taken, (panel["title"], taken.get((x, y)))
            taken[x, y] = panel["title"]
    for target in panel["targets"]:
        names = re.findall(r"s3oramfs_[a-z_]+", target["expr"])
        assert names, panel["title"]
        asked.update(name.removesuffix("_bucket") for name in names)
assert asked <= known, asked - known
print(len(board["panels"]), "panels of", len(asked), "numbers")
END
