# SPDX-License-Identifier: Apache-2.0
"""Programs that nobody drew: a generator, a comparison with eager mode, and a minimizer.

A seed determines a program of 3 to 30 rows over more than 300 functions of torch (`rows*.py`, a table of
templates): dtypes, ranks from 0 to 5, sizes from 0 to 7, views, writes to temporaries and to state, NaN
and infinities, static and dynamic sizes, control flow. `generate` draws rows that eager mode accepts, so
the table states no constraints. `outcomes` exports it, writes and reads the `.pt2`, lowers it for each
target (`targets`), and runs the result: portable and XNNPACK programs in the stock runtime, other delegates
in their reference executor, and TOSA graphs also in Arm's reference model, after Arm's validator. `expected`
decides how far from eager mode a result may be: rounding is replaced by random rounding, so that an
ill-conditioned program is not a false alarm. `processes` runs programs in child processes, so that a crash
or a hang is an outcome. `shrink` minimizes a failure, and `report` writes it as a Python file with the
module and its inputs.

`generated_test.py` runs a sample. A campaign is run manually:

    bazel run //tests/generated:campaign -- --count=20000 --seed=0 --output=/tmp/failures

It prints each failure with its seed, and at the end the number of each outcome and the reasons of
rejections.
"""
