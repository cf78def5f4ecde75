# SPDX-License-Identifier: Apache-2.0
"""`mps_program`: an exported program lowered for Metal Performance Shaders."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":backends.bzl", "BACKENDS")
load(":lower.bzl", "DELEGATE_ATTRS", "lower_program")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _mps_program_impl(ctx):
    return lower_program(ctx, backends = ["mps"], options = {
        "fp16_overflow": ctx.attr.fp16_overflow,
        "int4": ctx.attr.int4,
        "precision": ctx.attr.precision,
    })

mps_program = rule(
    implementation = _mps_program_impl,
    doc = "Lowers an exported program for the MPS backend of Apple's GPUs to `NAME.pte`.",
    attrs = dict(
        DELEGATE_ATTRS,
        fp16_overflow = attr.string(
            default = BACKENDS["mps"]["fp16_overflow"][0],
            doc = "`error`, or `saturate`: with `fp16`, whether a weight or a number beyond 65504 fails, or " +
                  "becomes that, as a mask of -1e9 may.",
        ),
        int4 = attr.string(
            default = BACKENDS["mps"]["int4"][0],
            doc = "`int8`, or `packed`: how weights that are quantised to four bits are stored. Packed ones have " +
                  "two in a byte, are computed in float16, and need macOS 15 or iOS 18.",
        ),
        precision = attr.string(
            default = BACKENDS["mps"]["precision"][0],
            doc = "`fp32`, or `fp16`: the type that delegates calculate in, and keep their weights in.",
        ),
    ),
    provides = [DelegateProgramInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
