# SPDX-License-Identifier: Apache-2.0
"""The built-in backends: the table of them, and the rule of each.

A backend is a package in `python/delegatec/backends`, and a row of BACKENDS with a rule here. Rules, the compiler's
build, documentation, tests and benchmarks read the backends and their options from this table.

A rule has the name of the variable to which it is assigned: `bazel query` prints it, and `kind()` selects by it. The
macros of `defs.bzl` have the same names.
"""

load(":backend_program.bzl", "backend_program")
load(":backends.bzl", "backend")
load(":compiler_tables.bzl", "VULKAN_DEVICES")
load(":options.bzl", "option")

_FP16_OVERFLOW = option(
    default = "error",
    doc = "with fp16, error rejects weights and constants beyond +-65504, saturate clamps them to that range; " +
          "the lowest and highest float32 are always clamped",
    needs = ["precision", "fp16"],
    values = ["error", "saturate"],
)

_PRECISION = option(
    default = "fp32",
    doc = "fp16 stores float32 weights as float16 and computes in it; inputs, outputs and what the model's code converts to float32 stay float32",
    setting = True,
    values = ["fp32", "fp16"],
)

# Backend -> its title and options. //tests/rules:backends_test compares the options with the backend's `options`.
BACKENDS = {
    "ethos_u": backend(
        options = {
            "accelerator": option(
                default = "ethos-u55-128",
                doc = "the NPU: its family, and its multiply-accumulate operations per cycle",
                values = [
                    "ethos-u55-32",
                    "ethos-u55-64",
                    "ethos-u55-128",
                    "ethos-u55-256",
                    "ethos-u65-256",
                    "ethos-u65-512",
                    "ethos-u85-128",
                    "ethos-u85-256",
                    "ethos-u85-512",
                    "ethos-u85-1024",
                    "ethos-u85-2048",
                ],
            ),
            "config": option(
                doc = "the configuration file of a board, with its systems and memory modes; by default Vela's " +
                      "own",
                file = [".ini"],
            ),
            "extra_flags": option(
                doc = "further flags of Vela, separated by spaces, such as --optimise=Size",
            ),
            "memory_mode": option(
                doc = "the section Memory_Mode.NAME of the configuration file: which memory stores what; by " +
                      "default Shared_Sram on U55, Dedicated_Sram_384KB on U65, Sram_Only on U85",
            ),
            "stage": option(
                default = "commands",
                doc = "commands compiles delegates to command streams of the NPU; tosa keeps their TOSA graphs, " +
                      "which run on the host",
                host = "tosa",
                values = ["commands", "tosa"],
            ),
            "system_config": option(
                doc = "the section System_Config.NAME of the configuration file: clocks and memories; by " +
                      "default Ethos_U55_High_End_Embedded, Ethos_U65_High_End or Ethos_U85_SYS_DRAM_Mid",
            ),
        },
        package = "arm",
        title = "Arm Ethos-U NPUs, integers of 8 and 16 bits",
    ),
    "mlx": backend(
        options = {
            "fp16_overflow": _FP16_OVERFLOW,
            "kv_cache": option(
                default = "program",
                doc = "runtime stores keys and values of attention in a cache that the app installs in a runtime from " +
                      "1.5.1 on; program keeps them in buffers of the delegate",
                needs = ["runtime", "1.5.1"],
                values = ["program", "runtime"],
            ),
            "precision": option(
                default = "fp32",
                doc = "fp16 and bf16 store float32 weights as float16 or bfloat16, and compute in it; inputs, outputs and what the model's code converts to float32 stay float32",
                setting = True,
                values = ["fp32", "fp16", "bf16"],
            ),
            "runtime": option(
                default = "1.5.1",
                doc = "the oldest runtime that runs the program: operations that it lacks are not used",
                values = ["1.4.1", "1.5.1"],
            ),
        },
        title = "MLX, on Apple's GPUs, fp32, fp16 and bfloat16, weights of 2 to 8 bits",
    ),
    "mps": backend(
        options = {
            "fp16_overflow": _FP16_OVERFLOW,
            "int4": option(
                default = "int8",
                doc = "int8 stores weights that are quantized to four bits in a byte each, for every system; packed " +
                      "stores two in a byte, for macOS 15 and iOS 18 or later, and computes such weights in float16",
                values = ["int8", "packed"],
            ),
            "precision": _PRECISION,
        },
        title = "Apple's Metal Performance Shaders, fp32 and fp16, 8-bit and 4-bit weights",
    ),
    "tosa": backend(
        options = {
            "specification": option(
                default = "TOSA-1.0+INT+FP",
                doc = "the consumer of the graphs: TOSA-1.0 with its profiles and extensions, as in TOSA-1.0+INT+int16",
            ),
        },
        package = "arm",
        title = "TOSA graphs, of integers and floating point",
    ),
    "vgf": backend(
        options = {
            "specification": option(
                default = "TOSA-1.0+INT+FP+int16",
                doc = "the TOSA operators that the device supports: TOSA-1.0 with its profiles and extensions",
            ),
        },
        package = "arm",
        title = "VGF, Arm's format of graphs for Vulkan devices, of floating point and int8",
    ),
    "vulkan": backend(
        options = {
            "device": option(
                doc = "the device: the name of a known one, or a file with its limits and the sizes that it computes " +
                      "wrongly, which are avoided; by default any device",
                file = [".json"],
                values = VULKAN_DEVICES,
            ),
            "fp16_overflow": _FP16_OVERFLOW,
            "precision": _PRECISION,
            "storage": option(
                default = "texture",
                doc = "texture stores tensors in 3-d textures where that costs no copy, buffer in buffers",
                values = ["texture", "buffer"],
            ),
            "textures": option(
                default = "mobile",
                doc = "mobile limits textures to 16384 x 16384 x 2048 texels, desktop to 2048 in each dimension; " +
                      "larger tensors are buffers",
                values = ["mobile", "desktop"],
            ),
        },
        title = "Vulkan, on GPUs of any vendor, fp32 and fp16, 8-bit and 4-bit weights, int8 layers",
    ),
    "xnnpack": backend(
        options = {
            "fp16_overflow": _FP16_OVERFLOW,
            "precision": _PRECISION,
            "recurrent": option(
                default = "loop",
                doc = "loop calls a delegate for each time step of a recurrent layer, unless copies of its weights " +
                      "for all steps are small; unrolled is one delegate, with copies unless the runtime's weight " +
                      "cache is on",
                values = ["loop", "unrolled"],
            ),
        },
        title = "XNNPACK, on CPUs of any vendor, fp32 and fp16, 8-bit and 4-bit weights, int8 layers",
    ),
}

ethos_u_program = backend_program("ethos_u", BACKENDS["ethos_u"])
mlx_program = backend_program("mlx", BACKENDS["mlx"])
mps_program = backend_program("mps", BACKENDS["mps"])
tosa_program = backend_program("tosa", BACKENDS["tosa"])
vgf_program = backend_program("vgf", BACKENDS["vgf"])
vulkan_program = backend_program("vulkan", BACKENDS["vulkan"])
xnnpack_program = backend_program("xnnpack", BACKENDS["xnnpack"])
