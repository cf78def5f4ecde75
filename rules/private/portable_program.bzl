# SPDX-License-Identifier: Apache-2.0
"""`portable_program`: an exported program lowered to the runtime's portable kernels."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":lower.bzl", "LOWER_ATTRS", "lower_program")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _portable_program_impl(ctx):
    return lower_program(ctx, backends = ["portable"])

portable_program = rule(
    implementation = _portable_program_impl,
    doc = "Lowers an exported program to the portable kernels, which every runtime has, and writes `NAME.pte`.",
    attrs = LOWER_ATTRS,
    provides = [DelegateProgramInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
