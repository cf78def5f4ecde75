# SPDX-License-Identifier: Apache-2.0
"""Random programs: a generator, a comparison with eager mode, and a minimizer.

A seed determines a program of 3 to 30 rows over more than 300 functions of torch (`rows*.py`, a table of
templates): dtypes, ranks from 0 to 5, sizes from 0 to 7, views, writes to temporaries, to inputs and to
state, NaN and infinities, static and dynamic sizes, branches by size, control flow. `profiles` says how
often programs have state, a second method that shares it, outputs that are inputs or views of state, and
examples that are the same tensor; state in attributes, which no program has, must be refused. `generate`
draws rows that eager mode accepts, so the table states no constraints.

`outcomes` exports a program, writes and reads the `.pt2`, lowers it for each target (`targets`), and runs
the result: portable and XNNPACK programs in the stock runtime, from a mapped file, other delegates in their
reference executor, and TOSA graphs also in Arm's reference model, after Arm's validator. `examples` chooses
the calls: both bounds and the middle of dynamic sizes, several in a row for state. They are compared with a
module that torch.export has not seen. `expected` decides how far from it a result may be: rounding is
replaced by random rounding, so that an ill-conditioned program is not a false alarm. `quantizing` has ways
to quantize, ours and the peer's: such a program is compared with the quantized graph and with the module in
float, by the noise of quantization steps of that size.

`processes` runs programs in child processes, so that a crash or a hang is an outcome. `shrink` minimizes a
failure, and `report` writes it as a Python file with the module and its inputs.

`generated_test.py` runs a sample. A campaign is run manually:

    bazel run //tests/generated:campaign -- --count=20000 --seed=0 --output=/tmp/failures
    bazel run //tests/generated:campaign -- --count=2000 --profile=layers --output=/tmp/failures

The second quantizes networks of layers; `--targets` chooses. A campaign prints each failure with its seed,
and at the end the number of each outcome and the reasons of rejections.
"""
