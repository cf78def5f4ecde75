// SPDX-License-Identifier: Apache-2.0
// What the generated classes of programs have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <executorch/extension/module/module.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/result.h>
#include <executorch/runtime/core/span.h>

namespace delegatec {

// A tensor that a method takes.
struct TensorSpec {
  size_t position;  // among the inputs of the method
  const char* name;
  executorch::aten::ScalarType type;
  size_t rank;
  const int32_t* sizes;  // the largest
  const int32_t* least_sizes;
  const int8_t* symbols;     // dimensions of the same number, from 0, have the same size; -1 for others
  const uint8_t* dim_order;  // dimensions from outermost to innermost in memory
};

// A program. A generated class derives from it, with a function for each method.
class TypedProgram {
 public:
  TypedProgram(const TypedProgram&) = delete;
  TypedProgram& operator=(const TypedProgram&) = delete;

  // Loads all methods, and returns what went wrong. The first call of a function does it, too.
  executorch::runtime::Error load();

  // The program in the runtime.
  executorch::extension::Module& module() { return module_; }

 protected:
  using Names = executorch::runtime::Span<const char* const>;
  using Bytes = executorch::runtime::Span<const uint8_t>;

  // A program in files. `ptd` has its external weights, or is "".
  TypedProgram(Names methods, bool shares_state, const std::string& pte, const std::string& ptd);

  // A program in memory that outlives it.
  TypedProgram(Names methods, bool shares_state, Bytes pte, Bytes ptd);

  // Checks the inputs, and runs a method.
  executorch::runtime::Result<std::vector<executorch::runtime::EValue>> call(
      const char* method, executorch::runtime::Span<const TensorSpec> specs,
      const std::vector<executorch::runtime::EValue>& inputs);

 private:
  Names methods_;
  executorch::extension::Module module_;
  bool loaded_ = false;
};

}  // namespace delegatec
