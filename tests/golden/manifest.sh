# shellcheck shell=bash
# Sourced after tests/system/lib.sh by the scripts that make golden volumes and that test them.

# manifest DIRECTORY: prints everything about its files that must come back, forever.
manifest() {
  snapshot "$1"
  (cd "$1" && find . -print0 | LC_ALL=C sort -z | xargs -0 getfattr --absolute-names -h -d -m '^user\.' --)
}

# credentials DIRECTORY: writes what opens the protected volumes.
credentials() (
  umask 077
  echo golden > "$1/passphrase"
  echo 'the key file of the golden volumes' > "$1/keyfile"
)
