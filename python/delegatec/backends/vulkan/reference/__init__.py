# SPDX-License-Identifier: Apache-2.0
"""Reference executor of Vulkan blobs on the host, from the blob alone.

From the runtime's source (backends/vulkan/runtime of ExecuTorch 1.4.1). Tensors hold their elements, not
their texels; instead, every operator checks the runtime's conditions, and the assumptions of its shaders:

    executor        inputs, constants, operator calls and outputs of a graph
    run             tensors by id, who shares memory, the shaders that operators bind
    tensors         storage, layout and extents of tensors
    call            the arguments of an operator, by position and type
    kernels         the shaders that exist, with storage and dtype of the tensors that they bind
    layouts         layouts of quantized tensors that the runtime chooses
    unspecified     behavior that depends on the device, with a choice for each
    cases, testing  handwritten blobs for every operator, for tests

A blob is rejected (DC408) if the runtime would abort, if a shader would read or write another storage, dtype
or layout than a tensor has, if an operator reads memory that another tensor overwrote, and if the result of a
shader is wrong for a shape. So a wrong layout is an error, and never a right result.

A blob does not say which dtypes its caller has: outputs have the dtype in which they are staged. For a
caller's int64 that is int32, which the runtime converts. Storage types and layouts that compile specs of a
delegate override are not in the blob: default ones are those of the runtime.

float16 is computed as the shaders do: in float32 for images, and rounded to float16 when stored. For buffers
they compute and sum in float16; here sums are float32, as the order of sums is unspecified.
"""
