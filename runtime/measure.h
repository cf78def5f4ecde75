// SPDX-License-Identifier: Apache-2.0
// The sizes of arenas that a program needs, and what it takes of the heap.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/program.h"

namespace delegatec {

// Returns the least sizes of the arenas of each method, for inputs in their largest sizes, which are zeros.
//
// While the runtime loads a method, it takes descriptions of a kernel call's tensors from the temporary arena, or from
// the arena of the method, where they remain, if it expects that the former is too small. The size of the temporary
// arena is the least with which none of them remain.
//
// Throws std::runtime_error as Program does.
std::map<std::string, ArenaSizes> measured_arenas(const std::string& pte, const std::string& ptd,
                                                  const std::vector<std::string>& methods);

// What a method has in use of the heap, such as packed weights and workspaces of backends; in bytes.
struct HeapBytes {
  size_t loaded = 0;  // after it is loaded
  size_t run = 0;     // after its first run, too
};

// Returns the heap of each method, alone, with inputs in their largest sizes, which are zeros. It depends on the CPU,
// for which backends pack weights, and contains some hundred bytes of this library.
//
// Throws std::runtime_error as Program does, or if the C library does not tell.
std::map<std::string, HeapBytes> measured_heap(const std::string& pte, const std::string& ptd,
                                               const std::vector<std::string>& methods);

// Returns sizes as JSON.
std::string json_of(const std::map<std::string, HeapBytes>& heaps);
std::string json_of(const std::map<std::string, ArenaSizes>& arenas);

}  // namespace delegatec
