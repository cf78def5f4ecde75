// SPDX-License-Identifier: Apache-2.0
// Loading and running of methods.
#include "runtime/program.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <stdexcept>

#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/executor/memory_manager.h>

#include "runtime/values.h"

namespace delegatec {
namespace {

using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Result;
using executorch::runtime::Span;
using executorch::runtime::Tag;

// Of four bytes: a float that is not zero.
constexpr int kPoison = 0xA5;

void check(Error error, const std::string& what) {
  if (error != Error::Ok) {
    throw std::runtime_error(what + ": " + executorch::runtime::to_string(error));
  }
}

template <typename T>
T& value_of(Result<T>& result, const std::string& what) {
  check(result.error(), what);
  return result.get();
}

template <typename T>
std::unique_ptr<T> owned(Result<T> result, const std::string& what) {
  check(result.error(), what);
  return std::make_unique<T>(std::move(result.get()));
}

std::unique_ptr<executorch::extension::MmapDataLoader> mapped(const std::string& path) {
  using executorch::extension::MmapDataLoader;
  return owned(MmapDataLoader::from(path.c_str(), MmapDataLoader::MlockConfig::NoMlock), path + ": cannot be mapped");
}

Tag tag_of(const MethodMeta& meta, size_t input) {
  Result<Tag> tag = meta.input_tag(input);
  // The runtime has no tag of an input that is None.
  return tag.ok() ? tag.get() : Tag::None;
}

// Gives memory to the outputs that the program leaves to its caller; it is in use until the next call.
std::vector<std::vector<uint8_t>> memory_for_outputs(executorch::runtime::Method& method, const std::string& name) {
  const MethodMeta meta = method.method_meta();
  std::vector<std::vector<uint8_t>> memory;
  for (size_t i = 0; i < meta.num_outputs(); ++i) {
    if (!method.get_output(i).isTensor()) {
      continue;
    }
    const std::string what = "output " + std::to_string(i) + " of method '" + name + "'";
    Result<executorch::runtime::TensorInfo> info = meta.output_tensor_meta(i);
    const executorch::runtime::TensorInfo& tensor = value_of(info, what);
    if (!tensor.is_memory_planned() && tensor.nbytes() > 0) {
      memory.emplace_back(tensor.nbytes());
      check(method.set_output_data_ptr(memory.back().data(), tensor.nbytes(), i), what);
    }
  }
  return memory;
}

std::unique_ptr<Pages> pages(size_t bytes, bool poison) {
  auto result = std::make_unique<Pages>(bytes);
  if (poison) {
    std::memset(result->data(), kPoison, bytes);
  }
  return result;
}

// Returns how long the threads of this process have run on CPUs.
std::chrono::nanoseconds cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// The runtime deprecates it, because the values of tensors are not to be relied on.
const EValue& initial_input(const executorch::runtime::Method& method, size_t input) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return method.get_input(input);
#pragma GCC diagnostic pop
}

}  // namespace

// The allocators precede the method, which uses them until its end.
struct Program::Loaded {
  explicit Loaded(const ArenaSizes& sizes) : method_arena(sizes.method), temporary_arena(sizes.temporary) {}

  Arena method_arena;
  Arena temporary_arena;
  std::unique_ptr<Pages> own;  // the first planned memory
  std::vector<Span<uint8_t>> spans;
  std::unique_ptr<executorch::runtime::HierarchicalAllocator> planned;
  std::unique_ptr<executorch::runtime::MemoryManager> manager;
  std::unique_ptr<executorch::runtime::Method> method;
};

Program::Program(const std::string& pte, const std::string& ptd, const std::vector<std::string>& only,
                 const std::map<std::string, ArenaSizes>& sizes, executorch::runtime::EventTracer* tracer, bool poison) {
  pte_loader_ = mapped(pte);
  program_ = owned(executorch::runtime::Program::load(pte_loader_.get(),
                                                      executorch::runtime::Program::Verification::InternalConsistency),
                   pte + ": not a program");
  if (!ptd.empty()) {
    ptd_loader_ = mapped(ptd);
    weights_ = owned(executorch::extension::FlatTensorDataMap::load(ptd_loader_.get()), ptd + ": not a file of weights");
  }
  for (size_t i = 0; i < program_->num_methods(); ++i) {
    Result<const char*> name = program_->get_method_name(i);
    const std::string method = value_of(name, "a method has no name");
    if (only.empty() || std::find(only.begin(), only.end(), method) != only.end()) {
      order_.push_back(method);
    }
  }
  for (const std::string& name : only) {
    check_loads(name);
  }
  for (const auto& [name, given] : sizes) {
    check_loads(name);
  }
  std::map<std::string, std::vector<size_t>> planned;
  std::map<size_t, size_t> largest;
  const auto sizes_of = [&sizes](const std::string& name) {
    const auto given = sizes.find(name);
    return given == sizes.end() ? ArenaSizes() : given->second;
  };
  for (const std::string& name : order_) {
    planned[name] = planned_bytes(name, sizes_of(name));
    for (size_t i = 1; i < planned[name].size(); ++i) {
      largest[i] = std::max(largest[i], planned[name][i]);
    }
  }
  for (const auto& [i, bytes] : largest) {
    shared_[i] = pages(bytes, poison);
  }
  for (const std::string& name : order_) {
    load(name, sizes_of(name), planned[name], tracer, poison);
  }
}

Program::~Program() = default;

void Program::check_loads(const std::string& method) const {
  if (std::find(order_.begin(), order_.end(), method) != order_.end()) {
    return;
  }
  std::string names;
  for (const std::string& name : order_) {
    names += (names.empty() ? "" : ", ") + name;
  }
  throw std::runtime_error("there is no method '" + method + "', but " + (names.empty() ? "none is loaded" : names));
}

