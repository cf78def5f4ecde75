# SPDX-License-Identifier: Apache-2.0
"""`delegate_program`: an exported program lowered for any backend, a user's own included."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":lower.bzl", "DELEGATE_ATTRS", "lower_program")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _delegate_program_impl(ctx):
    options = dict(ctx.attr.options, **ctx.attr.list_options)
    return lower_program(ctx, backends = ctx.attr.backends, options = options, plugin = ctx.attr.deps)

delegate_program = rule(
    implementation = _delegate_program_impl,
    doc = """\
Lowers an exported program for a backend, or for several, to `NAME.pte`.

Each backend is offered what those before it left; the runtime's portable kernels run what all have left. The output
groups `manifest`, `report`, `reasons`, `debug`, `etrecord` and `ir` have what else there is to know about it.
""",
    attrs = dict(
        DELEGATE_ATTRS,
        backends = attr.string_list(
            allow_empty = False,
            mandatory = True,
            doc = "In order of priority: a built-in backend, such as `mps` or `portable`, or `module:attribute`, a `delegatec.delegation.Backend` in `deps`.",
        ),
        deps = attr.label_list(
            doc = "Libraries that a plug-in is imported from.",
            providers = [PyInfo],
        ),
        list_options = attr.string_list_dict(
            doc = "Those of `options` whose value is a list.",
        ),
        options = attr.string_dict(
            doc = "The backend's options; with several backends each is named `BACKEND.OPTION`, the backend as it is in `backends`.",
        ),
    ),
    provides = [DelegateProgramInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
