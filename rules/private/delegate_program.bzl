# SPDX-License-Identifier: Apache-2.0
"""`delegate_program`: an exported program lowered for any backends, including plug-ins."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":backend_tools.bzl", "tools_attrs")
load(":lower.bzl", "DELEGATE_ATTRS", "lower_program")
load(":python_paths.bzl", "PYTHON_PROVIDERS")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _delegate_program_impl(ctx):
    options = dict(ctx.attr.options, **ctx.attr.list_options)
    return lower_program(ctx, backends = ctx.attr.backends, options = options, plugin = ctx.attr.deps)

delegate_program = rule(
    implementation = _delegate_program_impl,
    doc = """\
Lowers an exported program for one or several backends to `NAME.pte`.

Each backend partitions the operators that those before it did not delegate; the portable kernels of the runtime run
the rest. The output groups `blobs`, `manifest`, `report`, `reasons`,
`debug`, `etrecord`, `ir` and `selected_operators` describe the program.
""",
    attrs = dict(
        dict(DELEGATE_ATTRS, **tools_attrs()),
        backends = attr.string_list(
            allow_empty = False,
            mandatory = True,
            doc = "In order of priority: a built-in backend, such as `mps` or `portable`, or `module:attribute`, a `delegatec.delegation.Backend` in `deps`. `backend` sets a single one.",
        ),
        deps = attr.label_list(
            doc = "Libraries that contain the plug-ins.",
            providers = PYTHON_PROVIDERS,
        ),
        list_options = attr.string_list_dict(
            doc = "Options whose value is a list.",
        ),
        options = attr.string_dict(
            doc = "The backend's options; named `BACKEND.OPTION` if there are several `backends`.",
        ),
    ),
    provides = [DelegateProgramInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
