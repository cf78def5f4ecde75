// SPDX-License-Identifier: Apache-2.0
// Pictures in the PGM format, as text.
#pragma once

#include <string>
#include <vector>

// A gray picture, row by row, from 0 to 1.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<float> pixels;
};

// Reads a picture; throws std::runtime_error if it cannot.
Picture read_picture(const std::string& path);
