// Generated for //app:net; do not edit.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/typed_program.h"

namespace app::models {

// Backends of its delegates: XnnpackBackend. Kernels outside of them: none.

// Bytes of the arenas of each method, for an app that allocates them, at multiples of 16. Method and temporary
// arenas were measured in the runtime of this build, on a 64-bit host.
struct ForwardMemory {
  static constexpr size_t kPlanned1 = 64;
  static constexpr size_t kMethod = 100;
  static constexpr size_t kTemporary = 20;
};

namespace internal {

inline constexpr int32_t kForwardSizes0[] = {2, 3};
inline constexpr int32_t kForwardLeast0[] = {2, 3};
inline constexpr int8_t kForwardSymbols0[] = {-1, -1};
inline constexpr uint8_t kForwardOrder0[] = {0, 1};
inline constexpr delegatec::TensorSpec kForwardInputs[] = {
    {0, "x", executorch::aten::ScalarType::Float, 2, kForwardSizes0, kForwardLeast0, kForwardSymbols0, kForwardOrder0},
};
inline constexpr const char* kMethods[] = {"forward"};

extern "C" const uint8_t delegatec_net_pte[];
extern "C" const uint8_t delegatec_net_pte_end[];

}  // namespace internal

// The program. Each function checks dtypes, shapes and orders of dimensions, and returns InvalidArgument, with a message
// in the log, for others. Tensors that it returns are valid until the next call. State lasts from one call to the next.
class Program final : public delegatec::TypedProgram {
 public:
  // The program in the app.
  Program()
      : TypedProgram({internal::kMethods, 1}, false,
                     {internal::delegatec_net_pte, static_cast<size_t>(internal::delegatec_net_pte_end - internal::delegatec_net_pte)},
{}) {}

  // x: float32[2, 3]
  // Returns float32[2, 3].
  executorch::runtime::Result<executorch::aten::Tensor> forward(const executorch::aten::Tensor& x) {
    const auto values = call("forward", {internal::kForwardInputs, 1}, {x});
    if (!values.ok()) {
      return values.error();
    }
    return (*values)[0].toTensor();
  }
};

}  // namespace app::models
