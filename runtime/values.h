// SPDX-License-Identifier: Apache-2.0
// Between tensors of files, in row-major order, and values of the runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/executor/method_meta.h>

#include "runtime/safetensors.h"

namespace delegatec {

// Returns the name of a dtype in files, or throws std::runtime_error if they cannot have it.
std::string stored_dtype(executorch::aten::ScalarType type);

// A tensor of the runtime, with its memory.
struct OwnedTensor {
  std::vector<uint8_t> bytes;
  executorch::extension::TensorPtr tensor;
};

// Returns a tensor with its dimensions in the order that a method declares for an input.
//
// Throws std::runtime_error if it has another dtype or rank, or is larger than the input may be. The runtime itself
// refuses other sizes of static dimensions.
OwnedTensor tensor_for(const StoredTensor& stored, const executorch::runtime::TensorInfo& input);

// Returns a tensor of the runtime in row-major order.
StoredTensor stored(const executorch::aten::Tensor& tensor);

// Returns zeros in the shape of an input, which are the largest sizes of dynamic dimensions.
StoredTensor zeros_for(const executorch::runtime::TensorInfo& input);

// Returns a number in a tensor without dimensions, and the reverse.
StoredTensor stored_number(const executorch::runtime::EValue& value);
executorch::runtime::EValue number_of(const StoredTensor& stored, executorch::runtime::Tag tag);

}  // namespace delegatec
