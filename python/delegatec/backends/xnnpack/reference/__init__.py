# SPDX-License-Identifier: Apache-2.0
"""Reference executor of XNNPACK blobs on the host, from a blob and its named data alone.

From the sources of the runtime (backends/xnnpack/runtime of ExecuTorch 1.4.1) and of the XNNPACK in it
(revision 1adaa7c709).

    executor        inputs, constants, nodes and outputs of a graph
    run             tensors by id, limits, requantization
    tensors         types and elements of tensors
    unary, binary   functions of one and two values
    conversion      conversions between types, dynamic quantization of rows
    layers          fully connected layers, and sums of products in all types
    convolution, pooling, resizing
    moves, products
    cases, testing  handwritten blobs for every operation in every combination of types, for tests

Sizes follow from the inputs, as in the runtime: those that a blob declares are not read, except the ranks of
some inputs. A blob is rejected (DC408) if the sizes of its inputs do not fit, where the runtime would fail or
read out of bounds.

int8 results are those of the runtime: sums of quantized values are integers, scales and rounding are the
kernels'. float32 differs in the order of sums, and in the last bits of elementary functions. float16 is
computed in float32 and rounded once, as layers are on x86-64; CPUs that compute in float16 differ by some
ULPs. bfloat16 is not rounded but truncated.
"""
