# SPDX-License-Identifier: Apache-2.0
"""Runs a blob of the MPS delegate on the host, from the blob alone.

Written from the runtime's source (backends/apple/mps/runtime of ExecuTorch 1.4.1): an operation gives what
the runtime's MPSGraph would, also where that is not what ATen's operator of the same name gives. Where the
runtime would stop, so does this. float16 is computed in float32 and rounded after each operation.
"""
