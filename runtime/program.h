// SPDX-License-Identifier: Apache-2.0
// A program in ExecuTorch's runtime, with arenas of exact sizes.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <executorch/extension/data_loader/mmap_data_loader.h>
#include <executorch/extension/flat_tensor/flat_tensor_data_map.h>
#include <executorch/runtime/core/event_tracer.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include "runtime/arena.h"
#include "runtime/safetensors.h"

namespace delegatec {

// Sizes of the arenas of one method, in bytes.
struct ArenaSizes {
  uint32_t method = kUnlimitedBytes;
  uint32_t temporary = kUnlimitedBytes;
  std::map<size_t, size_t> planned;  // memory id, from 1 -> bytes; those of the file by default
};

// The methods of a program. They share the memories after the first, and with them state.
class Program {
 public:
  // Maps the files and loads the methods, in their order in the file.
  //
  // Args:
  //   pte: path of the program.
  //   ptd: path of its external weights, or "".
  //   only: names of the methods to load; all if empty.
  //   sizes: a loaded method -> sizes of its arenas.
  //   tracer: records events, or null.
  //   poison: whether planned memory is filled before the methods are loaded, as that of an app may be: initial state
  //     comes from the file.
  //
  // Throws std::runtime_error if the runtime rejects the program, or it has no such method or memory.
  Program(const std::string& pte, const std::string& ptd, const std::vector<std::string>& only,
          const std::map<std::string, ArenaSizes>& sizes, executorch::runtime::EventTracer* tracer, bool poison = false);
  ~Program();

  std::vector<std::string> methods() const { return order_; }

  // Runs a method once.
  //
  // Args:
  //   method: its name.
  //   inputs: position -> tensor in row-major order; a number is a tensor without dimensions.
  //
  // Returns:
  //   The outputs by position, and as "written.POSITION" the inputs that the program wrote to. The metadata names the
  //   outputs that are numbers: "int", "double" or "bool"; an output without an entry is None.
  //
  // Throws std::runtime_error if an input does not match, or an instruction fails.
  TensorFile run(const std::string& method, const TensorFile& inputs);

  // Returns how long the last run of a method took, without its inputs and outputs.
  std::chrono::nanoseconds duration() const { return duration_; }

  // Returns how long the threads of this process ran on CPUs in the last run of a method.
  std::chrono::nanoseconds cpu_duration() const { return cpu_duration_; }

  // Returns zeros for the tensors among the inputs of a method, in their largest sizes, and its own numbers.
  TensorFile zeros(const std::string& method) const;

  // Returns the bytes of a method's arenas that were in use at once.
  ArenaSizes used(const std::string& method) const;

 private:
  struct Loaded;

  Loaded& loaded(const std::string& method) const;
  // Throws std::runtime_error if a method is not loaded.
  void check_loads(const std::string& method) const;

  // Returns the bytes of each planned memory of a method.
  std::vector<size_t> planned_bytes(const std::string& name, const ArenaSizes& sizes) const;

  void load(const std::string& name, const ArenaSizes& sizes, const std::vector<size_t>& planned,
            executorch::runtime::EventTracer* tracer, bool poison);

  std::unique_ptr<executorch::extension::MmapDataLoader> pte_loader_;
  std::unique_ptr<executorch::extension::MmapDataLoader> ptd_loader_;
  std::unique_ptr<executorch::extension::FlatTensorDataMap> weights_;
  std::unique_ptr<executorch::runtime::Program> program_;
  std::map<size_t, std::unique_ptr<Pages>> shared_;  // index of a planned memory -> the one of all methods
  std::vector<std::string> order_;
  std::map<std::string, std::unique_ptr<Loaded>> loaded_;
  std::chrono::nanoseconds duration_{0};
  std::chrono::nanoseconds cpu_duration_{0};
};

}  // namespace delegatec
