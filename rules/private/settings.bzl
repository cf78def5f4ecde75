# SPDX-License-Identifier: Apache-2.0
"""Settings of a build, the flags of `//config`: defaults of backends' options, and how the compiler runs."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo", "string_flag")

SettingsInfo = provider(
    doc = "What the flags of `//config` say about lowerings.",
    fields = {
        "flags": "list of string: flags of the compiler, which do not change what it writes.",
        "options": "dict of backend to dict of option to string: those that a flag sets, with values other than the defaults.",
    },
)

def setting_name(backend, option):
    """Returns the name of the flag of an option in `//config`."""
    return "%s_%s" % (backend, option)

def option_settings(backends):
    """Returns the options that have flags.

    Args:
        backends: dict of name to `backend`.

    Returns:
        A dict of the flag's name to a tuple of backend, option and `option`.
    """
    return {
        setting_name(name, option): (name, option, spec)
        for name, backend in backends.items()
        for option, spec in backend.options.items()
        if spec.setting
    }

def declare_option_settings(backends):
    """Declares the flags of options.

    Args:
        backends: dict of name to `backend`.
    """
    for setting, (_, _, spec) in option_settings(backends).items():
        string_flag(
            name = setting,
            build_setting_default = spec.default,
            values = spec.values,
        )

SETTINGS_ATTRS = {
    "print_after": attr.label(
        mandatory = True,
        providers = [BuildSettingInfo],
    ),
    "settings": attr.label_keyed_string_dict(
        doc = "Flag -> its option, as BACKEND.OPTION.",
        providers = [BuildSettingInfo],
    ),
    "verify_passes": attr.label(
        mandatory = True,
        providers = [BuildSettingInfo],
    ),
}

def settings_info(ctx, backends):
    """Returns the values of the flags.

    Args:
        ctx: the context of a rule with SETTINGS_ATTRS.
        backends: dict of name to `backend`.

    Returns:
        SettingsInfo.
    """
    options = {}
    for target, key in ctx.attr.settings.items():
        backend, _, option = key.partition(".")
        value = target[BuildSettingInfo].value
        if value != backends[backend].options[option].default:
            options.setdefault(backend, {})[option] = value
    passes = ctx.attr.print_after[BuildSettingInfo].value
    flags = ["--print-after=" + name for name in passes.split(",") if name]
    if ctx.attr.verify_passes[BuildSettingInfo].value:
        flags.append("--verify-passes")
    return SettingsInfo(flags = flags, options = options)
