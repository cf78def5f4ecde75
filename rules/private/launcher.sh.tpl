# SPDX-License-Identifier: Apache-2.0
# Runs the compiler from the runfiles of a target, whose script sets `runfiles` to their directory, and `imports` to
# further import paths, each after a colon.
%{environment}
export PYTHONPATH="%{python_path}$imports"

delegatec() {
  exec "$runfiles/%{interpreter}" %{flags} -m delegatec "$@"
}
