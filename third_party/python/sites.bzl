# SPDX-License-Identifier: Apache-2.0
"""The site-packages folders, each with what is trimmed from it. Their contents are in the locks beside this file."""

load(":interpreter.bzl", "python_interpreter")
load(":wheels.bzl", "wheels")

# What no build and no test of ours needs of a wheel, wherever it comes from.
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
            # For who compiles C++ against torch, and torch's tests.
            "torch/bin/*",
            "torch/include",
            "torch/lib/*test*.so",
            "torch/lib/libaoti_custom_ops.so",
            "torch/lib/libbackend_with_compiler.so",
            "torch/share",
            "torch/test",
            "torchgen/packaged",
            "isympy.py",
            # For torch.utils.cpp_extension, which nothing here calls.
            "_distutils_hack",
            "distutils-precedence.pth",
            "pkg_resources",
            "setuptools",
            "setuptools-*",
            # For who compiles C against numpy.
            "numpy/_core/include",
            "numpy/_core/lib",
        ],
        # `import torch` fails without it.
        keep = ["torch/bin/torch_shm_manager"],
        exports = [],
    ),
    "flatc": struct(
        # The static libraries and headers that go with the executable.
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
    "models": struct(
        drop = _DROP_EVERYWHERE,
        keep = [],
        exports = [],
    ),
    "oracle": struct(
        # Wanted are the runtime's Python bindings and the peer's lowering for our backends: no C++ headers, no
        # language models, no backends of other chips.
        drop = _DROP_EVERYWHERE + [
            "executorch/**/test",
            "executorch/backends/cadence",
            "executorch/backends/mlx",
            "executorch/backends/nxp",
            "executorch/examples/[!m]*",
            "executorch/extension/llm",
            "executorch/extension/training",
            "executorch/include",
            "executorch/share",
        ],
        keep = [
            # The peer's own tests of its MPS delegate, and models that they lower; others are in examples/models.
            "executorch/backends/apple/mps/test",
            "executorch/exir/tests",
        ],
        exports = [],
    ),
    "test": struct(
        drop = _DROP_EVERYWHERE,
        keep = [],
        exports = [],
    ),
}

def python_sites(names):
    """Declares @delegatec_python, and @delegatec_pip_NAME for each name.

    A repository that the workspace has declared already is left as it is.

    Args:
        names: names of sites, keys of the table above; each has its lock in `NAME.lock.txt`.
    """
    if not native.existing_rule("delegatec_python"):
        python_interpreter(name = "delegatec_python")
    for name in names:
        repository = "delegatec_pip_" + name
        if not native.existing_rule(repository):
            site = _SITES[name]
            wheels(
                name = repository,
                drop = site.drop,
                exports = site.exports,
                keep = site.keep,
                lock = Label("//third_party/python:%s.lock.txt" % name),
            )
