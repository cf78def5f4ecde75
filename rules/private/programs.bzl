# SPDX-License-Identifier: Apache-2.0
"""What a BUILD file calls: each program rule, with the target that shows what is in the program."""

load(":delegate_program.bzl", _delegate_program = "delegate_program")
load(":delegation_options.bzl", "DELEGATION_ATTRS")
load(":exported_program.bzl", _exported_program = "exported_program")
load(":mps_program.bzl", _mps_program = "mps_program")
load(":portable_program.bzl", _portable_program = "portable_program")
load(":program_inspect.bzl", "program_inspect")

def _inspect(name, attributes):
    """`NAME.inspect`, out of the way of wildcards."""
    program_inspect(
        name = name + ".inspect",
        program = ":" + name,
        tags = ["manual"],
        testonly = attributes.get("testonly"),
        visibility = attributes.get("visibility"),
    )

def exported_program(name, srcs, entry, **kwargs):
    """Exports a PyTorch model, once for all the programs that are made of it.

    Args:
        name: the target's name; the archive is `NAME.pt2`, and `NAME.inspect` prints what is in it.
        srcs: the model's sources.
        entry: `module:function`, what returns the `delegatec.Model`.
        **kwargs: `deps`, `data`, `seed`, `weights_alignment`, and the attributes of every rule.
    """
    _exported_program(name = name, srcs = srcs, entry = entry, **kwargs)
    _inspect(name, kwargs)

def delegate_program(name, program, backend = None, backends = None, **kwargs):
    """Lowers an exported program for a backend, a user's own included, or for several.

    Args:
        name: the target's name; the program is `NAME.pte`, and `NAME.inspect` prints what is in it.
        program: the `exported_program`.
        backend: a built-in backend, or `module:attribute` of a plug-in in `deps`.
        backends: instead of `backend`, several in order of priority: each is offered what those before it left.
        **kwargs: `options` (of one of several backends: `"BACKEND.OPTION"`), `deps`, `require_full_delegation`,
            the rules of what is delegated (`allow_operators`, `block_operators`, `allow_modules`,
            `block_modules`, `minimum_nodes`, `maximum_delegates`, `all_or_nothing`, `method_backends`),
            `external_weights`, those of the file's layout (`segment_alignment` and the like), and the attributes
            of every rule.
    """
    if (backend == None) == (not backends):
        fail("\n".join([
            "",
            "//%s:%s: error DC401: %s" % (
                native.package_name(),
                name,
                "neither backend nor backends is given" if backend == None else "both backend and backends are given",
            ),
            "  expected: backend = \"mps\", or backends = [\"module:attribute\", \"mps\"] in order of priority",
            "",
        ]))
    _delegate_program(name = name, program = program, backends = backends or [backend], **kwargs)
    _inspect(name, kwargs)

def mps_program(name, program, **kwargs):
    """Lowers an exported program for the MPS backend of Apple's GPUs.

    Args:
        name: the target's name; the program is `NAME.pte`, and `NAME.inspect` prints what is in it.
        program: the `exported_program`.
        **kwargs: `precision`, `fp16_overflow`, `int4`, `require_full_delegation`, the rules of what is delegated
            (`allow_operators`, `block_operators`, `allow_modules`, `block_modules`, `minimum_nodes`,
            `maximum_delegates`, `all_or_nothing`, `method_backends`), `external_weights`, those of the file's
            layout (`segment_alignment` and the like), and the attributes of every rule.
    """
    _mps_program(name = name, program = program, **kwargs)
    _inspect(name, kwargs)

def portable_program(name, program, **kwargs):
    """Lowers an exported program to the portable kernels that every runtime has.

    Args:
        name: the target's name; the program is `NAME.pte`, and `NAME.inspect` prints what is in it.
        program: the `exported_program`.
        **kwargs: `external_weights`, `segment_alignment`, `constant_alignment`, and the attributes of every
            rule.
    """
    _portable_program(name = name, program = program, **kwargs)
    _inspect(name, kwargs)

# The backends that have a rule of their own.
_RULES = {
    "mps": mps_program,
    "portable": portable_program,
}

def delegate_programs(name, program, backends, **kwargs):
    """Lowers one exported program for several backends, each with its defaults, as `NAME_BACKEND`.

    Args:
        name: prefix of the targets' names.
        program: the `exported_program`.
        backends: names of built-in backends.
        **kwargs: the attributes of every rule; and the rules of what is delegated, for those that delegate.
    """
    for backend in backends:
        if backend in _RULES:
            attributes = dict(kwargs)
            if backend == "portable":
                for attribute in DELEGATION_ATTRS:
                    attributes.pop(attribute, None)
            _RULES[backend](name = "%s_%s" % (name, backend), program = program, **attributes)
        else:
            fail("\n".join([
                "",
                "//%s:%s: error DC401: no backend with a rule of its own is named \"%s\"" % (native.package_name(), name, backend),
                "  expected: " + ", ".join(sorted(_RULES)),
                "  help: for a plug-in, or for options, write a delegate_program",
                "",
            ]))
