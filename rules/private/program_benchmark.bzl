# SPDX-License-Identifier: Apache-2.0
"""`program_benchmark`: `bazel run` measures how long a program takes, on this host or a device."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":labels.bzl", "label_text")
load(":launcher.bzl", "quoted")
load(":measuring.bzl", "MEASURED_ATTRS", "executables", "measuring_launcher")
load(":options.bzl", "fail_with_all", "problem")
load(":tolerances.bzl", "is_number")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _problems(attributes):
    """Returns what is wrong with the attributes.

    Args:
        attributes: those of the rule.

    Returns:
        A list of `problem`.
    """
    problems = []
    for name in ["items_per_call", "rounds", "runs"]:
        value = getattr(attributes, name)
        if value < (1 if name == "items_per_call" else 0):
            problems.append(problem("DC514", "%s cannot be %d" % (name, value), expected = "at least 1"))
    if attributes.maximum_ratio and not is_number(attributes.maximum_ratio):
        problems.append(problem(
            "DC514",
            "maximum_ratio cannot be \"%s\"" % attributes.maximum_ratio,
            expected = "a number, such as \"1.05\"",
        ))
    if attributes.maximum_ratio and not attributes.baseline:
        problems.append(problem("DC514", "maximum_ratio has no baseline", expected = "both, or neither"))
    if attributes.run_under_arguments and not attributes.run_under:
        problems.append(problem("DC514", "run_under_arguments has no run_under", expected = "both, or neither"))
    return problems

def _program_benchmark_impl(ctx):
    tools = executables({"run-under": ctx.attr.run_under, "runner": ctx.attr.runner})
    problems = _problems(ctx.attr)
    if ctx.attr.run_under and "run-under" not in tools:
        # Without it, the times of this host would look like those of a device.
        problems.append(problem(
            "DC514",
            "run_under %s has no executable" % label_text(ctx.attr.run_under.label),
            expected = "a file, or a target that `bazel run` takes",
        ))
    fail_with_all(ctx.label, problems)
    values = {
        "clock": ctx.attr.clock,
        "item": ctx.attr.item,
        "items-per-call": str(ctx.attr.items_per_call),
        "maximum-ratio": ctx.attr.maximum_ratio,
        "method": ctx.attr.method,
        "rounds": str(ctx.attr.rounds or ""),
        "runs": str(ctx.attr.runs or ""),
    }
    words = ["--benchmark"] + [quoted("--%s=%s" % (name, value)) for name, value in values.items() if value]
    words += [quoted("--run-under-argument=" + word) for word in ctx.attr.run_under_arguments]
    return measuring_launcher(
        ctx,
        baseline = ctx.attr.baseline,
        tools = tools,
        words = words + (["--all-threads"] if ctx.attr.all_threads else []),
    )

program_benchmark = rule(
    implementation = _program_benchmark_impl,
    doc = """\
Measures a program: `bazel run` prints the 50th, 90th and 99th percentile of its latency, what it computes per second, the time
to load and the peak of memory; `-- --format=json` prints these and the time of each run. A baseline runs in turns with it.

The runner is a process without a compiler. It calls the method with the inputs of the model's first golden sample, or its
example inputs.
""",
    attrs = dict(
        MEASURED_ATTRS,
        all_threads = attr.bool(
            doc = "Whether it runs with a thread for each core. By default there is one.",
        ),
        baseline = attr.label(
            doc = "A program to compare with. It takes the same inputs.",
            providers = [DelegateProgramInfo],
        ),
        clock = attr.string(
            default = "wall",
            doc = "`cpu`: the time that threads run on CPUs, which other programs of the machine affect less.",
            values = ["cpu", "wall"],
        ),
        item = attr.string(
            default = "calls",
            doc = "What a call computes, such as `images` or `tokens`.",
        ),
        items_per_call = attr.int(
            default = 1,
            doc = "How many of them a call computes, such as the size of the batch.",
        ),
        maximum_ratio = attr.string(
            doc = "The command fails if the program takes longer than this multiple of the baseline in three of four rounds, such as " +
                  "`1.05`. A string: older versions of Bazel do not support floats.",
        ),
        method = attr.string(
            doc = "The method that is called. By default `forward`, or the first one.",
        ),
        rounds = attr.int(
            doc = "Number of processes that share the runs. By default 1, or 9 with a baseline.",
        ),
        run_under = attr.label(
            allow_files = True,
            cfg = "exec",
            doc = "A program that runs the runner elsewhere, such as `@rules_delegate//runtime:adb.sh` or qemu. Its arguments are " +
                  "the path of the runner, and the runner's arguments: docs/profiles.md.",
        ),
        run_under_arguments = attr.string_list(
            doc = "Arguments of `run_under`, before the runner.",
        ),
        runner = attr.label(
            allow_files = True,
            cfg = "exec",
            default = "//config:profile_runner",
            doc = "What runs the program; Bazel builds it for this host. With `run_under`, a file, or a target that builds " +
                  "`@rules_delegate//runtime:runner` or a similar program for the device, by a transition.",
        ),
        runs = attr.int(
            doc = "Number of runs, besides the first of each process. By default 100.",
        ),
    ),
    executable = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)

def declare_benchmark(name, program, **kwargs):
    """Declares a `program_benchmark`, which wildcards do not build: it needs a compiler of C++.

    Args:
        name: the target's name.
        program: the lowered program.
        **kwargs: the other attributes of the rule.
    """
    tags = kwargs.pop("tags", [])
    program_benchmark(name = name, program = program, tags = tags + ["manual"], **kwargs)
