# SPDX-License-Identifier: Apache-2.0
"""The table of backends as a provider for rules, and the analysis-time check of backends and their options."""

load(":ethos_u_options.bzl", "check_ethos_u_options")
load(":options.bzl", "did_you_mean", "fail_with_all", "option_problems", "problem")
load(":settings.bzl", "SETTINGS_ATTRS", "SettingsInfo", "option_settings", "settings_info")
load(":tosa_specification.bzl", "check_tosa_specification")

BackendTableInfo = provider(
    doc = "The built-in backends.",
    fields = {"backends": "dict of name to a struct: `title`, and `options`, a dict of name to `option`."},
)

def backend(title, options, package = ""):
    """Declares a built-in backend in the table of `builtin_backends.bzl`.

    Args:
        title: one line about its target and features.
        options: dict of name to `option`.
        package: its package in `python/delegatec/backends`, if several backends share one; else it has its name.

    Returns:
        A struct of these.
    """
    return struct(options = options, package = package, title = title)

def _backend_table_impl(ctx):
    table = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(table, ctx.attr.table)
    backends = {
        name: backend(entry["title"], {
            option: struct(**spec)
            for option, spec in entry["options"].items()
        }, entry["package"])
        for name, entry in json.decode(ctx.attr.table).items()
    }
    return [
        BackendTableInfo(backends = backends),
        settings_info(ctx, backends),
        DefaultInfo(
            files = depset([table]),
            runfiles = ctx.runfiles([table]),
        ),
    ]

backend_table = rule(
    implementation = _backend_table_impl,
    doc = "The table of backends and the settings of the build: providers for rules, and the table as `NAME.json` for programs.",
    attrs = dict(SETTINGS_ATTRS, table = attr.string(mandatory = True)),
    provides = [BackendTableInfo, SettingsInfo],
)

def declare_backend_table(name, backends, **kwargs):
    """Declares the target of the table.

    Args:
        name: the target's name.
        backends: dict of name to `backend`.
        **kwargs: the attributes of every rule.
    """
    backend_table(
        name = name,
        print_after = "//config:print_after",
        settings = {
            "//config:" + setting: "%s.%s" % (backend, option)
            for setting, (backend, option, _) in option_settings(backends).items()
        },
        table = json.encode(backends),
        verify_passes = "//config:verify_passes",
        **kwargs
    )

def is_plugin(backend):
    """Whether a backend is a plug-in, named as `module:attribute`."""
    return ":" in backend

def builtin_packages(table, backends):
    """Returns the packages of the built-in ones among some backends, sorted.

    Args:
        table: the built-in backends, from BackendTableInfo.
        backends: list of backends that exist.
    """
    names = [table[backend].package or backend for backend in backends if backend in table]
    return sorted(depset(names).to_list())

def check_backends(label, table, lists, options):
    """Fails unless the backends exist and accept these options.

    Args:
        label: the target, for the message.
        table: the built-in backends, from BackendTableInfo.
        lists: lists of backends: names of built-in backends, or `module:attribute` of plug-ins.
        options: dict of option to a string or a list; "BACKEND.OPTION" if there are several backends.

    Returns:
        The distinct backends, without "portable".
    """
    requested = {backend: None for backends in lists for backend in backends if backend != "portable"}.keys()
    problems = [
        problem(
            "DC401",
            "no backend is named \"%s\"" % backend,
            expected = "%s, or module:attribute of a plug-in" % ", ".join(sorted(table.keys() + ["portable"])),
            help = did_you_mean(backend, table.keys() + ["portable"]),
        )
        for backend in requested
        if not _exists(backend, table)
    ] + [
        problem(
            "DC401",
            "portable is listed with other backends: %s" % ", ".join(backends),
            expected = "portable alone, or backends without it",
            help = "remove it: operators that no backend supports run on the portable kernels anyway",
        )
        for backends in lists
        if "portable" in backends and len(depset(backends).to_list()) > 1
    ] + [
        problem(
            "DC423",
            "backend \"%s\" is listed twice: %s" % (backend, ", ".join(backends)),
            expected = "each backend once, in order of priority",
            help = "remove the others: they have no effect",
        )
        for backends in lists
        for backend in depset(backends).to_list()
        if len([each for each in backends if each == backend]) > 1
    ]
    owned = {backend: {} for backend in requested}
    for option, value in options.items():
        backend, name = _owner(requested, option)
        if not backend:
            problems.append(problem(
                "DC414",
                "option \"%s\" does not name its backend" % option,
                expected = " or ".join(["\"%s.%s\"" % (backend, option) for backend in requested]),
            ))
        elif _exists(backend, table):
            known = {} if backend == "portable" else None if is_plugin(backend) else table[backend].options
            problems += option_problems(backend, known, name, value)
            owned.setdefault(backend, {})[name] = value
    fail_with_all(label, problems)
    if "ethos_u" in requested:
        check_ethos_u_options(label, owned["ethos_u"], table["ethos_u"].options)
    for backend in requested:
        if backend in ("tosa", "vgf") and "specification" in owned[backend]:
            check_tosa_specification(label, owned[backend]["specification"])
    return requested

def _exists(backend, table):
    return backend == "portable" or is_plugin(backend) or backend in table

def _owner(backends, option):
    """Returns the backend of an option, None if that is not clear, and the option's name without the backend."""
    owners = [backend for backend in backends if option.startswith(backend + ".")]
    if owners:
        owner = sorted(owners, key = len)[-1]
        return owner, option[len(owner) + 1:]
    if len(backends) > 1:
        return None, option
    return backends[0] if backends else "portable", option
