// SPDX-License-Identifier: Apache-2.0
// Runs calls of a program in ExecuTorch's runtime.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

#if __has_include(<executorch/extension/threadpool/threadpool_guard.h>)
#include <executorch/extension/threadpool/threadpool_guard.h>
#define DELEGATEC_HAS_THREADPOOL
#endif

#include "runtime/measure.h"
#include "runtime/program.h"

namespace {

constexpr const char* kUsage = R"(runner --program=FOO.pte [OPTION]... [METHOD INPUTS OUTPUTS]...

Runs methods in a row, from the program's initial state. INPUTS and OUTPUTS are .safetensors files with a tensor for each
position, "0", "1" and so on, in row-major order.

  --program=FOO.pte          the program
  --data=FOO.ptd             its external weights
  --method=NAME              loads only this method; may be repeated
  --arena=NAME:KIND:BYTES    the exact size of an arena of a method: method, temporary, or the number of a planned memory
  --zeros                    then runs each method once, with zeros in the largest sizes
  --memory=FILE.json         instead of all calls: writes the least sizes of the arenas
  --heap=FILE.json           instead of all calls: writes the bytes of malloc that each method has in use on this CPU
  --runs=N                   runs each call N times, and writes the outputs of the last
  --times=FILE.json          writes the nanoseconds of the loading and of each run, also on CPUs, and the peak of memory in
                             bytes
  --single-thread            uses no thread pool
  --poison                   fills planned memory before methods are loaded: initial state comes from the file
  --etdump=FILE              writes what the runtime recorded
  --serve                    then reads calls from the standard input, a line each, separated by tabs; answers "ok", or
                             "error " and the reason
  --backends                 prints the ids of the backends that are linked
)";

class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Call {
  std::string method, inputs, outputs;
};

struct Options {
  std::string program, data, etdump, heap, memory, times;
  std::vector<std::string> methods;
  std::map<std::string, delegatec::ArenaSizes> sizes;
  std::vector<Call> calls;
  uint32_t runs = 1;
  bool zeros = false, serve = false, backends = false, single_thread = false, poison = false;
};

const std::map<std::string, std::string Options::*> kFiles = {
    {"--data", &Options::data},     {"--etdump", &Options::etdump},   {"--heap", &Options::heap},
    {"--memory", &Options::memory}, {"--program", &Options::program}, {"--times", &Options::times},
};

uint32_t number_in(const std::string& text, const char* what) {
  size_t used = 0;
  uint64_t value = 0;
  try {
    value = std::stoull(text, &used);
  } catch (const std::logic_error&) {
    used = 0;
  }
  if (used == 0 || used != text.size() || text[0] == '-' || value > UINT32_MAX) {
    throw UsageError("'" + text + "' is not a number of " + what);
  }
  return static_cast<uint32_t>(value);
}

uint32_t bytes_of(const std::string& text) { return number_in(text, "bytes"); }

void add_arena(Options& options, const std::string& value) {
  const size_t last = value.rfind(':');
  const size_t middle = last == std::string::npos || last == 0 ? std::string::npos : value.rfind(':', last - 1);
  if (middle == std::string::npos) {
    throw UsageError("--arena=" + value + ": expected NAME:KIND:BYTES");
  }
  delegatec::ArenaSizes& sizes = options.sizes[value.substr(0, middle)];
  const std::string kind = value.substr(middle + 1, last - middle - 1);
  const uint32_t bytes = bytes_of(value.substr(last + 1));
  if (kind == "method") {
    sizes.method = bytes;
  } else if (kind == "temporary") {
    sizes.temporary = bytes;
  } else {
    sizes.planned[bytes_of(kind)] = bytes;
  }
}

Options options_of(int count, char** arguments) {
  Options options;
  std::vector<std::string> words;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (word.rfind("--", 0) != 0) {
      words.push_back(word);
    } else if (const auto file = kFiles.find(name); file != kFiles.end()) {
      if (value.empty()) {
        throw UsageError(name + " has no value: expected " + name + "=FILE");
      }
      options.*file->second = value;
    } else if (name == "--method") {
      options.methods.push_back(value);
    } else if (name == "--runs") {
      options.runs = number_in(value, "runs");
      if (options.runs == 0) {
        throw UsageError("--runs=0: expected at least 1");
      }
    } else if (name == "--arena") {
      add_arena(options, value);
    } else if (word == "--zeros") {
      options.zeros = true;
    } else if (word == "--single-thread") {
      options.single_thread = true;
    } else if (word == "--poison") {
      options.poison = true;
    } else if (word == "--serve") {
      options.serve = true;
    } else if (word == "--backends") {
      options.backends = true;
    } else {
      throw UsageError("unknown option " + word);
    }
  }
  if (options.program.empty() && !options.backends) {
    throw UsageError("--program is missing");
  }
  const bool measures = !options.memory.empty() || !options.heap.empty();
  const bool runs = !words.empty() || options.zeros || options.serve || !options.sizes.empty() || options.runs > 1 ||
                    options.single_thread || options.poison || !options.times.empty() || !options.etdump.empty();
  if (measures && runs) {
    throw UsageError("--memory and --heap exclude calls, and all options but --data and --method");
  }
  if (words.size() % 3 != 0) {
    throw UsageError("a call is METHOD INPUTS OUTPUTS");
  }
  for (size_t i = 0; i < words.size(); i += 3) {
    options.calls.push_back({words[i], words[i + 1], words[i + 2]});
  }
  return options;
}

