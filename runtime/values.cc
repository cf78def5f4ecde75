// SPDX-License-Identifier: Apache-2.0
// Conversion of tensors and numbers.
#include "runtime/values.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace delegatec {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::EValue;
using executorch::runtime::Tag;

struct Dtype {
  ScalarType type;
  const char* name;
};

constexpr Dtype kDtypes[] = {
    {ScalarType::Bool, "BOOL"},      {ScalarType::Byte, "U8"},    {ScalarType::Char, "I8"},
    {ScalarType::Short, "I16"},      {ScalarType::UInt16, "U16"}, {ScalarType::Int, "I32"},
    {ScalarType::UInt32, "U32"},     {ScalarType::Long, "I64"},   {ScalarType::UInt64, "U64"},
    {ScalarType::Half, "F16"},       {ScalarType::Float, "F32"},  {ScalarType::Double, "F64"},
    {ScalarType::BFloat16, "BF16"},
};

std::string shape_text(const std::vector<int32_t>& sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(sizes[i]);
  }
  return text + "]";
}

size_t element_count(const std::vector<int32_t>& sizes) {
  size_t count = 1;
  for (const int32_t size : sizes) {
    count *= static_cast<size_t>(size);
  }
  return count;
}

// Strides of a row-major tensor, in elements.
std::vector<int64_t> row_major_strides(const std::vector<int32_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * sizes[i];
  }
  return strides;
}

// Copies all elements between memory with two kinds of strides.
template <typename From, typename To>
void copy_elements(const std::vector<int32_t>& sizes, size_t element, const uint8_t* from, const From& from_strides,
                   uint8_t* to, const To& to_strides) {
  std::vector<int32_t> index(sizes.size(), 0);
  for (size_t remaining = element_count(sizes); remaining > 0; --remaining) {
    size_t source = 0;
    size_t target = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      source += static_cast<size_t>(index[i]) * static_cast<size_t>(from_strides[i]);
      target += static_cast<size_t>(index[i]) * static_cast<size_t>(to_strides[i]);
    }
    std::memcpy(to + target * element, from + source * element, element);
    for (size_t i = sizes.size(); i-- > 0;) {
      if (++index[i] < sizes[i]) {
        break;
      }
      index[i] = 0;
    }
  }
}

std::vector<int32_t> declared_sizes(const executorch::runtime::TensorInfo& input) {
  return {input.sizes().begin(), input.sizes().end()};
}

}  // namespace

std::string stored_dtype(ScalarType type) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.type == type) {
      return dtype.name;
    }
  }
  throw std::runtime_error("files cannot have tensors of scalar type " + std::to_string(static_cast<int>(type)));
}

OwnedTensor tensor_for(const StoredTensor& stored, const executorch::runtime::TensorInfo& input) {
  const std::vector<int32_t> declared = declared_sizes(input);
  bool fits = stored.sizes.size() == declared.size() && stored.dtype == stored_dtype(input.scalar_type());
  for (size_t i = 0; fits && i < declared.size(); ++i) {
    fits = stored.sizes[i] <= declared[i];
  }
  if (!fits) {
    throw std::runtime_error("is " + stored.dtype + shape_text(stored.sizes) + ", but the method takes " +
                             stored_dtype(input.scalar_type()) + shape_text(declared));
  }
  const size_t element = executorch::runtime::elementSize(input.scalar_type());
  if (stored.bytes.size() != element * element_count(stored.sizes)) {
    throw std::runtime_error("has another number of bytes than its shape");
  }
  std::vector<executorch::aten::DimOrderType> order(input.dim_order().begin(), input.dim_order().end());
  std::vector<executorch::aten::StridesType> strides(order.size(), 1);
  for (size_t i = order.size(); i-- > 1;) {
    // As the runtime counts them: an empty dimension like one of size 1.
    strides[order[i - 1]] = strides[order[i]] * std::max(stored.sizes[order[i]], 1);
  }
  OwnedTensor result;
  result.bytes.resize(stored.bytes.size());
  copy_elements(stored.sizes, element, stored.bytes.data(), row_major_strides(stored.sizes), result.bytes.data(), strides);
  result.tensor = executorch::extension::make_tensor_ptr(
      std::vector<executorch::aten::SizesType>(stored.sizes.begin(), stored.sizes.end()), result.bytes.data(),
      std::move(order), std::move(strides), input.scalar_type());
  return result;
}

StoredTensor stored(const executorch::aten::Tensor& tensor) {
  StoredTensor result;
  result.dtype = stored_dtype(tensor.scalar_type());
  result.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  result.bytes.resize(tensor.nbytes());
  copy_elements(result.sizes, tensor.element_size(), static_cast<const uint8_t*>(tensor.const_data_ptr()),
                tensor.strides(), result.bytes.data(), row_major_strides(result.sizes));
  return result;
}

StoredTensor zeros_for(const executorch::runtime::TensorInfo& input) {
  return {stored_dtype(input.scalar_type()), declared_sizes(input), std::vector<uint8_t>(input.nbytes(), 0)};
}

StoredTensor stored_number(const EValue& value) {
  StoredTensor result;
  const auto put = [&result](const char* dtype, auto number) {
    result.dtype = dtype;
    result.bytes.resize(sizeof number);
    std::memcpy(result.bytes.data(), &number, sizeof number);
  };
  if (value.isInt()) {
    put("I64", value.toInt());
  } else if (value.isDouble()) {
    put("F64", value.toDouble());
  } else if (value.isBool()) {
    put("BOOL", value.toBool());
  } else {
    throw std::runtime_error("files cannot have values of tag " + std::to_string(static_cast<int>(value.tag)));
  }
  return result;
}

EValue number_of(const StoredTensor& stored, Tag tag) {
  const auto get = [&stored](const char* dtype, auto number) {
    if (stored.dtype != dtype || !stored.sizes.empty() || stored.bytes.size() != sizeof number) {
      throw std::runtime_error("is " + stored.dtype + shape_text(stored.sizes) + ", but the method takes one number, " + dtype);
    }
    std::memcpy(&number, stored.bytes.data(), sizeof number);
    return number;
  };
  switch (tag) {
    case Tag::Int: return EValue(get("I64", int64_t{}));
    case Tag::Double: return EValue(get("F64", double{}));
    // bytes other than 0 and 1 are not valid bools
    case Tag::Bool: return EValue(get("BOOL", uint8_t{}) != 0);
    default: throw std::runtime_error("has tag " + std::to_string(static_cast<int>(tag)) + ", which files cannot have");
  }
}

}  // namespace delegatec
