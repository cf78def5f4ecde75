# SPDX-License-Identifier: Apache-2.0
"""`program_profile`: `bazel run` runs a program, or reads what a device recorded, and prints where it spends its time."""

load(":measuring.bzl", "MEASURED_ATTRS", "executables", "measuring_launcher")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _program_profile_impl(ctx):
    return measuring_launcher(ctx, tools = executables({"runner": ctx.attr.runner}))

program_profile = rule(
    implementation = _program_profile_impl,
    doc = """\
Prints where a program spends its time, by line of the model. `bazel run //models:foo.profile` runs it on this host, in
ExecuTorch's runtime; `bazel run //models:foo.profile -- phone.etdump` reads what a device recorded. `--by` chooses other
rows: `library`, `module`, `operator`, `kernel` or `step`; `--html=FILE` writes a flame chart; `--format=json` prints all
figures; `--baseline=FILE` compares with another program or an earlier profile. `--benchmark` prints the latency, the time to
load and the peak of memory instead.

The macros of the program rules declare one for each program, as `NAME.profile`.
""",
    attrs = dict(
        MEASURED_ATTRS,
        runner = attr.label(
            allow_files = True,
            cfg = "exec",
            doc = "What runs it on this host: `@rules_delegate//runtime:runner`. Without one, it only reads files.",
        ),
    ),
    executable = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
