# SPDX-License-Identifier: Apache-2.0
"""FlatBuffers schemas in a build."""

load("//rules/private/flatbuffers:flatbuffer_py_library.bzl", _flatbuffer_py_library = "flatbuffer_py_library")

flatbuffer_py_library = _flatbuffer_py_library
