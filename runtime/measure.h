// SPDX-License-Identifier: Apache-2.0
// The sizes of arenas that a program needs.
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

// Returns sizes as JSON.
std::string json_of(const std::map<std::string, ArenaSizes>& arenas);

}  // namespace delegatec