// Prints what the runtime says about errors, not about the CPU.
void log_message(et_timestamp_t, et_pal_log_level_t level, const char* file, const char*, size_t line, const char* message,
                 size_t) {
  if (level == kError || level == kFatal) {
    std::fprintf(stderr, "%s:%zu: %s\n", file, line, message);
  }
}

// What a benchmark reports.
struct Times {
  std::chrono::nanoseconds load{0};
  std::vector<std::chrono::nanoseconds> runs, cpu_runs;
};

// Returns the most memory that the process had at once, in bytes.
long long peak_bytes() {
  // The figure of getrusage includes, on Linux, the process that started this one.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) {
      return std::atoll(line.c_str() + std::strlen("VmHWM:")) * 1024;
    }
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void write_list(std::ostream& text, const char* name, const std::vector<std::chrono::nanoseconds>& values) {
  text << ", \"" << name << "\": [";
  for (size_t i = 0; i < values.size(); ++i) {
    text << (i > 0 ? ", " : "") << values[i].count();
  }
  text << "]";
}

std::string json_of(const Times& times) {
  std::ostringstream text;
  text << "{\"load\": " << times.load.count() << ", \"peak_bytes\": " << peak_bytes();
  write_list(text, "runs", times.runs);
  write_list(text, "cpu_runs", times.cpu_runs);
  text << "}\n";
  return text.str();
}

void run(delegatec::Program& program, const Call& call, uint32_t runs, Times& times) {
  const delegatec::TensorFile inputs = delegatec::read_tensors(call.inputs);
  delegatec::TensorFile outputs;
  for (uint32_t i = 0; i < runs; ++i) {
    outputs = program.run(call.method, inputs);
    times.runs.push_back(program.duration());
    times.cpu_runs.push_back(program.cpu_duration());
  }
  delegatec::write_tensors(outputs, call.outputs);
}

void serve(delegatec::Program& program, uint32_t runs, Times& times) {
  for (std::string line; std::getline(std::cin, line);) {
    Call call;
    std::istringstream words(line);
    std::getline(words, call.method, '\t');
    std::getline(words, call.inputs, '\t');
    std::getline(words, call.outputs);
    std::string answer = "ok";
    try {
      run(program, call, runs, times);
    } catch (const std::runtime_error& error) {
      answer = std::string("error ") + error.what();
    }
    std::cout << answer << std::endl;
  }
}

void write(const std::string& path, const void* data, size_t bytes) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  stream.close();
  if (!stream) {
    throw std::runtime_error(path + ": cannot be written");
  }
}

void run_all(const Options& options) {
  if (!options.memory.empty()) {
    const std::string text = delegatec::json_of(delegatec::measured_arenas(options.program, options.data, options.methods));
    write(options.memory, text.data(), text.size());
  }
  if (!options.heap.empty()) {
    const std::string text = delegatec::json_of(delegatec::measured_heap(options.program, options.data, options.methods));
    write(options.heap, text.data(), text.size());
  }
  if (!options.memory.empty() || !options.heap.empty()) {
    return;
  }
#ifdef DELEGATEC_HAS_THREADPOOL
  // XNNPACK keeps the pool that it has found while the program was loaded.
  executorch::extension::threadpool::NoThreadPoolGuard guard;
  guard.set_enabled(options.single_thread);
#else
  if (options.single_thread) {
    throw UsageError("--single-thread: the runtime was built without threadpool_guard.h");
  }
#endif
  std::unique_ptr<executorch::etdump::ETDumpGen> tracer;
  if (!options.etdump.empty()) {
    tracer = std::make_unique<executorch::etdump::ETDumpGen>();
  }
  Times times;
  const auto start = std::chrono::steady_clock::now();
  delegatec::Program program(options.program, options.data, options.methods, options.sizes, tracer.get(),
                             options.poison);
  times.load = std::chrono::steady_clock::now() - start;
  for (const Call& call : options.calls) {
    run(program, call, options.runs, times);
  }
  if (options.zeros) {
    for (const std::string& method : program.methods()) {
      program.run(method, program.zeros(method));
    }
  }
  if (options.serve) {
    std::cout << "ready" << std::endl;
    serve(program, options.runs, times);
  }
  if (!options.times.empty()) {
    const std::string text = json_of(times);
    write(options.times, text.data(), text.size());
  }
  if (tracer != nullptr) {
    const executorch::etdump::ETDumpResult result = tracer->get_etdump_data();
    write(options.etdump, result.buf, result.size);
    std::free(result.buf);
  }
}

}  // namespace

int main(int count, char** arguments) {
  executorch::runtime::register_pal(executorch::runtime::PalImpl::create(log_message, __FILE__));
  executorch::runtime::runtime_init();
  try {
    const Options options = options_of(count, arguments);
    if (options.backends) {
      for (size_t i = 0; i < executorch::runtime::get_num_registered_backends(); ++i) {
        std::puts(executorch::runtime::get_backend_name(i).get());
      }
    } else {
      run_all(options);
    }
  } catch (const UsageError& error) {
    std::fprintf(stderr, "runner: error: %s\n\n%s", error.what(), kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "runner: error: %s\n", error.what());
    return 1;
  }
  return 0;
}
