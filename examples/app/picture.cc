// SPDX-License-Identifier: Apache-2.0
// The reader of pictures.
#include "examples/app/picture.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

Picture read_picture(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  for (std::string line; std::getline(file, line);) {
    text << line.substr(0, line.find('#')) << '\n';
  }
  std::string kind;
  Picture picture;
  int white = 0;
  text >> kind >> picture.width >> picture.height >> white;
  if (!text || kind != "P2" || picture.width < 1 || picture.width > 4096 || picture.height < 1 ||
      picture.height > 4096 || white < 1) {
    throw std::runtime_error(path + ": not a picture in PGM as text");
  }
  for (int left = picture.width * picture.height; left > 0; --left) {
    int value = 0;
    text >> value;
    picture.pixels.push_back(static_cast<float>(value) / static_cast<float>(white));
  }
  if (!text) {
    throw std::runtime_error(path + ": pixels are missing");
  }
  return picture;
}
