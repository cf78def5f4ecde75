// SPDX-License-Identifier: Apache-2.0
// Memory of the system for arenas.
#include "runtime/arena.h"

#include <sys/mman.h>

#include <stdexcept>
#include <string>

namespace delegatec {

Pages::Pages(size_t bytes) : bytes_(bytes) {
  void* mapped = mmap(nullptr, std::max<size_t>(bytes, 1), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw std::runtime_error("no memory for an arena of " + std::to_string(bytes) + " bytes");
  }
  data_ = static_cast<uint8_t*>(mapped);
}

Pages::~Pages() { munmap(data_, std::max<size_t>(bytes_, 1)); }

}  // namespace delegatec
