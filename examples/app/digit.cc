// SPDX-License-Identifier: Apache-2.0
// Prints which digit each picture shows: bazel run //examples/app:digit -- $PWD/examples/app/samples/*.pgm
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include <executorch/extension/tensor/tensor.h>

#include "examples/app/digits.h"
#include "examples/app/picture.h"
#include "tools/cpp/runfiles/runfiles.h"

namespace {

using bazel::tools::cpp::runfiles::Runfiles;

// Prints the most probable digit; returns whether the program accepts the picture.
bool classify(digits::Program& program, const std::string& path) {
  Picture picture = read_picture(path);
  const auto pixels = executorch::extension::from_blob(picture.pixels.data(), {1, 1, picture.height, picture.width});
  const auto logits = program.forward(*pixels);
  if (!logits.ok()) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), executorch::runtime::to_string(logits.error()));
    return false;
  }
  const float* scores = logits->const_data_ptr<float>();
  const float* best = std::max_element(scores, scores + logits->numel());
  float sum = 0;
  for (const float* score = scores; score < scores + logits->numel(); ++score) {
    sum += std::exp(*score - *best);
  }
  std::printf("%s: %d (%.1f %%)\n", path.c_str(), static_cast<int>(best - scores), 100 / sum);
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  std::string error;
  const std::unique_ptr<Runfiles> runfiles(Runfiles::Create(arguments[0], &error));
  if (runfiles == nullptr) {
    std::fprintf(stderr, "digit: %s\n", error.c_str());
    return 1;
  }
  if (count < 2) {
    std::fprintf(stderr, "usage: digit PICTURE.pgm...\n");
    return 2;
  }
  digits::Program program(runfiles->Rlocation(digits::kProgram));
  bool accepted = true;
  try {
    for (int i = 1; i < count; ++i) {
      accepted = classify(program, arguments[i]) && accepted;
    }
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "digit: %s\n", problem.what());
    return 1;
  }
  return accepted ? 0 : 1;
}
