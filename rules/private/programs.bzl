# SPDX-License-Identifier: Apache-2.0
"""Macros for BUILD files: each declares a program, and the targets that show its contents."""

load(":backend_tools.bzl", "requested_tools")
load(":checkpoint.bzl", "checkpoint_tokenizer")
load(":delegate_program.bzl", _delegate_program = "delegate_program")
load(":delegation_options.bzl", "DELEGATION_ATTRS")
load(":exported_program.bzl", _exported_program = "exported_program")
load(":options.bzl", "did_you_mean", "fail_with")
load(":portable_program.bzl", _portable_program = "portable_program")
load(":program_explain.bzl", "program_explain")
load(":program_inspect.bzl", "program_inspect")
load(":program_profile.bzl", "program_profile")
load(":program_report.bzl", "program_report")
load(":quantized_program.bzl", _quantized_program = "quantized_program")

def inspected(rule, name, **kwargs):
    """Declares a target of a rule, and `NAME.inspect`, which wildcards do not build.

    Args:
        rule: a rule that writes a `.pt2` or lowers one.
        name: the target's name.
        **kwargs: the target's attributes.
    """
    tools = requested_tools(kwargs.get("backends", []), kwargs.get("method_backends", {}))
    if tools:
        kwargs["tools"] = tools
    rule(name = name, **kwargs)
    program_inspect(
        name = name + ".inspect",
        program = ":" + name,
        tags = ["manual"],
        testonly = kwargs.get("testonly"),
        visibility = kwargs.get("visibility"),
    )

def lowered(rule, name, **kwargs):
    """Declares a program, and `NAME.explain`, `.inspect`, `.profile` and `.report`, which wildcards do not build.

    Args:
        rule: a rule that lowers an exported program.
        name: the target's name.
        **kwargs: the target's attributes.
    """
    inspected(rule, name, **kwargs)
    common = {
        "program": ":" + name,
        "tags": ["manual"],
        "testonly": kwargs.get("testonly"),
        "visibility": kwargs.get("visibility"),
    }
    program_explain(name = name + ".explain", **common)
    program_profile(name = name + ".profile", runner = Label("//config:profile_runner"), **common)
    program_report(name = name + ".report", **common)

def exported_program(name, srcs, entry, **kwargs):
    """Exports a PyTorch model, once for all programs lowered from it.

    Args:
        name: the target's name; the archive is `NAME.pt2`, and `NAME.inspect` prints its contents.
        srcs: the model's sources.
        entry: `module:function`, which returns the `delegatec.Model`.
        **kwargs: `deps`, `data`, `kernels`, `samples`, `seed`, `weights_alignment`, `license`, `license_files`, and the attributes of every rule.
    """
    inspected(_exported_program, name = name, srcs = srcs, entry = entry, **kwargs)

def checkpoint_programs(rule, programs, name, checkpoint, backends, options):
    """Declares a model from the folder of its checkpoint, its tokenizer, and a program for each backend.

    Args:
        rule: a rule with `CHECKPOINT_ATTRS`.
        programs: dict of backend to the macro of its rule.
        name: the name of the model.
        checkpoint: the files of the published folder.
        backends: names of built-in backends.
        options: the attributes of the model; those of every rule go to all targets.
    """
    common = {key: options[key] for key in ["tags", "testonly", "visibility"] if key in options}
    inspected(rule, name = name, checkpoint = checkpoint, **options)
    checkpoint_tokenizer(name = name + ".tokenizer", model = ":" + name, **common)
    lowered_for_each(programs, name = name, program = ":" + name, backends = backends, **common)

def quantized_program(name, program, **kwargs):
    """Quantizes an exported program, once for all programs lowered from it.

    Args:
        name: the target's name; the archive is `NAME.pt2`, and `NAME.inspect` prints its contents.
        program: the `exported_program`, in float32.
        **kwargs: samples (`calibration`, or `calibration_entry` with `srcs`, `deps`, `data` and `seed`), settings
            (`activation`, `weight`, `weight_scales`, `group_size`, `ranges`, `observer`, `inner`, `quantize_io`,
            `float_modules`, `float_operators`), a limit of the loss (`maximum_loss`, `metric`, `metric_over`, `dataset`,
            `dataset_entry`), `weights_alignment`, and the attributes of every rule.
    """
    inspected(_quantized_program, name = name, program = program, **kwargs)

