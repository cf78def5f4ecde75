# SPDX-License-Identifier: Apache-2.0
"""The common implementation of `delegate_program` and the rules of the built-in backends."""

load("//rules:providers.bzl", "DelegateProgramInfo", "ExportedProgramInfo")
load(":app_kernels.bzl", "kernel_flags")
load(":backend_tools.bzl", "program_tools")
load(":backends.bzl", "BackendTableInfo", "builtin_packages", "check_backends")
load(":compiler_tables.bzl", "NOTES")
load(":delegatec_action.bzl", "ACTION_ATTRS", "delegatec_action", "delegatec_arguments")
load(":delegation_options.bzl", "DELEGATION_ATTRS", "delegation_flags")
load(":idle_settings.bzl", "idle_problems")
load(":labels.bzl", "label_text")
load(":layout_options.bzl", "DELEGATE_LAYOUT_ATTRS", "LAYOUT_ATTRS", "layout_flags")
load(":options.bzl", "fail_with_all", "option_arguments", "problem")
load(":program_outputs.bzl", "program_outputs")
load(":python_paths.bzl", "import_roots", "merged_python")
load(":settings.bzl", "SettingsInfo")

LOWER_ATTRS = dict(
    dict(LAYOUT_ATTRS, **ACTION_ATTRS),
    program = attr.label(
        mandatory = True,
        doc = "The `exported_program` to lower.",
        providers = [ExportedProgramInfo],
    ),
    _backends = attr.label(
        default = "//rules/private:backends",
        providers = [BackendTableInfo, SettingsInfo],
    ),
)

DELEGATE_ATTRS = dict(dict(LOWER_ATTRS, **DELEGATE_LAYOUT_ATTRS), **DELEGATION_ATTRS)

def lower_program(ctx, backends, options = {}, plugin = []):
    """Declares the action that lowers `ctx.attr.program`.

    Args:
        ctx: the context of a rule with LOWER_ATTRS, or DELEGATE_ATTRS, and the delegatec toolchain.
        backends: names of built-in backends, or `module:attribute` of plug-ins, in order of priority.
        options: dict of option to a string, a list or a File; "BACKEND.OPTION" if there are several backends.
        plugin: targets with PyInfo that contain the plug-ins.

    Returns:
        The providers of the rule.
    """
    method_backends = getattr(ctx.attr, "method_backends", {})
    table = ctx.attr._backends[BackendTableInfo].backends
    requested = check_backends(ctx.label, table, [backends] + method_backends.values(), options)
    settings = ctx.attr._backends[SettingsInfo]
    options = _with_settings(settings.options, requested, options)
    fail_with_all(ctx.label, idle_problems(ctx.attr, table, requested, options, plugin))
    option_files = [value for value in options.values() if type(value) == "File"]
    options = {option: value.path if type(value) == "File" else value for option, value in options.items()}
    host_options = _host_options(table, requested, options)
    backend = ", ".join(requested) or "portable"
    exported = ctx.attr.program[ExportedProgramInfo]
    packages = builtin_packages(table, requested)
    python = merged_python(ctx, plugin)
    lowering_python = merged_python(ctx, plugin + program_tools(ctx))
    lowered = {
        flag: ctx.actions.declare_file("_without_lines/" + ctx.label.name + suffix)
        for flag, suffix in _DESCRIPTIONS.items()
    }
    lowered["pte"] = ctx.actions.declare_file(ctx.label.name + ".pte")
    outputs = dict(_located(ctx, exported.sources, lowered), pte = lowered["pte"])
    selected_operators = ctx.actions.declare_file(ctx.label.name + ".selected_operators.yaml")
    lowered["selected-operators"] = selected_operators
    etrecord = ctx.actions.declare_file(ctx.label.name + ".etrecord")

    host_program = ctx.actions.declare_file(ctx.label.name + ".host.pte") if host_options else None

    has_adapters = bool(exported.language_model) and exported.language_model.has_adapters
    fail_with_all(ctx.label, _adapter_problems(ctx) if has_adapters else [])
    flags = delegation_flags(ctx) + layout_flags(ctx, has_adapters) + kernel_flags(exported.kernels)

    # An ETRecord contains the weights, and lines: a separate action writes it, on demand only.
    for mnemonic, message, values, written in [
        ("DelegateLower", "Lowering %s for %s", options, lowered),
        ("DelegateRecord", "Recording %s for %s", options, {"etrecord": etrecord}),
    ] + ([("DelegateHost", "Lowering %s for %s, to run on the host", host_options, {"pte": host_program})] if host_program else []):
        args = delegatec_arguments(ctx, "lower")
        args.add(exported.program, format = "--program=%s")
        args.add_all(backends, format_each = "--backend=%s")
        args.add_all(option_arguments(values), format_each = "--option=%s")
        imports = depset(transitive = [lowering_python.imports, exported.kernels.imports])
        args.add_all(import_roots(ctx, imports), format_each = "--import-path=%s", uniquify = True)
        args.add_all(flags)
        for flag, output in written.items():
            args.add(output, format = "--" + flag + "=%s")
        if mnemonic == "DelegateHost":
            # The notes are those of the program itself.
            args.add_all(NOTES, format_each = "--silence-note=%s")
        inputs = [exported.program] + option_files
        if mnemonic == "DelegateLower":
            args.add_all(settings.flags)
        has_lines = mnemonic == "DelegateRecord"
        if has_lines:
            args.add(exported.sources, format = "--sources=%s")
            inputs.append(exported.sources)
        delegatec_action(
            ctx,
            args = args,
            inputs = depset(inputs, transitive = [lowering_python.files, exported.kernels.files]),
            mnemonic = mnemonic,
            outputs = written.values(),
            progress_message = message % (label_text(ctx.label), backend),
            sources = None if has_lines else exported.sources,
            backends = packages,
        )
    report = _described(ctx, requested, packages, outputs, python, "report", "DelegateReport", ".report.html")
    blobs = _described(ctx, requested, packages, outputs, python, "extract", "DelegateExtract", ".blobs.zip")
    weights = exported.weights if ctx.attr.external_weights or has_adapters else None
    return program_outputs(ctx, DelegateProgramInfo(
        backend = backend,
        backends = requested,
        blobs = blobs,
        debug = outputs["debug"],
        etrecord = etrecord,
        exported = exported,
        full_delegation = getattr(ctx.attr, "require_full_delegation", False),
        host_options = host_options,
        host_program = host_program,
        ir = outputs["ir"],
        manifest = outputs["manifest"],
        options = options,
        plugin_files = python.files,
        plugin_imports = python.imports,
        program = outputs["pte"],
        reasons = outputs["reasons"],
        report = report,
        selected_operators = selected_operators,
        weights = weights,
    ))

