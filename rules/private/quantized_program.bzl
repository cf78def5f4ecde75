# SPDX-License-Identifier: Apache-2.0
"""`quantized_program`: quantizes an exported program, by samples of its inputs or without any."""

load("//rules:providers.bzl", "ExportedProgramInfo")
load(":app_kernels.bzl", "module_flags")
load(":compiler_tables.bzl", "QUANTIZATION_CHOICES", "QUANTIZATION_STATIC")
load(":delegatec_action.bzl", "ACTION_ATTRS", "delegatec_action", "delegatec_arguments")
load(":exported_outputs.bzl", "check_entry", "exported_outputs")
load(":labels.bzl", "label_text")
load(":metrics.bzl", "dataset_problems", "loss_problems")
load(":options.bzl", "fail_with", "fail_with_all", "problem")
load(":python_paths.bzl", "PYTHON_PROVIDERS", "import_roots", "merged_python", "source_roots")
load(":quantization.bzl", "setting_problems", "with_settings")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _check_samples(ctx):
    """Fails if there are no samples, or files of a function without one."""
    attributes = ctx.attr
    if attributes.calibration_entry:
        check_entry(ctx, "calibration_entry", attributes.calibration_entry)
    elif not attributes.calibration and attributes.activation in QUANTIZATION_STATIC:
        fail_with(
            ctx.label,
            "DC132",
            "neither calibration nor calibration_entry is set",
            expected = "calibration = [\"samples.safetensors\"], or calibration_entry = \"module:function\" with `srcs`",
            help = "a few dozen samples of real inputs determine the ranges of all values; activation = " +
                   "\"dynamic_int8\" or \"float\" needs none",
        )
    elif attributes.srcs or attributes.data or ((attributes.deps or attributes.seed) and not attributes.maximum_loss):
        fail_with(
            ctx.label,
            "DC101",
            "srcs, deps, data and seed are for calibration_entry, which is not set",
            expected = "calibration_entry = \"module:function\"",
            help = "list data files of tensors in `calibration`",
        )
    elif not attributes.dataset_entry and (attributes.seed or (attributes.deps and not attributes.metric)):
        idle = "seed" if attributes.seed else "deps"
        fail_with(
            ctx.label,
            "DC101",
            "%s is set, and nothing of the target is a function that uses it" % idle,
            expected = "calibration_entry or dataset_entry" + (", or no seed" if idle == "seed" else ", metric, or no deps"),
        )

def _search_problems(attributes):
    """Returns what is wrong with the attributes of the search for layers in float."""
    problems = []
    if attributes.metric_over != "sample" and not attributes.metric:
        problems.append(problem("DC136", "metric_over has no effect without metric", expected = "both, or neither"))
    if not attributes.maximum_loss:
        return problems + [
            problem(
                "DC136",
                "%s has no effect without maximum_loss" % name,
                expected = "both, or neither",
            )
            for name, default in {"dataset": None, "dataset_entry": "", "metric": "", "metric_over": "sample"}.items()
            if getattr(attributes, name) != default
        ]
    needs_dataset = bool(attributes.metric) or attributes.activation not in QUANTIZATION_STATIC
    return problems + dataset_problems(attributes, is_required = needs_dataset) + loss_problems(attributes)

def _quantized_program_impl(ctx):
    fail_with_all(ctx.label, setting_problems(ctx.attr) + _search_problems(ctx.attr))
    _check_samples(ctx)
    exported = ctx.attr.program[ExportedProgramInfo]
    program = ctx.actions.declare_file(ctx.label.name + ".pt2")
    signature = ctx.actions.declare_file(ctx.label.name + ".signature.json")
    python = merged_python(ctx, ctx.attr.deps + [ctx.attr._torchao])

    args = delegatec_arguments(ctx, "quantize")
    args.add(exported.program, format = "--program=%s")
    args.add(program, format = "--pt2=%s")
    args.add(signature, format = "--signature=%s")
    args.add_all(ctx.files.calibration, format_each = "--calibration=%s")
    args.add_all(module_flags(exported.kernels))
    roots = import_roots(ctx, depset(transitive = [python.imports, exported.kernels.imports]))
    if ctx.attr.calibration_entry:
        args.add(ctx.attr.calibration_entry, format = "--entry=%s")
        args.add_all(ctx.files.srcs, format_each = "--source=%s")
        args.add_all(ctx.files.data, format_each = "--data=%s")
        roots = source_roots(ctx) + roots
    if ctx.attr.calibration_entry or ctx.attr.dataset_entry:
        args.add(str(ctx.attr.seed), format = "--seed=%s")
    args.add_all(roots, format_each = "--import-path=%s", uniquify = True)
    if ctx.attr.maximum_loss:
        args.add(ctx.attr.maximum_loss, format = "--maximum-loss=%s")
        args.add_all(ctx.files.dataset, format_each = "--dataset=%s")
        for name in ["dataset_entry", "metric", "metric_over"]:
            if getattr(ctx.attr, name):
                args.add(getattr(ctx.attr, name), format = "--%s=%%s" % name.replace("_", "-"))
    for name in sorted(QUANTIZATION_CHOICES):
        args.add(getattr(ctx.attr, name), format = "--%s=%%s" % name.replace("_", "-"))
    if ctx.attr.group_size:
        args.add(ctx.attr.group_size, format = "--group-size=%s")
    if ctx.attr.minimum_snr_db:
        args.add(ctx.attr.minimum_snr_db, format = "--minimum-snr-db=%s")

    if exported.samples:
        args.add(exported.samples, format = "--samples-file=%s")
    if ctx.attr.quantize_io:
        args.add("--quantize-io")
    args.add_all(ctx.attr.float_modules, format_each = "--float-module=%s")
    args.add_all(ctx.attr.float_operators, format_each = "--float-operator=%s")
    delegatec_action(
        ctx,
        args = args,
        inputs = depset(
            [exported.program] + ([exported.samples] if exported.samples else []) + ctx.files.calibration + ctx.files.dataset + ctx.files.srcs + ctx.files.data,
            transitive = [python.files, exported.kernels.files],
        ),
        mnemonic = "DelegateQuantize",
        outputs = [program, signature],
        progress_message = "Quantizing %s" % label_text(ctx.label),
        sources = exported.sources,
    )

    # The nodes of the quantized program refer to the same lines.
    return exported_outputs(
        ctx,
        program,
        signature,
        exported.sources,
        # Quantized inputs are other values than those of the model's calls.
        None if ctx.attr.quantize_io else exported.samples,
        license = exported.license,
        license_files = exported.license_files,
        minimum_snr_db = ctx.attr.minimum_snr_db,
        quantized = True,
        kernels = exported.kernels,
    )

