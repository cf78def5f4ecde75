# SPDX-License-Identifier: Apache-2.0
"""Repositories that export Bazel's built-in rules as rules_python and bazel_features do.

Bazel 4.2.3 cannot load a current version of these. With Bazel 8 and later the rules are no longer built in, so that our
BUILD files load them.
"""

_PYTHON_PROVIDERS = """\
BuiltinPyInfo = PyInfo
BuiltinPyRuntimeInfo = PyRuntimeInfo
"""

_PYTHON = """\
load(":providers.bzl", _PyInfo = "BuiltinPyInfo", _PyRuntimeInfo = "BuiltinPyRuntimeInfo")

PyInfo = _PyInfo
PyRuntimeInfo = _PyRuntimeInfo
py_binary = native.py_binary
py_library = native.py_library
py_test = native.py_test
"""

_PY_RUNTIME_PAIR = """\
load("@bazel_tools//tools/python:toolchain.bzl", _py_runtime_pair = "py_runtime_pair")

py_runtime_pair = _py_runtime_pair
"""

_FEATURES = """\
load(":providers.bzl", "BuiltinPyInfo")

bazel_features = struct(globals = struct(PyInfo = BuiltinPyInfo))
"""

# Repository -> path of a file in it -> text.
BUILTIN_RULES = {
    "bazel_features": {
        "BUILD.bazel": "",
        "features.bzl": _FEATURES,
        "providers.bzl": _PYTHON_PROVIDERS,
    },
    "rules_python": {
        "BUILD.bazel": "",
        "python/BUILD.bazel": "",
        "python/defs.bzl": _PYTHON,
        "python/providers.bzl": _PYTHON_PROVIDERS,
        "python/py_runtime.bzl": "py_runtime = native.py_runtime\n",
        "python/py_runtime_pair.bzl": _PY_RUNTIME_PAIR,
    },
}

# Path in rules_cc -> text, for the files that its versions for Bazel 4.2.3 do not have.
BUILTIN_CC_RULES = {
    "cc/cc_binary.bzl": "cc_binary = native.cc_binary\n",
    "cc/cc_import.bzl": "cc_import = native.cc_import\n",
    "cc/cc_library.bzl": "cc_library = native.cc_library\n",
    "cc/cc_test.bzl": "cc_test = native.cc_test\n",
    "cc/common/BUILD.bazel": "",
    "cc/common/cc_common.bzl": "load(\":builtin.bzl\", \"builtin_cc_common\")\n\ncc_common = builtin_cc_common\n",
    "cc/common/cc_info.bzl": "load(\":builtin.bzl\", \"BuiltinCcInfo\")\n\nCcInfo = BuiltinCcInfo\n",
    "cc/common/builtin.bzl": "BuiltinCcInfo = CcInfo\nbuiltin_cc_common = cc_common\n",
}

def _files_impl(rctx):
    for path, text in rctx.attr.files.items():
        rctx.file(path, text, executable = False)

_files = repository_rule(
    implementation = _files_impl,
    doc = "A repository of the given files.",
    attrs = {"files": attr.string_dict(mandatory = True, doc = "Path to text.")},
)

def builtin_rules(existing):
    """Declares the repositories.

    Args:
        existing: names of repositories that are already declared, which are not changed.
    """
    for name, files in BUILTIN_RULES.items():
        if name not in existing:
            _files(name = name, files = files)
