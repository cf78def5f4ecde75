# SPDX-License-Identifier: Apache-2.0
"""`NAME_program`: an exported program lowered for one built-in backend, whose options are attributes."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":backend_tools.bzl", "tools_attrs")
load(":backends.bzl", "BackendTableInfo")
load(":lower.bzl", "DELEGATE_ATTRS", "lower_program")
load(":options.bzl", "option_attribute")
load(":settings.bzl", "SettingsInfo", "setting_name")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _backend_program_impl(ctx):
    name = ctx.attr._backend
    backend = ctx.attr._backends[BackendTableInfo].backends[name]
    settings = ctx.attr._backends[SettingsInfo].options.get(name, {})
    options = {
        option: getattr(ctx.file if spec.file else ctx.attr, option)
        for option, spec in backend.options.items()
    }
    for option, spec in backend.options.items():
        if spec.setting and not options[option]:
            options[option] = settings.get(option, spec.default)

    # The names of options include the backend's if there are several.
    others = [each for several in ctx.attr.method_backends.values() for each in several if each not in (name, "portable")]
    prefix = name + "." if others else ""
    return lower_program(ctx, backends = [name], options = {
        prefix + option: value
        for option, value in options.items()
        if value != None
    })

def backend_program(name, backend):
    """Returns the rule of a built-in backend.

    Args:
        name: the backend's name.
        backend: its row in the table.

    Returns:
        A rule.
    """
    for option in backend.options:
        if option in DELEGATE_ATTRS:
            fail("option \"%s\" of backend \"%s\" has the name of an attribute of every program rule" % (option, name))
    return rule(
        implementation = _backend_program_impl,
        doc = "Lowers an exported program to `NAME.pte`, for %s." % backend.title,
        attrs = dict(
            dict(DELEGATE_ATTRS, **tools_attrs([name])),
            _backend = attr.string(default = name),
            **{
                option: option_attribute(spec, "//config:" + setting_name(name, option))
                for option, spec in backend.options.items()
            }
        ),
        provides = [DelegateProgramInfo],
        toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
    )
