# SPDX-License-Identifier: Apache-2.0
"""`program_budget_test`: compares sizes and estimates of a program with limits."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":labels.bzl", "label_text")
load(":launcher.bzl", "LAUNCHED_TEST_REQUIREMENTS", "delegatec_launcher", "quoted", "runfiles_path")
load(":options.bzl", "fail_with")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

_KIB = 1024

# Attribute -> the figure that it limits, its unit, and its documentation.
_LIMITS = {
    "max_arena_kib": ("arena_bytes", _KIB, "Planned memory of a method, in KiB."),
    "max_delegates": ("delegates", 1, "Delegates of all methods."),
    "max_cycles": ("cycles", 1, "Estimated cycles of all delegates."),
    "max_dram_kib": ("dram_bytes", _KIB, "DRAM that a delegate uses, in KiB."),
    "max_file_kib": ("file_bytes", _KIB, "Size of the `.pte`, in KiB."),
    "max_flash_kib": ("off_chip_flash_bytes", _KIB, "Flash that delegates use, in KiB."),
    "max_method_allocator_kib": ("method_allocator_bytes", _KIB, "What the runtime takes of a method's allocator on a 64-bit platform, in KiB."),
    "max_operators": ("operators", 1, "Operations of all delegates."),
    "max_sram_kib": ("sram_bytes", _KIB, "SRAM that a delegate uses, in KiB."),
    "max_temporary_allocator_kib": ("temporary_allocator_bytes", _KIB, "What the runtime and delegates take of the temporary allocator, in KiB."),
    "max_undelegated": ("undelegated", 1, "Operators that run on the portable kernels; 0 demands full delegation."),
    "max_weights_kib": ("model_weight_bytes", _KIB, "Weights in the model's dtypes, of kernels and delegates, in KiB."),
}

def _program_budget_test_impl(ctx):
    limits = [
        "--limit=%s=%d" % (figure, getattr(ctx.attr, name) * unit)
        for name, (figure, unit, _) in _LIMITS.items()
        if getattr(ctx.attr, name) >= 0
    ]
    negative = [name for name in _LIMITS if getattr(ctx.attr, name) < -1]
    if negative:
        fail_with(ctx.label, "DC509", "%s cannot be negative" % " and ".join(negative), expected = "0 or more; no limit if it is not set")
    if not limits:
        fail_with(ctx.label, "DC509", "the test has no limits", expected = " or ".join(sorted(_LIMITS)))
    manifest = ctx.attr.program[DelegateProgramInfo].manifest
    return [delegatec_launcher(
        ctx,
        arguments = [quoted("--label=" + label_text(ctx.label)), "--manifest=" + runfiles_path(ctx, manifest)] + limits,
        files = [manifest],
        verb = "budget",
    ), testing.ExecutionInfo(LAUNCHED_TEST_REQUIREMENTS)]

program_budget_test = rule(
    implementation = _program_budget_test_impl,
    doc = """\
Compares sizes and estimates of a program with limits, without a device.

The estimates are those of the backend's compiler, such as Vela's for an `ethos_u_program`: a figure that no backend
estimates is an error. Limits are inclusive.
""",
    attrs = dict(
        program = attr.label(
            mandatory = True,
            doc = "The lowered program.",
            providers = [DelegateProgramInfo],
        ),
        **{
            name: attr.int(default = -1, doc = doc)
            for name, (_, _, doc) in _LIMITS.items()
        }
    ),
    test = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
