// SPDX-License-Identifier: Apache-2.0
// Reading and writing of .safetensors files.
#include "runtime/safetensors.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "runtime/json.h"

namespace delegatec {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr const char* kMetadata = "__metadata__";

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw std::runtime_error(path + ": " + problem);
}

StoredTensor tensor_of(const Json& description, const uint8_t* data, size_t available) {
  StoredTensor tensor;
  tensor.dtype = description.at("dtype").text();
  for (const Json& size : description.at("shape").items()) {
    const int64_t value = size.integer();
    if (value < 0 || value > INT32_MAX) {
      throw std::runtime_error("a tensor has an invalid shape");
    }
    tensor.sizes.push_back(static_cast<int32_t>(value));
  }
  const std::vector<Json>& offsets = description.at("data_offsets").items();
  if (offsets.size() != 2) {
    throw std::runtime_error("a tensor has invalid offsets");
  }
  const int64_t begin = offsets[0].integer();
  const int64_t end = offsets[1].integer();
  if (begin < 0 || end < begin || static_cast<uint64_t>(end) > available) {
    throw std::runtime_error("a tensor is outside of the file");
  }
  tensor.bytes.assign(data + begin, data + end);
  return tensor;
}

}  // namespace

TensorFile read_tensors(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    fail(path, "cannot be opened");
  }
  const std::vector<uint8_t> content{std::istreambuf_iterator<char>(stream), {}};
  uint64_t length = 0;
  if (content.size() < kLengthBytes) {
    fail(path, "not a .safetensors file: it is too short");
  }
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<uint64_t>(content[i]) << (8 * i);
  }
  if (length > content.size() - kLengthBytes) {
    fail(path, "not a .safetensors file: its header is longer than the file");
  }
  const uint8_t* data = content.data() + kLengthBytes + length;
  const size_t available = content.size() - kLengthBytes - length;
  TensorFile file;
  try {
    const std::string header(content.begin() + kLengthBytes, content.begin() + kLengthBytes + length);
    const Json parsed = Json::parse(header);
    for (const auto& [name, value] : parsed.members()) {
      if (name != kMetadata) {
        file.tensors[name] = tensor_of(value, data, available);
        continue;
      }
      for (const auto& [key, text] : value.members()) {
        file.metadata[key] = text.text();
      }
    }
  } catch (const std::runtime_error& error) {
    fail(path, std::string("not a .safetensors file: ") + error.what());
  }
  return file;
}

void write_tensors(const TensorFile& file, const std::string& path) {
  std::string header = "{";
  if (!file.metadata.empty()) {
    header += quoted(kMetadata) + ":{";
    for (const auto& [key, text] : file.metadata) {
      header += quoted(key) + ":" + quoted(text) + ",";
    }
    header.back() = '}';
    header += ",";
  }
  size_t offset = 0;
  for (const auto& [name, tensor] : file.tensors) {
    header += quoted(name) + ":{\"dtype\":" + quoted(tensor.dtype) + ",\"shape\":[";
    for (size_t i = 0; i < tensor.sizes.size(); ++i) {
      header += (i ? "," : "") + std::to_string(tensor.sizes[i]);
    }
    const size_t end = offset + tensor.bytes.size();
    header += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(end) + "]},";
    offset = end;
  }
  if (header.back() == ',') {
    header.pop_back();
  }
  header += "}";
  header.resize((header.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::ofstream stream(path, std::ios::binary);
  for (size_t i = 0; i < kLengthBytes; ++i) {
    stream.put(static_cast<char>(header.size() >> (8 * i)));
  }
  stream << header;
  for (const auto& [name, tensor] : file.tensors) {
    stream.write(reinterpret_cast<const char*>(tensor.bytes.data()), static_cast<std::streamsize>(tensor.bytes.size()));
  }
  stream.close();
  if (!stream) {
    fail(path, "cannot be written");
  }
}

}  // namespace delegatec
