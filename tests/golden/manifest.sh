# shellcheck shell=bash
# Sourced after tests/system/lib.sh by what makes golden volumes and what tests them.

# manifest DIRECTORY: everything of the files there that must come back, for ever.
manifest() {
  snapshot "$1"
  (cd "$1" && find . -print0 | LC_ALL=C sort -z | xargs -0 getfattr --absolute-names -h -d -m '^user\.' --)
}

# credentials DIRECTORY: what opens those volumes that something protects.
credentials() (
  umask 077
  echo golden > "$1/passphrase"
  echo 'the key file of the golden volumes' > "$1/keyfile"
)
