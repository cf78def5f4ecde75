// SPDX-License-Identifier: Apache-2.0
// JSON as the header of a .safetensors file has it: objects, lists, strings and integers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace delegatec {

// A value. Its accessors throw std::runtime_error if it is of another kind.
class Json {
 public:
  // Throws std::runtime_error if the text is malformed, or has another kind of value.
  static Json parse(const std::string& text);

  const std::string& text() const;
  int64_t integer() const;
  const std::vector<Json>& items() const;
  const std::vector<std::pair<std::string, Json>>& members() const;
  const Json& at(const std::string& name) const;

 private:
  friend class JsonParser;
  enum class Kind { kText, kInteger, kList, kObject };

  void expect(Kind kind) const;

  Kind kind_ = Kind::kInteger;
  std::string text_;
  int64_t integer_ = 0;
  std::vector<Json> items_;
  std::vector<std::pair<std::string, Json>> members_;
};

// Returns a text as a string of JSON.
std::string quoted(const std::string& text);

}  // namespace delegatec
