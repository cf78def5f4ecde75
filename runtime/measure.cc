// SPDX-License-Identifier: Apache-2.0
// Measurement of arenas and of the heap.
#include "runtime/measure.h"

// Android's C library has neither macro, and does not parse the second one.
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 33)
#include <malloc.h>
#define DELEGATEC_HAS_MALLINFO
#endif
#endif

#include <stdexcept>

#include "runtime/json.h"

namespace delegatec {
namespace {

// Loads a method, runs it, and returns the bytes that its arenas had in use.
ArenaSizes used_with(const std::string& pte, const std::string& ptd, const std::string& method,
                     const ArenaSizes& sizes) {
  Program program(pte, ptd, {method}, {{method, sizes}}, nullptr);
  program.run(method, program.zeros(method));
  return program.used(method);
}

ArenaSizes measured(const std::string& pte, const std::string& ptd, const std::string& method) {
  const ArenaSizes least = used_with(pte, ptd, method, {});
  const auto fits = [&](uint32_t temporary) {
    ArenaSizes sizes;
    sizes.temporary = temporary;
    return used_with(pte, ptd, method, sizes).method == least.method;
  };
  ArenaSizes result = least;
  uint32_t below = least.temporary;
  if (fits(below)) {
    return result;
  }
  uint32_t enough = 2 * below + 1;
  for (; !fits(enough); enough *= 2) {
    below = enough;
  }
  while (enough - below > 1) {
    const uint32_t middle = below + (enough - below) / 2;
    (fits(middle) ? enough : below) = middle;
  }
  result.temporary = enough;
  return result;
}

// Returns the bytes of malloc that are in use. Arenas and files are mapped, and not among them.
size_t heap_bytes() {
#ifdef DELEGATEC_HAS_MALLINFO
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
#else
  throw std::runtime_error("--heap: the C library does not tell what malloc has in use");
#endif
}

// Returns how many more bytes are in use than before. None if the libraries have released some meanwhile.
size_t heap_bytes_since(size_t before) {
  const size_t now = heap_bytes();
  return now > before ? now - before : 0;
}

}  // namespace

std::map<std::string, HeapBytes> measured_heap(const std::string& pte, const std::string& ptd,
                                               const std::vector<std::string>& methods) {
  std::map<std::string, HeapBytes> result;
  for (const std::string& method : Program(pte, ptd, methods, {}, nullptr).methods()) {
    // The libraries keep what they allocate at their first use.
    used_with(pte, ptd, method, {});
    const size_t before = heap_bytes();
    Program program(pte, ptd, {method}, {}, nullptr);
    HeapBytes& bytes = result[method];
    bytes.loaded = heap_bytes_since(before);
    program.run(method, program.zeros(method));
    bytes.run = heap_bytes_since(before);
  }
  return result;
}

std::string json_of(const std::map<std::string, HeapBytes>& heaps) {
  std::string text = "{";
  for (const auto& [method, bytes] : heaps) {
    text += (text.size() > 1 ? ",\n  " : "\n  ") + quoted(method) + ": {\"loaded\": " + std::to_string(bytes.loaded) +
            ", \"run\": " + std::to_string(bytes.run) + "}";
  }
  return text + "\n}\n";
}

std::map<std::string, ArenaSizes> measured_arenas(const std::string& pte, const std::string& ptd,
                                                  const std::vector<std::string>& methods) {
  std::map<std::string, ArenaSizes> result;
  for (const std::string& method : Program(pte, ptd, methods, {}, nullptr).methods()) {
    result[method] = measured(pte, ptd, method);
  }
  return result;
}

std::string json_of(const std::map<std::string, ArenaSizes>& arenas) {
  std::string text = "{";
  for (const auto& [method, sizes] : arenas) {
    text += (text.size() > 1 ? ",\n  " : "\n  ") + quoted(method) + ": {\"method\": " + std::to_string(sizes.method) +
            ", \"planned\": [";
    for (const auto& [id, bytes] : sizes.planned) {
      text += (id > 1 ? ", " : "") + std::to_string(bytes);
    }
    text += "], \"temporary\": " + std::to_string(sizes.temporary) + "}";
  }
  return text + "\n}\n";
}

}  // namespace delegatec
