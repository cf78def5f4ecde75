// SPDX-License-Identifier: Apache-2.0
// The class of a program with state, external weights, and results of several kinds.
#include <cmath>
#include <cstdio>
#include <vector>

#include <executorch/extension/tensor/tensor.h>

#include "tests/cc/counter.h"

namespace {

using executorch::extension::TensorPtr;
using executorch::runtime::Error;

int failures = 0;

void expect(bool holds, const char* what) {
  if (!holds) {
    std::printf("FAILED: %s\n", what);
    ++failures;
  }
}

bool near(float found, float expected) { return std::abs(found - expected) < 1e-5f; }

// Images whose red, green and blue are 1, 2 and 3: each mean of the network is 6.
TensorPtr images(std::vector<float>& pixels, int count, bool channels_last) {
  const int area = 8 * 8;
  pixels.resize(static_cast<size_t>(count * 3 * area));
  for (size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<float>(channels_last ? i % 3 + 1 : i / area % 3 + 1);
  }
  using Order = std::vector<executorch::aten::DimOrderType>;
  using Strides = std::vector<executorch::aten::StridesType>;
  return executorch::extension::make_tensor_ptr(
      {count, 3, 8, 8}, pixels.data(), channels_last ? Order{0, 2, 3, 1} : Order{0, 1, 2, 3},
      channels_last ? Strides{3 * area, 1, 24, 3} : Strides{3 * area, area, 8, 1}, executorch::aten::ScalarType::Float);
}

void test_calls(counter::Program& program) {
  std::vector<float> pixels;
  for (int call = 1; call <= 3; ++call) {
    const auto result = program.forward(*images(pixels, call, true), *executorch::extension::ones({call}));
    expect(result.ok(), "forward runs with any number of images");
    expect(result->images == call, "a number is returned");
    expect(near(result->total.const_data_ptr<float>()[3], 3.0f * static_cast<float>(call)), "state lasts");

    const TensorPtr cache = executorch::extension::ones({4});
    const auto taken = program.take(*cache);
    const float sum = 1 + 3.0f * static_cast<float>(call);
    expect(taken.ok() && near(taken->const_data_ptr<float>()[0], 2 * sum), "methods share state");
    expect(near(cache->const_data_ptr<float>()[0], sum), "an input is written to");
  }
}

void test_refusals(counter::Program& program) {
  std::vector<float> pixels;
  const auto refused = [&program](const TensorPtr& image, int count) {
    return program.forward(*image, *executorch::extension::ones({count})).error() == Error::InvalidArgument;
  };
  expect(refused(images(pixels, 2, false), 2), "row-major images are refused");
  expect(refused(images(pixels, 5, true), 5), "too many images are refused");
  expect(refused(images(pixels, 2, true), 3), "as many weights as images are needed");
  expect(refused(executorch::extension::ones({2, 3, 7, 8}), 2), "smaller images are refused");
  expect(program.take(*executorch::extension::ones({2, 2})).error() == Error::InvalidArgument, "a shape is refused");
}

}  // namespace

int main() {
  counter::Program program;
  test_refusals(program);
  test_calls(program);
  return failures == 0 ? 0 : 1;
}
