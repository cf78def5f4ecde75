# SPDX-License-Identifier: Apache-2.0
"""`delegate_program`: an exported program lowered for any backend, a user's own included."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":lower.bzl", "DELEGATE_ATTRS", "lower_program")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _delegate_program_impl(ctx):
    return lower_program(ctx, backend = ctx.attr.backend, options = ctx.attr.options, plugin = ctx.attr.deps)

delegate_program = rule(
    implementation = _delegate_program_impl,
    doc = """\
Lowers an exported program for a backend to `NAME.pte`.

The output groups `manifest`, `report`, `debug`, `etrecord` and `ir` have what else there is to know about it.
""",
    attrs = dict(
        DELEGATE_ATTRS,
        backend = attr.string(
            mandatory = True,
            doc = "A built-in backend (`mps`, `portable`), or `module:attribute`: a `delegatec.delegation.Backend` in `deps`.",
        ),
        deps = attr.label_list(
            doc = "Libraries that a plug-in is imported from.",
            providers = [PyInfo],
        ),
        options = attr.string_dict(
            doc = "The backend's options.",
        ),
    ),
    provides = [DelegateProgramInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
