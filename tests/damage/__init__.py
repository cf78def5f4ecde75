# SPDX-License-Identifier: Apache-2.0
"""Damaged copies of every kind of file that the compiler reads.

`kinds` writes a good file of each kind, and lists the commands that read it. `mutations` damages a file: its
bytes, or its structure with valid checksums and lengths. `search` keeps the copies that reach new lines of
readers, and damages them further. Every command must succeed, or end with a diagnostic: no traceback, no
fault of a built-in backend, no crash, and no more than some seconds. A failure is minimized to the edits that
it needs.

`damage_test.py` runs a sample. A campaign is run manually:

    bazel run //tests/damage:campaign -- --count=100000 --seed=0 --output=/tmp/failures
"""
