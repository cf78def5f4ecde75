#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# For `run_under`: runs its arguments on the phone that adb is connected to.
#
# Usage: adb.sh RUNNER ARGUMENT...
#
# RUNNER is a path. The arguments name files in the working directory, which is copied to a folder of the phone; files
# that the phone has from the same directory are not copied again. The command runs in that folder, and the folder
# outputs/, which it writes to, is copied back.
#
# Environment:
#   ADB               the client (default: adb); ANDROID_SERIAL chooses one of several phones
#   DELEGATEC_FOLDER  the folder on the phone (default: /data/local/tmp/delegatec)
set -eu

adb=${ADB:-adb}
folder=${DELEGATEC_FOLDER:-/data/local/tmp/delegatec}
runner=$1
shift

# Returns its argument as one word of the phone's shell.
quoted() {
  printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"
}

# Runs adb; what it prints is not the command's.
quietly() {
  "$adb" "$@" </dev/null >&2
}

words=
for word; do
  words="$words $(quoted "$word")"
done
old=runner
for file in *; do
  if [ -f "$file" ]; then
    old="$old $(quoted "$file")"
  fi
done
there=$(quoted "$folder")
here=$(quoted "$PWD")
# `push --sync` compares times in seconds alone: two programs that were built in the same second look the same.
quietly shell "mkdir -p $there && cd $there && rm -rf outputs && mkdir outputs &&
  { [ \"\$(cat .directory 2>/dev/null)\" = $here ] || { rm -f .directory $old && printf %s $here >.directory; }; }"
quietly push --sync "$runner" "$folder/runner"
for file in *; do
  if [ -f "$file" ]; then
    quietly push --sync "$file" "$folder/"
  fi
done
"$adb" shell "cd $there && chmod 755 runner && exec ./runner$words" </dev/null
quietly pull "$folder/outputs" .
