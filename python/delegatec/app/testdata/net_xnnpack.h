// Generated for //app:net; do not edit.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/typed_program.h"

namespace net {

// Backends of its delegates: XnnpackBackend. Kernels outside of them: aten::copy_, aten::sum.IntList_out, dim_order_ops::_to_dim_order_copy.out.

// Paths in the runfiles.
inline constexpr char kProgram[] = "w/app/net.pte";

// Bytes of the arenas of each method, for an app that allocates them, at multiples of 16. Method and temporary
// arenas are those of the runtime of 1.5.1; AtLeast marks those of which backends or kernels take more.
struct ForwardMemory {
  static constexpr size_t kPlanned1 = 14080;
  static constexpr size_t kPlanned2 = 16;
#if UINTPTR_MAX > UINT32_MAX
  static constexpr size_t kMethod = 2472;
  static constexpr size_t kTemporary = 240;
#else
  static constexpr size_t kMethodAtLeast = 1292;  // besides XnnpackBackend
  static constexpr size_t kTemporary = 168;
#endif
};
struct TakeMemory {
  static constexpr size_t kPlanned1 = 16;
  static constexpr size_t kPlanned2 = 16;
#if UINTPTR_MAX > UINT32_MAX
  static constexpr size_t kMethod = 576;
  static constexpr size_t kTemporary = 0;
#else
  static constexpr size_t kMethodAtLeast = 180;  // besides XnnpackBackend
  static constexpr size_t kTemporary = 0;
#endif
};

namespace internal {

inline constexpr int32_t kForwardSizes0[] = {5, 3, 8, 8};
inline constexpr int32_t kForwardLeast0[] = {1, 3, 8, 8};
inline constexpr int8_t kForwardSymbols0[] = {0, -1, -1, -1};
inline constexpr uint8_t kForwardOrder0[] = {0, 2, 3, 1};
inline constexpr delegatec::TensorSpec kForwardInputs[] = {
    {0, "new_", executorch::aten::ScalarType::Float, 4, kForwardSizes0, kForwardLeast0, kForwardSymbols0, kForwardOrder0},
};
inline constexpr const char* kMethods[] = {"forward", "take"};

}  // namespace internal

// The program. Each function checks dtypes, shapes and orders of dimensions, and returns InvalidArgument, with a message
// in the log, for others. Tensors that it returns are valid until the next call. State lasts from one call to the next.
class Program final : public delegatec::TypedProgram {
 public:
  // The program in a file.
  explicit Program(const std::string& pte)
      : TypedProgram({internal::kMethods, 2}, true, pte, "") {}

  struct ForwardResult {
    executorch::aten::Tensor class_;  // float32[5, 4, 8, 8], or smaller, in memory in the order of dimensions 0, 2, 3, 1
    int64_t sizes_0;  // int
    executorch::aten::Tensor sizes_1;  // float32[4]
  };

  // new_: float32[1 to 5, 3, 8, 8], in memory in the order of dimensions 0, 2, 3, 1
  executorch::runtime::Result<ForwardResult> forward(const executorch::aten::Tensor& new_) {
    const auto values = call("forward", {internal::kForwardInputs, 1}, {new_, executorch::runtime::EValue(double{0.5})});
    if (!values.ok()) {
      return values.error();
    }
    return ForwardResult{(*values)[0].toTensor(), (*values)[1].toInt(), (*values)[2].toTensor()};
  }

  // Returns float32[4].
  executorch::runtime::Result<executorch::aten::Tensor> take() {
    const auto values = call("take", {}, {});
    if (!values.ok()) {
      return values.error();
    }
    return (*values)[0].toTensor();
  }
};

}  // namespace net
