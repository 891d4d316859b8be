# shellcheck shell=bash
# Sourced by the tests of the packages, on the host and in the booted system.
passed=0
failed=0

# check DESCRIPTION COMMAND...: counts as a test; shows the command's output if it fails.
check() {
  local said
  if said=$("${@:2}" 2>&1); then
    passed=$((passed + 1))
    echo "ok      $1"
  else
    failed=$((failed + 1))
    printf 'FAILED  %s\n%s\n' "$1" "$said"
  fi
}
# must DESCRIPTION COMMAND...: like check, but stops if it fails, because nothing else can be tested
# then.
must() {
  local before=$failed
  check "$@"
  ((failed == before)) || finish
}
finish() {
  echo "$passed passed, $failed failed"
  ((failed == 0)) && exit 0
  exit 1
}

# within SECONDS COMMAND...: retries until the command succeeds.
within() {
  local end=$((SECONDS + $1))
  until "${@:2}"; do
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}
# fails CODE COMMAND...: the command ends with this code.
fails() {
  local code=0
  "${@:2}" || code=$?
  [[ $code == "$1" ]]
}
# says WORDS COMMAND...: the command succeeds and prints these words.
says() {
  local said
  said=$("${@:2}" 2>&1) || { echo "$said"; return 1; }
  [[ $said == *"$1"* ]] || { echo "$said"; return 1; }
}
none() { ! "$@"; }