def _adapter_problems(ctx):
    if not ctx.attr.external_weights:
        return []
    return [problem(
        "DC423",
        "external_weights has no effect: the .ptd of a language model with adapters has their weights only",
        expected = "external_weights = False, or a model without adapter_rank",
    )]

# The descriptions that the lowering writes without lines, and their suffixes.
_DESCRIPTIONS = {
    "debug": ".debug.json",
    "ir": ".ir.txt",
    "manifest": ".manifest.json",
}

def _located(ctx, sources, lowered):
    """Declares the action that adds the model's lines to the descriptions, on demand.

    So an edit of comments or blank lines does not lower the model again.

    Args:
        ctx: the context of the rule.
        sources: File of the lines.
        lowered: dict of flag to File: what the lowering wrote.

    Returns:
        A dict of flag to File.
    """
    outputs = {
        flag: ctx.actions.declare_file(ctx.label.name + suffix)
        for flag, suffix in _DESCRIPTIONS.items()
    }
    reasons = ctx.actions.declare_file(ctx.label.name + ".reasons.txt")
    args = delegatec_arguments(ctx, "locate")
    args.add(sources, format = "--sources=%s")
    for flag, output in outputs.items():
        args.add(lowered[flag], format = "--" + flag + "=%s")
        args.add(output, format = "--located-" + flag + "=%s")
    args.add(reasons, format = "--reasons=%s")
    delegatec_action(
        ctx,
        args = args,
        inputs = depset([sources] + [lowered[flag] for flag in outputs]),
        mnemonic = "DelegateLocate",
        outputs = outputs.values() + [reasons],
        progress_message = "Adding lines to the descriptions of %s" % label_text(ctx.label),
    )
    return dict(outputs, reasons = reasons)

def _with_settings(settings, backends, options):
    """Adds the values of flags to the options that a target sets.

    Args:
        settings: options of SettingsInfo.
        backends: those of the program.
        options: those of the program.

    Returns:
        A dict like `options`.
    """
    added = {
        "%s.%s" % (backend, name) if len(backends) > 1 else name: value
        for backend in backends
        if backend in settings
        for name, value in settings[backend].items()
    }
    return dict(added, **options) if added else options

def _host_options(table, backends, options):
    """Returns the options of a program that runs on the host; None if the program itself does.

    Args:
        table: the built-in backends, from BackendTableInfo.
        backends: those of the program.
        options: those of the program.

    Returns:
        A dict like `options`, or None.
    """
    host = dict(options)
    for backend in backends:
        for name, spec in (table[backend].options.items() if backend in table else []):
            if spec.host:
                key = "%s.%s" % (backend, name) if len(backends) > 1 else name
                host[key] = spec.host
    return host if host != options else None

def _described(ctx, backends, packages, lowered, python, verb, mnemonic, suffix):
    """Declares an action that describes the program, on demand: it reads the blobs.

    Args:
        ctx: the context of the rule.
        backends: those of the program.
        packages: those of the built-in ones among them.
        lowered: the outputs of the lowering.
        python: the sources of plug-ins.
        verb: the compiler's verb, a key of `_VERBS`.
        mnemonic: of the action.
        suffix: of the output.

    Returns:
        The output.
    """
    flag, reads = _VERBS[verb]
    output = ctx.actions.declare_file(ctx.label.name + suffix)
    inputs = {name: lowered[name] for name in reads}
    args = delegatec_arguments(ctx, verb)
    args.add_all(backends, format_each = "--backend=%s")
    args.add_all(import_roots(ctx, python.imports), format_each = "--import-path=%s", uniquify = True)
    for name, file in dict(inputs, **{flag: output}).items():
        args.add(file, format = "--" + name + "=%s")
    delegatec_action(
        ctx,
        args = args,
        inputs = depset(inputs.values(), transitive = [python.files]),
        mnemonic = mnemonic,
        outputs = [output],
        progress_message = "Describing %s" % label_text(ctx.label),
        backends = packages,
    )
    return output

# Verb -> the flag of its output, and those of its inputs.
_VERBS = {
    "extract": ("blobs", ["debug", "pte"]),
    "report": ("report", ["debug", "manifest", "pte"]),
}
