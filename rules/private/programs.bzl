# SPDX-License-Identifier: Apache-2.0
"""What a BUILD file calls: each program rule, with the target that shows what is in the program."""

load(":delegate_program.bzl", _delegate_program = "delegate_program")
load(":delegation_options.bzl", "DELEGATION_ATTRS")
load(":exported_program.bzl", _exported_program = "exported_program")
load(":options.bzl", "did_you_mean", "refuse")
load(":portable_program.bzl", _portable_program = "portable_program")
load(":program_inspect.bzl", "program_inspect")

def inspected(rule, name, **kwargs):
    """A target of a rule, and `NAME.inspect`, out of the way of wildcards.

    Args:
        rule: an `exported_program`, or what one is lowered by.
        name: the target's name.
        **kwargs: its attributes.
    """
    rule(name = name, **kwargs)
    program_inspect(
        name = name + ".inspect",
        program = ":" + name,
        tags = ["manual"],
        testonly = kwargs.get("testonly"),
        visibility = kwargs.get("visibility"),
    )

def exported_program(name, srcs, entry, **kwargs):
    """Exports a PyTorch model, once for all the programs that are made of it.

    Args:
        name: the target's name; the archive is `NAME.pt2`, and `NAME.inspect` prints what is in it.
        srcs: the model's sources.
        entry: `module:function`, what returns the `delegatec.Model`.
        **kwargs: `deps`, `data`, `seed`, `weights_alignment`, and the attributes of every rule.
    """
    inspected(_exported_program, name = name, srcs = srcs, entry = entry, **kwargs)

def delegate_program(name, program, backend = None, backends = None, options = {}, **kwargs):
    """Lowers an exported program for a backend, a user's own included, or for several.

    Args:
        name: the target's name; the program is `NAME.pte`, and `NAME.inspect` prints what is in it.
        program: the `exported_program`.
        backend: a built-in backend, or `module:attribute` of a plug-in in `deps`.
        backends: instead of `backend`, several in order of priority: each is offered what those before it left.
        options: option to its value, a string or, for an option that is a list, a list of strings; with several
            backends each is named `"BACKEND.OPTION"`. A `select` has strings only.
        **kwargs: `deps`, `require_full_delegation`, the rules of what is delegated (`allow_operators`, `block_operators`, `allow_modules`,
            `block_modules`, `minimum_nodes`, `maximum_delegates`, `all_or_nothing`, `method_backends`),
            `external_weights`, those of the file's layout (`segment_alignment` and the like), and the attributes
            of every rule.
    """
    if (backend == None) == (not backends):
        refuse(
            "//%s:%s" % (native.package_name(), name),
            "DC401",
            "neither backend nor backends is given" if backend == None else "both backend and backends are given",
            expected = "backend = \"mps\", or backends = [\"module:attribute\", \"mps\"] in order of priority",
        )
    lists = {}
    if type(options) == "dict":
        lists = {option: value for option, value in options.items() if type(value) == "list"}
        options = {option: value for option, value in options.items() if option not in lists}
    inspected(
        _delegate_program,
        name = name,
        backends = backends or [backend],
        list_options = lists,
        options = options,
        program = program,
        **kwargs
    )

def portable_program(name, program, **kwargs):
    """Lowers an exported program to the portable kernels that every runtime has.

    Args:
        name: the target's name; the program is `NAME.pte`, and `NAME.inspect` prints what is in it.
        program: the `exported_program`.
        **kwargs: `external_weights`, `segment_alignment`, `constant_alignment`, and the attributes of every
            rule.
    """
    inspected(_portable_program, name = name, program = program, **kwargs)

def lowered_for_each(programs, name, program, backends, **kwargs):
    """Lowers one exported program for several backends, as `NAME_BACKEND`.

    Args:
        programs: dict of backend to the macro of its rule.
        name: prefix of the targets' names.
        program: the `exported_program`.
        backends: names of built-in backends.
        **kwargs: attributes; those of what is delegated reach the backends only.
    """
    for backend in backends:
        if backend not in programs:
            refuse(
                "//%s:%s" % (native.package_name(), name),
                "DC401",
                "no backend with a rule of its own is named \"%s\"" % backend,
                expected = ", ".join(sorted(programs)),
                help = did_you_mean(backend, programs) or "for a plug-in, or for options, write a delegate_program",
            )
        attributes = {
            attribute: value
            for attribute, value in kwargs.items()
            if backend != "portable" or attribute not in DELEGATION_ATTRS
        }
        programs[backend](name = "%s_%s" % (name, backend), program = program, **attributes)
