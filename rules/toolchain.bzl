# SPDX-License-Identifier: Apache-2.0
"""The toolchains of the rules: the compiler, and flatc."""

load(
    "//rules/private:delegatec_toolchain.bzl",
    _DelegatecInfo = "DelegatecInfo",
    _delegatec_binary = "delegatec_binary",
    _delegatec_toolchain = "delegatec_toolchain",
)
load("//rules/private/flatbuffers:flatc_toolchain.bzl", _FlatcInfo = "FlatcInfo", _flatc_toolchain = "flatc_toolchain")

DelegatecInfo = _DelegatecInfo
FlatcInfo = _FlatcInfo
delegatec_binary = _delegatec_binary
delegatec_toolchain = _delegatec_toolchain
flatc_toolchain = _flatc_toolchain
