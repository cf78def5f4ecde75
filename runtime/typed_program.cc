// SPDX-License-Identifier: Apache-2.0
// Loading of programs, and the check of their inputs.
#include "runtime/typed_program.h"

#include <map>
#include <memory>

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <executorch/runtime/platform/log.h>

namespace delegatec {
namespace {

using executorch::extension::BufferDataLoader;
using executorch::extension::Module;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::Result;

std::unique_ptr<executorch::runtime::DataLoader> loader(executorch::runtime::Span<const uint8_t> bytes) {
  return bytes.empty() ? nullptr : std::make_unique<BufferDataLoader>(bytes.data(), bytes.size());
}

// Whether the elements are in memory as the method reads them. Dimensions of one element may be anywhere.
bool has_order(const executorch::aten::Tensor& tensor, const TensorSpec& spec) {
  size_t next = 0;
  for (const uint8_t dim : tensor.dim_order()) {
    if (tensor.size(dim) == 1) {
      continue;
    }
    while (next < spec.rank && tensor.size(spec.dim_order[next]) == 1) {
      ++next;
    }
    if (next == spec.rank || spec.dim_order[next++] != dim) {
      return false;
    }
  }
  return true;
}

template <typename Sizes>
std::string described(executorch::aten::ScalarType type, const Sizes& least, const Sizes& sizes, size_t rank) {
  std::string text = std::string(executorch::runtime::toString(type)) + "[";
  for (size_t i = 0; i < rank; ++i) {
    text += i ? ", " : "";
    text += (least[i] == sizes[i] ? "" : std::to_string(least[i]) + " to ") + std::to_string(sizes[i]);
  }
  return text + "]";
}

// Checks a tensor; `symbols` has the sizes of symbols that the tensors before had.
Error check(const char* method, const TensorSpec& spec, const executorch::aten::Tensor& tensor,
            std::map<int, ssize_t>& symbols) {
  const size_t rank = static_cast<size_t>(tensor.dim());
  bool fits = tensor.scalar_type() == spec.type && rank == spec.rank;
  for (size_t i = 0; fits && i < rank; ++i) {
    fits = spec.least_sizes[i] <= tensor.size(i) && tensor.size(i) <= spec.sizes[i];
  }
  if (!fits) {
    ET_LOG(Error, "%s: %s is %s, but must be %s", method, spec.name,
           described(tensor.scalar_type(), tensor.sizes(), tensor.sizes(), rank).c_str(),
           described(spec.type, spec.least_sizes, spec.sizes, spec.rank).c_str());
    return Error::InvalidArgument;
  }
  for (size_t i = 0; i < rank; ++i) {
    if (spec.symbols[i] < 0) {
      continue;
    }
    const ssize_t size = symbols.emplace(spec.symbols[i], tensor.size(i)).first->second;
    if (size != tensor.size(i)) {
      ET_LOG(Error, "%s: dimension %zu of %s has size %zd, but must be as large as that of another input, %zd", method,
             i, spec.name, tensor.size(i), size);
      return Error::InvalidArgument;
    }
  }
  if (!has_order(tensor, spec)) {
    ET_LOG(Error, "%s: the dimensions of %s have another order in memory than the method reads, such as channels-last",
           method, spec.name);
    return Error::InvalidArgument;
  }
  return Error::Ok;
}

}  // namespace

TypedProgram::TypedProgram(Names methods, bool shares_state, const std::string& pte, const std::string& ptd)
    : methods_(methods),
      module_(pte, ptd.empty() ? std::vector<std::string>() : std::vector<std::string>{ptd}, Module::LoadMode::Mmap,
              nullptr, nullptr, nullptr, shares_state) {}

TypedProgram::TypedProgram(Names methods, bool shares_state, Bytes pte, Bytes ptd)
    : methods_(methods), module_(loader(pte), nullptr, nullptr, nullptr, loader(ptd), shares_state) {}

Error TypedProgram::load() {
  if (loaded_) {
    return Error::Ok;
  }
  // All at once: loading a method writes the initial state that it shares with others.
  for (const char* method : methods_) {
    const Error error = module_.load_method(method);
    if (error != Error::Ok) {
      return error;
    }
  }
  loaded_ = true;
  return Error::Ok;
}

Result<std::vector<EValue>> TypedProgram::call(const char* method, executorch::runtime::Span<const TensorSpec> specs,
                                               const std::vector<EValue>& inputs) {
  Error error = load();
  std::map<int, ssize_t> symbols;
  for (const TensorSpec& spec : specs) {
    error = error == Error::Ok ? check(method, spec, inputs[spec.position].toTensor(), symbols) : error;
  }
  if (error != Error::Ok) {
    return error;
  }
  return module_.execute(method, inputs);
}

}  // namespace delegatec
