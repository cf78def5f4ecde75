// SPDX-License-Identifier: Apache-2.0
// Files of named tensors: an 8-byte length, a JSON header, and the elements.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace delegatec {

// A tensor in row-major order.
struct StoredTensor {
  std::string dtype;  // as in the format: "F32", "I64", "BOOL" and so on
  std::vector<int32_t> sizes;
  std::vector<uint8_t> bytes;
};

struct TensorFile {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Reads a file; throws std::runtime_error if it is damaged, or does not exist.
TensorFile read_tensors(const std::string& path);

// Writes a file; throws std::runtime_error if it cannot. The same contents give the same bytes.
void write_tensors(const TensorFile& file, const std::string& path);

}  // namespace delegatec
