#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Joins the lcov files of all tests: --reports_file=FILE --output_file=FILE
set -eu
for argument in "$@"; do
  case $argument in
    --reports_file=*) reports=${argument#*=} ;;
    --output_file=*) output=${argument#*=} ;;
  esac
done
while read -r report; do
  cat "$report"
done < "$reports" > "$output"
