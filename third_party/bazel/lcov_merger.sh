#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Joins the lcov files of one test: --coverage_dir=DIR --output_file=FILE
set -eu
for argument in "$@"; do
  case $argument in
    --coverage_dir=*) directory=${argument#*=} ;;
    --output_file=*) output=${argument#*=} ;;
  esac
done
joined=$(mktemp)
trap 'rm -f "$joined"' EXIT
for file in "$directory"/*.dat; do
  if [ -f "$file" ] && [ "$file" != "$output" ]; then
    cat "$file" >> "$joined"
  fi
done
cat "$joined" > "$output"