std::vector<size_t> Program::planned_bytes(const std::string& name, const ArenaSizes& sizes) const {
  const std::string what = "method '" + name + "'";
  Result<MethodMeta> meta = program_->method_meta(name.c_str());
  const size_t count = value_of(meta, what).num_memory_planned_buffers();
  std::vector<size_t> result;
  for (size_t i = 0; i < count; ++i) {
    Result<int64_t> declared = meta->memory_planned_buffer_size(i);
    result.push_back(static_cast<size_t>(value_of(declared, what)));
  }
  for (const auto& [id, bytes] : sizes.planned) {
    if (id < 1 || id > count) {
      throw std::runtime_error(what + " has no planned memory " + std::to_string(id) + ", but " + std::to_string(count));
    }
    result[id - 1] = bytes;
  }
  return result;
}

void Program::load(const std::string& name, const ArenaSizes& sizes, const std::vector<size_t>& planned,
                   executorch::runtime::EventTracer* tracer, bool poison) {
  auto loaded = std::make_unique<Loaded>(sizes);
  for (size_t i = 0; i < planned.size(); ++i) {
    if (i == 0) {
      loaded->own = pages(planned[i], poison);
    }
    loaded->spans.emplace_back((i == 0 ? loaded->own : shared_[i])->data(), planned[i]);
  }
  loaded->planned = std::make_unique<executorch::runtime::HierarchicalAllocator>(
      Span<Span<uint8_t>>(loaded->spans.data(), loaded->spans.size()));
  loaded->manager = std::make_unique<executorch::runtime::MemoryManager>(&loaded->method_arena, loaded->planned.get(),
                                                                        &loaded->temporary_arena);
  loaded->method = owned(program_->load_method(name.c_str(), loaded->manager.get(), tracer, weights_.get()),
                         "cannot load method '" + name + "'");
  loaded_[name] = std::move(loaded);
}

Program::Loaded& Program::loaded(const std::string& method) const {
  check_loads(method);
  return *loaded_.at(method);
}

TensorFile Program::run(const std::string& name, const TensorFile& inputs) {
  executorch::runtime::Method& method = *loaded(name).method;
  const MethodMeta meta = method.method_meta();
  std::map<size_t, OwnedTensor> given;
  std::map<size_t, std::vector<uint8_t>> before;
  for (size_t i = 0; i < meta.num_inputs(); ++i) {
    const Tag tag = tag_of(meta, i);
    if (tag == Tag::None || tag == Tag::String) {
      continue;  // a constant of the program
    }
    const std::string what = "input " + std::to_string(i) + " of method '" + name + "' ";
    const auto found = inputs.tensors.find(std::to_string(i));
    if (found == inputs.tensors.end()) {
      throw std::runtime_error(what + "is missing");
    }
    try {
      if (tag != Tag::Tensor) {
        check(method.set_input(number_of(found->second, tag), i), "is refused");
        continue;
      }
      Result<executorch::runtime::TensorInfo> info = meta.input_tensor_meta(i);
      OwnedTensor& tensor = given[i] = tensor_for(found->second, value_of(info, "has no description"));
      before[i] = tensor.bytes;
      check(method.set_input(EValue(*tensor.tensor), i), "is refused");
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(what + error.what());
    }
  }
  const std::vector<std::vector<uint8_t>> results = memory_for_outputs(method, name);
  const std::chrono::nanoseconds cpu_start = cpu_time();
  const auto start = std::chrono::steady_clock::now();
  const Error error = method.execute();
  duration_ = std::chrono::steady_clock::now() - start;
  cpu_duration_ = cpu_time() - cpu_start;
  check(error, "method '" + name + "' fails");
  TensorFile result;
  for (size_t i = 0; i < method.outputs_size(); ++i) {
    const EValue& value = method.get_output(i);
    const std::string position = std::to_string(i);
    if (value.isTensor()) {
      result.tensors[position] = stored(value.toTensor());
    } else if (value.isString()) {
      const auto text = value.toString();
      result.metadata["text." + position] = std::string(text.data(), text.size());
    } else if (!value.isNone()) {
      result.tensors[position] = stored_number(value);
      result.metadata["number." + position] = value.isInt() ? "int" : value.isBool() ? "bool" : "double";
    }
  }
  result.metadata["outputs"] = std::to_string(method.outputs_size());
  for (const auto& [position, tensor] : given) {
    if (tensor.bytes != before[position]) {
      result.tensors["written." + std::to_string(position)] = stored(*tensor.tensor);
    }
  }
  return result;
}

TensorFile Program::zeros(const std::string& name) const {
  const MethodMeta meta = loaded(name).method->method_meta();
  TensorFile file;
  for (size_t i = 0; i < meta.num_inputs(); ++i) {
    const std::string position = std::to_string(i);
    switch (tag_of(meta, i)) {
      case Tag::Tensor: {
        Result<executorch::runtime::TensorInfo> info = meta.input_tensor_meta(i);
        file.tensors[position] = zeros_for(value_of(info, "input " + position));
        break;
      }
      case Tag::Int:
      case Tag::Double:
      case Tag::Bool:
        // The program has a value for a number, and refuses others.
        file.tensors[position] = stored_number(initial_input(*loaded(name).method, i));
        break;
      default: break;
    }
  }
  return file;
}

ArenaSizes Program::used(const std::string& name) const {
  const Loaded& method = loaded(name);
  ArenaSizes sizes;
  sizes.method = static_cast<uint32_t>(method.method_arena.peak());
  sizes.temporary = static_cast<uint32_t>(method.temporary_arena.peak());
  for (size_t i = 0; i < method.spans.size(); ++i) {
    sizes.planned[i + 1] = method.spans[i].size();
  }
  return sizes;
}

}  // namespace delegatec
