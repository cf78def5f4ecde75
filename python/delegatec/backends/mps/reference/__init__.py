# SPDX-License-Identifier: Apache-2.0
"""Reference executor of MPS blobs on the host, from the blob alone.

From the runtime's source (backends/apple/mps/runtime of ExecuTorch 1.4.1), one module per file, and Apple's
documentation of MPSGraph. Operations return the results of MPSGraph, also if ATen's operator of the same name
differs. Fields that the runtime ignores are ignored here; if it or MPSGraph would abort, DC408 is raised.

    executor        a graph's inputs, constants, operations and outputs
    run             values by id, casts, and shared checks
    unspecified     unspecified behavior, with a choice for each
    cases           handwritten blobs for every node type, for tests

float16 is computed in float32 and rounded after each operation of MPSGraph; products, sums, means and
variances are accumulated in float32 and rounded once. On a device the last bits differ, as Metal's functions
are not correctly rounded (Metal Shading Language Specification, "ULPs and Relative Error"), and denormals may
be zeros.
"""
