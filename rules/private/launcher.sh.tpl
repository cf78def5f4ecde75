#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Made by Bazel for %{label}.
set -eu
runfiles=${RUNFILES_DIR:-${TEST_SRCDIR:-$0.runfiles}}
case $runfiles in
  /*) ;;
  *) runfiles=$PWD/$runfiles ;;
esac
%{environment}
export PYTHONPATH="%{python_path}"
exec %{command} "$@"
