// SPDX-License-Identifier: Apache-2.0
// The embedded program on a picture of each digit, and on inputs that it must refuse.
#include <algorithm>
#include <cstdio>
#include <string>

#include <executorch/extension/tensor/tensor.h>

#include "examples/app/embedded_digits.h"
#include "examples/app/picture.h"

namespace {

using executorch::aten::ScalarType;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;

int failures = 0;

void expect(bool holds, const char* what) {
  if (!holds) {
    std::printf("FAILED: %s\n", what);
    ++failures;
  }
}

void test_digits(embedded_digits::Program& program) {
  for (int digit = 0; digit < 10; ++digit) {
    Picture picture = read_picture("examples/app/samples/" + std::to_string(digit) + ".pgm");
    const TensorPtr pixels = executorch::extension::from_blob(picture.pixels.data(), {1, 1, 8, 8});
    const auto logits = program.forward(*pixels);
    expect(logits.ok(), "the program runs");
    const float* scores = logits->const_data_ptr<float>();
    expect(std::max_element(scores, scores + 10) - scores == digit, "the digit is right");
  }
}

void test_refusals(embedded_digits::Program& program) {
  const auto refused = [&program](const TensorPtr& tensor) {
    return program.forward(*tensor).error() == Error::InvalidArgument;
  };
  expect(refused(executorch::extension::zeros({1, 1, 8, 8}, ScalarType::Double)), "another dtype is refused");
  expect(refused(executorch::extension::zeros({1, 1, 4, 16})), "another shape of as many elements is refused");
  expect(refused(executorch::extension::zeros({1, 8, 8})), "another rank is refused");
  std::vector<float> zeros(64);
  const auto ordered = [&zeros](std::vector<executorch::aten::DimOrderType> order,
                                std::vector<executorch::aten::StridesType> strides) {
    return executorch::extension::make_tensor_ptr({1, 1, 8, 8}, zeros.data(), std::move(order), std::move(strides),
                                                  ScalarType::Float);
  };
  expect(refused(ordered({0, 1, 3, 2}, {64, 64, 1, 8})), "transposed pixels are refused");
  expect(!refused(ordered({0, 2, 3, 1}, {64, 1, 8, 1})), "channels-last is the same for one channel");
}

}  // namespace

int main() {
  embedded_digits::Program program;
  expect(program.load() == Error::Ok, "the program is loaded");
  test_digits(program);
  test_refusals(program);
  expect(embedded_digits::ForwardMemory::kMethod > 0 && embedded_digits::ForwardMemory::kPlanned1 > 0, "sizes are known");
  return failures == 0 ? 0 : 1;
}
