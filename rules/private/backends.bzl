# SPDX-License-Identifier: Apache-2.0
"""The table of backends as rules get it, and what of backends and their options is checked before anything is built."""

load(":options.bzl", "check_option", "did_you_mean", "refuse")

BackendTableInfo = provider(
    doc = "The built-in backends.",
    fields = {"backends": "dict of name to a struct: `title`, and `options`, a dict of name to `option`."},
)

def backend(title, options):
    """A built-in backend in the table of `defs.bzl`.

    Args:
        title: what it is for, and what it can do, in a line.
        options: dict of name to `option`.

    Returns:
        A struct of these.
    """
    return struct(options = options, title = title)

def _backend_table_impl(ctx):
    table = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(table, ctx.attr.table)
    backends = {
        name: backend(entry["title"], {
            option: struct(**spec)
            for option, spec in entry["options"].items()
        })
        for name, entry in json.decode(ctx.attr.table).items()
    }
    return [
        BackendTableInfo(backends = backends),
        DefaultInfo(
            files = depset([table]),
            runfiles = ctx.runfiles([table]),
        ),
    ]

_backend_table = rule(
    implementation = _backend_table_impl,
    doc = "The table of backends, for rules; and as `NAME.json`, for programs.",
    attrs = {"table": attr.string(mandatory = True)},
    provides = [BackendTableInfo],
)

def backend_table(name, backends, **kwargs):
    """Declares the table.

    Args:
        name: the target's name.
        backends: dict of name to `backend`.
        **kwargs: the attributes of every rule.
    """
    _backend_table(name = name, table = json.encode(backends), **kwargs)

def is_plugin(backend):
    """Whether a backend is named as `module:attribute`, and so is a user's own."""
    return ":" in backend

def check_backends(label, table, lists, options):
    """Fails unless the backends are there and take these options.

    A plug-in's options are checked by the plug-in itself, while it lowers.

    Args:
        label: the target, for the message.
        table: the built-in backends, of BackendTableInfo.
        lists: lists of backends: a backend's name, or `module:attribute` of a plug-in.
        options: dict of option to a string or a list; an option of one of several backends is named "BACKEND.OPTION".

    Returns:
        Each backend once; "portable" is none.
    """
    asked = []
    for backends in lists:
        for backend in backends:
            if not is_plugin(backend) and backend != "portable" and backend not in table:
                refuse(
                    label,
                    "DC401",
                    "no backend is named \"%s\"" % backend,
                    expected = "%s, or module:attribute of a plug-in" % ", ".join(sorted(table.keys() + ["portable"])),
                    help = did_you_mean(backend, table.keys() + ["portable"]),
                )
            if backend == "portable" and len(backends) > 1:
                refuse(
                    label,
                    "DC401",
                    "portable is listed with other backends: %s" % ", ".join(backends),
                    expected = "portable alone, or backends without it",
                    help = "remove it: what the backends leave runs on the portable kernels anyway",
                )
            if backend != "portable" and backend not in asked:
                asked.append(backend)
    for option, value in options.items():
        backend, name = _owner(label, asked, option)
        known = {} if backend == "portable" else None if is_plugin(backend) else table[backend].options
        check_option(label, backend, known, name, value)
    return asked

def _owner(label, backends, option):
    """The backend that an option is for, and its name there."""
    owners = [backend for backend in backends if option.startswith(backend + ".")]
    if owners:
        owner = sorted(owners, key = len)[-1]
        return owner, option[len(owner) + 1:]
    if len(backends) > 1:
        refuse(
            label,
            "DC414",
            "option \"%s\" does not name its backend" % option,
            expected = " or ".join(["\"%s.%s\"" % (backend, option) for backend in backends]),
        )
    return backends[0] if backends else "portable", option
