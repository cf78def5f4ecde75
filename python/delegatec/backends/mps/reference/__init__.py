# SPDX-License-Identifier: Apache-2.0
"""Runs a blob of the MPS delegate on the host, from the blob alone.

Written from the runtime's source (backends/apple/mps/runtime of ExecuTorch 1.4.1), a module for each of its
files, and from Apple's documentation of MPSGraph: an operation gives what the runtime's MPSGraph would, also
where that is not what ATen's operator of the same name gives. What the runtime does not read is not read
here, and where it or MPSGraph would stop, so does this (DC408).

    executor        a graph's inputs, constants, operations and outputs
    run             values by id, casts, and checks that operations share
    unspecified     what neither source says, with a choice for each behaviour
    cases           blobs made by hand for every node type, for tests

float16 is computed in float32 and rounded after each operation of MPSGraph; products, sums, means and
variances are accumulated in float32 and rounded once. On a device the last bits differ, as Metal's functions
are not correctly rounded (Metal Shading Language Specification, "ULPs and Relative Error"), and denormals may
be zeros.
"""