def delegate_program(name, program, backend = None, backends = None, options = {}, **kwargs):
    """Lowers an exported program for one or several backends, including plug-ins.

    Args:
        name: the target's name; the program is `NAME.pte`; `NAME.inspect` prints its contents, `NAME.report` draws them.
        program: the `exported_program`.
        backend: a built-in backend, or `module:attribute` of a plug-in in `deps`.
        backends: instead of `backend`, several in order of priority: each partitions the operators that those before
            it did not delegate.
        options: dict of option to a string or a list of strings; named `"BACKEND.OPTION"` if there are several
            backends. A `select` has strings only.
        **kwargs: `deps`, `require_full_delegation`, delegation rules (`allow_operators`, `block_operators`,
            `allow_modules`, `block_modules`, `minimum_nodes`, `maximum_delegates`, `all_or_nothing`,
            `method_backends`), `external_weights`, layout options (such as `segment_alignment`), and the attributes
            of every rule.
    """
    if type(backend) == "select":
        fail_with(
            "//%s:%s" % (native.package_name(), name),
            "DC401",
            "backend is a select",
            expected = "backends = select(...) of lists, such as [\"mps\"]",
        )
    if (backend == None) == (not backends):
        fail_with(
            "//%s:%s" % (native.package_name(), name),
            "DC401",
            "neither backend nor backends is set" if backend == None else "both backend and backends are set",
            expected = "backend = \"mps\", or backends = [\"module:attribute\", \"mps\"] in order of priority",
        )
    lists = {}
    if type(options) == "dict":
        lists = {option: value for option, value in options.items() if type(value) == "list"}
        options = {option: value for option, value in options.items() if option not in lists}
    lowered(
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
        name: the target's name; the program is `NAME.pte`; `NAME.inspect` prints its contents, `NAME.report` draws them.
        program: the `exported_program`.
        **kwargs: `external_weights`, `segment_alignment`, `constant_alignment`, and the attributes of every
            rule.
    """
    lowered(_portable_program, name = name, program = program, **kwargs)

def lowered_for_each(programs, name, program, backends, **kwargs):
    """Lowers one exported program for several backends, as `NAME_BACKEND`.

    Args:
        programs: dict of backend to the macro of its rule.
        name: prefix of the targets' names.
        program: the `exported_program`.
        backends: names of built-in backends.
        **kwargs: attributes; delegation rules are passed to backends that delegate only.
    """
    if type(backends) in ["select", "string"]:
        fail_with(
            "//%s:%s" % (native.package_name(), name),
            "DC401",
            "backends of delegate_programs has type %s" % type(backends),
            expected = "a list of built-in backends: it determines which targets there are",
            help = "write a delegate_program for each choice of a select" if type(backends) == "select" else "write backends = [\"%s\"]" % backends,
        )
    for position, backend in enumerate(backends):
        if backend in backends[:position]:
            fail_with(
                "//%s:%s" % (native.package_name(), name),
                "DC423",
                "backend \"%s\" is listed twice: %s" % (backend, ", ".join(backends)),
                expected = "each backend once: there is one target for each",
            )
        if backend not in programs:
            fail_with(
                "//%s:%s" % (native.package_name(), name),
                "DC401",
                "unknown built-in backend \"%s\"" % backend,
                expected = ", ".join(sorted(programs)),
                help = did_you_mean(backend, programs) or "for a plug-in, or for options, write a delegate_program",
            )
        attributes = {
            attribute: value
            for attribute, value in kwargs.items()
            if backend != "portable" or attribute not in DELEGATION_ATTRS
        }
        programs[backend](name = "%s_%s" % (name, backend), program = program, **attributes)
