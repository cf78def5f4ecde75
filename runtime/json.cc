// SPDX-License-Identifier: Apache-2.0
// The parser of JSON.
#include "runtime/json.h"

#include <cstdio>
#include <stdexcept>

namespace delegatec {

class JsonParser {
 public:
  explicit JsonParser(const std::string& text) : text_(text) {}

  Json document() {
    Json value = parse(0);
    skip();
    if (position_ != text_.size()) {
      fail();
    }
    return value;
  }

 private:
  static constexpr int kDeepest = 16;

  [[noreturn]] void fail() const {
    throw std::runtime_error("malformed JSON at character " + std::to_string(position_));
  }

  void skip() {
    position_ = text_.find_first_not_of(" \t\r\n", position_);
    if (position_ == std::string::npos) {
      position_ = text_.size();
    }
  }

  char next() {
    if (position_ >= text_.size()) {
      fail();
    }
    return text_[position_++];
  }

  // Consumes a character if it is the next one.
  bool accept(char expected) {
    skip();
    if (position_ < text_.size() && text_[position_] == expected) {
      ++position_;
      return true;
    }
    return false;
  }

  void expect(char expected) {
    if (!accept(expected)) {
      fail();
    }
  }

  Json parse(int depth) {
    if (depth > kDeepest) {
      fail();
    }
    Json value;
    if (accept('{')) {
      value.kind_ = Json::Kind::kObject;
      for (bool more = !accept('}'); more; more = !accept('}')) {
        if (!value.members_.empty()) {
          expect(',');
        }
        expect('"');
        std::string name = string();
        expect(':');
        value.members_.emplace_back(std::move(name), parse(depth + 1));
      }
    } else if (accept('[')) {
      value.kind_ = Json::Kind::kList;
      for (bool more = !accept(']'); more; more = !accept(']')) {
        if (!value.items_.empty()) {
          expect(',');
        }
        value.items_.push_back(parse(depth + 1));
      }
    } else if (accept('"')) {
      value.kind_ = Json::Kind::kText;
      value.text_ = string();
    } else {
      value.kind_ = Json::Kind::kInteger;
      value.integer_ = integer();
    }
    return value;
  }

  int64_t integer() {
    const size_t end = text_.find_first_not_of("-0123456789", position_);
    const std::string digits = text_.substr(position_, end == std::string::npos ? end : end - position_);
    size_t used = 0;
    try {
      const int64_t value = std::stoll(digits, &used);
      position_ += used;
      return value;
    } catch (const std::logic_error&) {
      fail();
    }
  }

  // The rest of a string after its opening quote, in UTF-8.
  std::string string() {
    std::string result;
    for (char c = next(); c != '"'; c = next()) {
      result += c == '\\' ? escape() : std::string(1, c);
    }
    return result;
  }

  std::string escape() {
    const char c = next();
    switch (c) {
      case 'b': return "\b";
      case 'f': return "\f";
      case 'n': return "\n";
      case 'r': return "\r";
      case 't': return "\t";
      case 'u': return encoded(code_point());
      case '"': case '\\': case '/': return std::string(1, c);
      default: fail();
    }
  }

  uint32_t code_point() {
    const uint32_t unit = hexadecimal();
    if (unit < 0xD800 || unit > 0xDFFF) {
      return unit;
    }
    if (unit > 0xDBFF || next() != '\\' || next() != 'u') {
      fail();
    }
    const uint32_t low = hexadecimal();
    if (low < 0xDC00 || low > 0xDFFF) {
      fail();
    }
    return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  }

  uint32_t hexadecimal() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = next();
      const size_t digit = std::string("0123456789abcdef").find(c | (c >= 'A' && c <= 'F' ? 0x20 : 0));
      if (digit == std::string::npos) {
        fail();
      }
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
  }

  static std::string encoded(uint32_t code) {
    std::string result;
    if (code < 0x80) {
      result += static_cast<char>(code);
    } else if (code < 0x800) {
      result += static_cast<char>(0xC0 | code >> 6);
    } else if (code < 0x10000) {
      result += static_cast<char>(0xE0 | code >> 12);
      result += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    } else {
      result += static_cast<char>(0xF0 | code >> 18);
      result += static_cast<char>(0x80 | (code >> 12 & 0x3F));
      result += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    }
    if (code >= 0x80) {
      result += static_cast<char>(0x80 | (code & 0x3F));
    }
    return result;
  }

  const std::string& text_;
  size_t position_ = 0;
};

Json Json::parse(const std::string& text) { return JsonParser(text).document(); }

void Json::expect(Kind kind) const {
  if (kind_ != kind) {
    throw std::runtime_error("a value of its header has an invalid type");
  }
}

const std::string& Json::text() const {
  expect(Kind::kText);
  return text_;
}

int64_t Json::integer() const {
  expect(Kind::kInteger);
  return integer_;
}

const std::vector<Json>& Json::items() const {
  expect(Kind::kList);
  return items_;
}

const std::vector<std::pair<std::string, Json>>& Json::members() const {
  expect(Kind::kObject);
  return members_;
}

const Json& Json::at(const std::string& name) const {
  for (const auto& [key, value] : members()) {
    if (key == name) {
      return value;
    }
  }
  throw std::runtime_error("its header has no \"" + name + "\" for a tensor");
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    char escaped[8];
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      result += escaped;
    } else {
      result += c;
    }
  }
  return result + "\"";
}

}  // namespace delegatec