quantized_program = rule(
    implementation = _quantized_program_impl,
    doc = """\
Quantizes an exported program once, for all programs that are lowered from it.

Observes the values inside the model on samples of its inputs, without network or home directory, unless
`activation` needs no samples, and writes the quantized model as `NAME.pt2`: a program for every rule that lowers an
`exported_program`. The same inputs give the same bytes.
""",
    attrs = dict(ACTION_ATTRS, **with_settings({
        "calibration": attr.label_list(
            allow_files = True,
            doc = "Samples: `.safetensors` files with a tensor per input, or `.npy` files for a model with one input. " +
                  "A tensor has the shape of the input, or a first dimension of samples besides.",
        ),
        "calibration_entry": attr.string(
            doc = "`module:function` in one of `srcs`: returns samples, besides those of `calibration`. A sample is a " +
                  "tensor, a tuple of arguments, or a dict of tensors by input.",
        ),
        "data": attr.label_list(
            allow_files = True,
            doc = "Files that the function reads, found by `delegatec.data_path`.",
        ),
        "dataset": attr.label(
            allow_single_file = [".safetensors"],
            doc = "Samples that the loss is measured with: a tensor for each input, named `0`, `1`, ..., and `labels` for " +
                  "the metric. The first dimension of each is that of samples. By default those of the calibration.",
        ),
        "dataset_entry": attr.string(
            doc = "`module:attribute` in `deps`, instead of `dataset`: an iterable of pairs `(inputs, label)`, or a function " +
                  "without parameters that returns one, such as a generator.",
        ),
        "deps": attr.label_list(
            doc = "Libraries that `srcs` import, and those that contain the metric and the dataset.",
            providers = PYTHON_PROVIDERS,
        ),
        "float_modules": attr.string_list(
            doc = "Modules that stay in float, with all modules inside them, such as `classifier`.",
        ),
        "float_operators": attr.string_list(
            doc = "Operators that stay in float, such as `aten.softmax`.",
        ),
        "group_size": attr.int(
            doc = "Inputs of a linear layer with one scale, for `int8` and `int4` without samples: 32, 64 or any number that " +
                  "divides the inputs of each layer. 0: a scale per output channel.",
        ),
        "maximum_loss": attr.string(
            doc = "By how much the metric may be lower than that of the model in float, such as `0.01`: the layers that cost " +
                  "most stay in float until it fits. Without `metric`, the loss is the error of the outputs over the outputs, " +
                  "both as powers: `0.001` is 30 dB. A string: older versions of Bazel do not support floats.",
        ),
        "metric": attr.string(
            doc = "`module:attribute` in `deps`: a function of the outputs and the label of a sample, as in a " +
                  "`program_accuracy_test`. It returns a number, more for better outputs.",
        ),
        "metric_over": attr.string(
            default = "sample",
            doc = "`sample`: the metric is the mean of the numbers. `dataset`: the function is called once, with a list of the " +
                  "outputs and one of the labels.",
            values = ["sample", "dataset"],
        ),
        "minimum_snr_db": attr.int(
            doc = "Least signal to noise ratio of each output against the model in float, in dB: less is an error. " +
                  "0: no limit. The figures are in the manifest of each program, and `inspect` prints those of the `.pt2`.",
        ),
        "program": attr.label(
            mandatory = True,
            doc = "The `exported_program`, in float32.",
            providers = [ExportedProgramInfo],
        ),
        "quantize_io": attr.bool(
            doc = "Whether float inputs and outputs of the program are quantized values, too. The output group " +
                  "`signature` has their scales and zero points.",
        ),
        "seed": attr.int(
            default = 0,
            doc = "Seed of the random generators of torch, numpy and Python when `calibration_entry` is called.",
        ),
        "srcs": attr.label_list(
            allow_files = [".py"],
            doc = "Sources of `calibration_entry`.",
        ),
        "weights_alignment": attr.int(
            default = 128,
            doc = "Alignment of each tensor in the `.ptd`, in bytes: a power of two.",
        ),
        "_torchao": attr.label(
            cfg = "exec",
            default = Label("@delegatec_pip_quantization//:lib"),
            providers = PYTHON_PROVIDERS,
        ),
    })),
    provides = [ExportedProgramInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
