// SPDX-License-Identifier: Apache-2.0
// Arenas whose size is exact, and which tell how much of them was used.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <executorch/runtime/core/memory_allocator.h>

namespace delegatec {

// Of an arena without a limit. Only pages that are used take memory.
constexpr uint32_t kUnlimitedBytes = 1u << 30;

// Memory that starts at a page.
class Pages {
 public:
  // Throws std::runtime_error if the system refuses.
  explicit Pages(size_t bytes);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  uint8_t* data_ = nullptr;
  size_t bytes_;
};

// Allocates from its beginning, as an app's arena does.
class Arena : private Pages, public executorch::runtime::MemoryAllocator {
 public:
  explicit Arena(uint32_t bytes) : Pages(bytes), MemoryAllocator(bytes, Pages::data()) {}

  void* allocate(size_t bytes, size_t alignment) override {
    void* allocated = MemoryAllocator::allocate(bytes, alignment);
    peak_ = std::max(peak_, used_size());
    return allocated;
  }

  // The most bytes that were in use at once: the size that the arena must have.
  size_t peak() const { return peak_; }

 private:
  size_t peak_ = 0;
};

}  // namespace delegatec
