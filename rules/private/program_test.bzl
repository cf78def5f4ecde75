# SPDX-License-Identifier: Apache-2.0
"""`program_test`: compares a program with eager mode, on this host."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":app_kernels.bzl", "kernel_flags")
load(":arm_cpus.bzl", "CPUS")
load(":backends.bzl", "is_plugin")
load(":exported_outputs.bzl", "check_entry")
load(":labels.bzl", "label_text")
load(":launched_test.bzl", "launched_test")
load(":launcher.bzl", "quoted", "runfiles_path")
load(":options.bzl", "did_you_mean", "fail_with", "fail_with_all", "option_arguments", "problem")
load(":program_runtime.bzl", "ProgramRuntimeInfo")
load(":python_paths.bzl", "PYTHON_PROVIDERS", "merged_python")
load(":tolerances.bzl", "tolerance_problems")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _input_arguments(ctx):
    """Returns the flags for the inputs besides the model's examples."""
    arguments = ["--inputs=" + runfiles_path(ctx, file) for file in ctx.files.inputs]
    if ctx.attr.inputs_entry:
        check_entry(ctx, "inputs_entry", ctx.attr.inputs_entry)
        directories = {file.dirname: "--import-path=\"$(dirname %s)\"" % runfiles_path(ctx, file) for file in ctx.files.srcs}
        arguments.append(quoted("--entry=" + ctx.attr.inputs_entry))
        arguments += directories.values() + ["--import-path=."]
        arguments += ["--source=" + runfiles_path(ctx, file) for file in ctx.files.srcs]
        arguments += ["--data=" + runfiles_path(ctx, file) for file in ctx.files.data]
    elif ctx.attr.srcs or ctx.attr.deps or ctx.attr.data:
        fail_with(
            ctx.label,
            "DC101",
            "srcs, deps and data are for inputs_entry, which is not set",
            expected = "inputs_entry = \"module:function\"",
            help = "list data files of tensors in `inputs`",
        )
    return arguments

# The runtime on each CPU.
_CPU_RUNTIMES = {cpu: Label("//runtime/arm:" + cpu) for cpu in CPUS}

def _cpu_runtimes(cpus):
    """The default of an attribute: only a test that names a CPU depends on its runtime, so that others do not fetch it."""
    return [_CPU_RUNTIMES[cpu] for cpu in cpus if cpu in _CPU_RUNTIMES]

def _cpu_problems(cpus):
    """Returns the problems of `cpus`, for `fail_with_all`."""
    return [
        problem(
            "DC516",
            "no CPU \"%s\" is known" % cpu,
            expected = ", ".join(sorted(CPUS)),
            help = did_you_mean(cpu, CPUS),
        )
        for cpu in cpus
        if cpu not in CPUS
    ]

def _runtimes(ctx, kernels):
    """Returns the runtimes besides that of `runtime`, with their flags."""
    found = [("--runtime", target[ProgramRuntimeInfo]) for target in ctx.attr._cpu_runtimes]

    # A runtime that the user did not choose lacks the kernels of the user's app.
    if not ctx.attr.runtime and not kernels.kernels.to_list():
        found.append(("--runtime-if-able", ctx.attr._default_runtime[ProgramRuntimeInfo]))
    return found

def _program_test_impl(ctx):
    info = ctx.attr.program[DelegateProgramInfo]
    settings = ctx.attr
    problems = tolerance_problems(settings.atol, settings.rtol, settings.seeds, settings.tolerances, settings.minimum_snr_db, info.exported)
    fail_with_all(ctx.label, problems + _cpu_problems(settings.cpus))
    program = info.host_program or info.program
    arguments = [
        quoted("--label=" + label_text(ctx.label)),
        "--program=" + runfiles_path(ctx, info.exported.program),
        "--sources=" + runfiles_path(ctx, info.exported.sources),
        "--pte=" + runfiles_path(ctx, program),
        "--manifest=" + runfiles_path(ctx, info.manifest),
        "--seeds=%d" % ctx.attr.seeds,
    ]
    files = [info.exported.program, info.exported.sources, program, info.manifest] + ctx.files.inputs + ctx.files.srcs + ctx.files.data
    arguments += [
        quoted("--%s=%s" % (name, getattr(ctx.attr, name)))
        for name in ["atol", "rtol"]
        if getattr(ctx.attr, name)
    ]
    arguments += [
        quoted("--tolerance=%s=%s" % (dtype, tolerance))
        for dtype, tolerance in sorted(ctx.attr.tolerances.items())
    ]
    samples = info.exported.samples
    if samples:
        arguments.append("--samples-file=" + runfiles_path(ctx, samples))
        files.append(samples)
        if info.exported.quantized:
            limit = ctx.attr.minimum_snr_db or info.exported.minimum_snr_db
            arguments.append("--minimum-snr-db=" + (str(limit) if limit else "-inf"))
    else:
        arguments.append("--samples-file=")
    arguments += [quoted("--backend=" + backend) for backend in info.backends if is_plugin(backend)]
    arguments += kernel_flags(info.exported.kernels)
    arguments += [quoted("--option=" + option) for option in option_arguments(info.host_options or {})]
    return launched_test(
        ctx,
        info,
        arguments = arguments + _input_arguments(ctx),
        files = files,
        python = merged_python(ctx, ctx.attr.deps),
        runtimes = _runtimes(ctx, info.exported.kernels),
        verb = "verify",
    )

