# SPDX-License-Identifier: Apache-2.0
"""`program_accuracy_test`: a metric of a program over a dataset, next to that of a baseline program."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":app_kernels.bzl", "kernel_flags")
load(":backends.bzl", "is_plugin")
load(":labels.bzl", "label_text")
load(":launched_test.bzl", "launched_test")
load(":launcher.bzl", "quoted", "runfiles_path")
load(":metrics.bzl", "dataset_problems", "loss_problems")
load(":options.bzl", "fail_with_all", "problem")
load(":program_runtime.bzl", "ProgramRuntimeInfo")
load(":python_paths.bzl", "PYTHON_PROVIDERS", "merged_python")
load(":tolerances.bzl", "is_number")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _problems(attributes):
    """Returns what is wrong with the attributes.

    Args:
        attributes: those of the rule.

    Returns:
        A list of `problem`.
    """
    problems = dataset_problems(attributes, is_required = True)
    if not attributes.floor and not attributes.maximum_loss:
        problems.append(problem("DC514", "the test has no limits", expected = "floor or maximum_loss"))
    if attributes.floor and not is_number(attributes.floor[1 if attributes.floor.startswith("-") else 0:]):
        problems.append(problem(
            "DC514",
            "floor cannot be \"%s\"" % attributes.floor,
            expected = "a number, such as \"0.98\"",
        ))
    problems += loss_problems(attributes)
    if attributes.maximum_loss and not attributes.baseline:
        problems.append(problem(
            "DC514",
            "maximum_loss has no baseline",
            expected = "both, or neither",
        ))
    return problems

def _program_accuracy_test_impl(ctx):
    fail_with_all(ctx.label, _problems(ctx.attr))
    info = ctx.attr.program[DelegateProgramInfo]
    infos = [info]
    paths = {"pte": info.host_program or info.program}
    if ctx.attr.baseline:
        baseline = ctx.attr.baseline[DelegateProgramInfo]
        infos.append(baseline)
        paths["baseline"] = baseline.host_program or baseline.program
        if baseline.weights:
            paths["baseline-ptd"] = baseline.weights
    if ctx.file.dataset:
        paths["dataset"] = ctx.file.dataset
    values = {
        "dataset-entry": ctx.attr.dataset_entry,
        "floor": ctx.attr.floor,
        "label": label_text(ctx.label),
        "maximum-loss": ctx.attr.maximum_loss,
        "method": ctx.attr.method,
        "metric": ctx.attr.metric,
        "metric-over": ctx.attr.metric_over,
    }
    plugins = [quoted("--backend=" + backend) for each in infos for backend in each.backends if is_plugin(backend)]
    kernels = [flag for each in infos for flag in kernel_flags(each.exported.kernels)]
    python = merged_python(ctx, ctx.attr.deps)
    return launched_test(
        ctx,
        info,
        arguments = [quoted("--%s=%s" % (name, value)) for name, value in values.items() if value] +
                    ["--%s=%s" % (name, runfiles_path(ctx, file)) for name, file in paths.items()] +
                    depset(plugins + kernels).to_list(),
        files = paths.values(),
        # Those of the program are added.
        python = struct(
            files = depset(transitive = [python.files] + [each.plugin_files for each in infos] + [each.exported.kernels.files for each in infos]),
            imports = depset(transitive = [python.imports] + [each.plugin_imports for each in infos] + [each.exported.kernels.imports for each in infos]),
        ),
        verb = "accuracy",
    )

program_accuracy_test = rule(
    implementation = _program_accuracy_test_impl,
    doc = """\
Computes a metric of a program over a dataset, on this host, and compares it with a floor, and with the metric of a baseline,
such as the program of the same model in float.

The test prints the metric of both programs, the loss, and the samples whose scores differ, the largest losses first. `bazel
run` of the test with `-- --format=json` prints them as JSON. Both programs run in the compiler's reference executors, or in a
`runtime`; state of a program lasts from sample to sample.
""",
    attrs = dict(
        baseline = attr.label(
            doc = "The lowered program to compare with. It takes the same inputs.",
            providers = [DelegateProgramInfo],
        ),
        dataset = attr.label(
            allow_single_file = [".safetensors"],
            doc = "The samples: a tensor for each input of the method, named `0`, `1`, ..., and `labels`. The first dimension of " +
                  "each is that of samples, besides the dimensions of the input.",
        ),
        dataset_entry = attr.string(
            doc = "`module:attribute` in `deps`, instead of `dataset`: an iterable of pairs `(inputs, label)`, or a function without " +
                  "parameters that returns one, such as a generator. `inputs` is a tensor or a tuple; a label is anything.",
        ),
        deps = attr.label_list(
            mandatory = True,
            allow_empty = False,
            doc = "Libraries that contain the metric and the dataset, and what they import.",
            providers = PYTHON_PROVIDERS,
        ),
        floor = attr.string(
            doc = "Least metric of the program, such as `0.98`. A string: older versions of Bazel do not support floats.",
        ),
        maximum_loss = attr.string(
            doc = "By how much the metric may be lower than that of `baseline`, such as `0.01`.",
        ),
        method = attr.string(
            doc = "The method that is called. By default `forward`, or the first one.",
        ),
        metric = attr.string(
            mandatory = True,
            doc = "`module:attribute` in `deps`: a function of the outputs and the label of a sample. It returns a number, more for " +
                  "better outputs. A method with several outputs gives a tuple.",
        ),
        metric_over = attr.string(
            default = "sample",
            doc = "`sample`: the metric is the mean of the numbers. `dataset`: the function is called once, with a list of the " +
                  "outputs of all samples and a list of their labels, as for an F1 score.",
            values = ["sample", "dataset"],
        ),
        program = attr.label(
            mandatory = True,
            doc = "The lowered program.",
            providers = [DelegateProgramInfo],
        ),
        runtime = attr.label(
            doc = "A `program_runtime`, such as ExecuTorch's own runtime, in which both programs run, instead of the reference executors.",
            providers = [ProgramRuntimeInfo],
        ),
    ),
    test = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