program_test = rule(
    implementation = _program_test_impl,
    doc = """\
Runs a program on this host and compares every output with the exported program in eager mode, and with what the model's
own module returned before its export.

No device is needed: the backend's reference executor runs a delegate's blob, from the blob alone. Each element of
an output may differ from eager mode by `atol + rtol * |eager|`.

If an output is wrong, the test names the first value that is, with its node and the line of the model: it lowers the model
again in memory, for one value after another, by bisection. The results are also in the test's XML: one case per output,
with the largest difference, the tolerance and the reason.

With a `runtime`, the program runs there as well, with the same inputs, and with `cpus` on Arm CPUs. Without a `runtime`, it
runs in that of the flag `--@rules_delegate//config:test_runtime`, if one is set and has the program's backends.

A program of command streams, such as an `ethos_u_program`, has a second one for this host: the same delegates, before the
compiler of the device translates them.
""",
    attrs = dict(
        atol = attr.string(
            doc = "Absolute tolerance of floating-point outputs. By default that of the dtype, times the square root of the " +
                  "number of sums in a row: 1e-7 for float64, 1e-5 for float32, 2e-3 for float16, 1.6e-2 for bfloat16. A " +
                  "string: older versions of Bazel do not support floats.",
        ),
        cpus = attr.string_list(
            doc = "Arm CPUs that run the program as well, in ExecuTorch's stock runtime and an emulator, on hosts with Linux on " +
                  "x86-64: " + ", ".join(["`%s`" % cpu for cpu in sorted(CPUS)]) + ".",
        ),
        data = attr.label_list(
            allow_files = True,
            doc = "Files that the function of `inputs_entry` reads, found by `delegatec.data_path`.",
        ),
        deps = attr.label_list(
            doc = "Libraries that `srcs` import.",
            providers = PYTHON_PROVIDERS,
        ),
        inputs = attr.label_list(
            allow_files = True,
            doc = "Inputs to try: `.safetensors` files with a tensor per input (of another method than `forward`: " +
                  "`METHOD.INPUT`), or `.npy` files for a model with one input. A tensor has the shape of the input, or a " +
                  "first dimension of samples besides.",
        ),
        inputs_entry = attr.string(
            doc = "`module:function` in one of `srcs`: returns inputs to try, besides those of `inputs`. Each is a tensor, a " +
                  "tuple of arguments, or a dict of tensors by input; for several methods, a dict of lists of these.",
        ),
        minimum_snr_db = attr.int(
            doc = "Least signal-to-noise ratio, in dB, of the outputs of a quantized program against those of the model in float, " +
                  "for the model's samples. 0 for the limit of the `quantized_program`; without one, the figures are in the table.",
        ),
        program = attr.label(
            mandatory = True,
            doc = "The lowered program.",
            providers = [DelegateProgramInfo],
        ),
        rtol = attr.string(
            doc = "Relative tolerance of floating-point outputs. By default the same as that of `atol`.",
        ),
        runtime = attr.label(
            doc = "A `program_runtime` that runs the program as well, such as ExecuTorch's own runtime: its outputs are " +
                  "compared with the same tolerances, and the table has a row for each executor.",
            providers = [ProgramRuntimeInfo],
        ),
        seeds = attr.int(
            default = 3,
            doc = "Number of random inputs to try besides the model's example inputs. Dynamic dimensions have " +
                  "their smallest size in the first, their largest in the second, and sizes in between after that; if there " +
                  "are several, each is also at its ends alone. 0 for none.",
        ),
        srcs = attr.label_list(
            allow_files = [".py"],
            doc = "Sources of `inputs_entry`.",
        ),
        tolerances = attr.string_dict(
            doc = "Tolerances of single dtypes: `{\"float16\": \"1e-3,1e-2\", \"int8\": \"1\"}`, absolute and, if not 0, " +
                  "relative. Integers are exact without one.",
        ),
        _cpu_runtimes = attr.label_list(
            default = _cpu_runtimes,
            providers = [ProgramRuntimeInfo],
        ),
        _default_runtime = attr.label(
            default = "//config:test_runtime",
            providers = [ProgramRuntimeInfo],
        ),
    ),
    test = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
