# SPDX-License-Identifier: Apache-2.0
"""`program_header`: the C++ header of a program, and the libraries of the runtime that it needs."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "DelegateProgramInfo", "DelegateRuntimeInfo")
load(":backends.bzl", "is_plugin")
load(":compiler_tables.bzl", "BACKEND_IDS")
load(":delegatec_action.bzl", "ACTION_ATTRS", "delegatec_action", "delegatec_arguments")
load(":labels.bzl", "label_text")
load(":launcher.bzl", "path_in_runfiles")
load(":options.bzl", "fail_with")
load(":runtime_library.bzl", "runtime_libraries")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _linked_backends(ctx, label, info):
    """Returns the ids of the backends to link."""
    if ctx.attr.backends:
        return ctx.attr.backends
    unknown = [backend for backend in info.backends if backend not in BACKEND_IDS]
    if unknown:
        fail_with(
            label,
            "DC518",
            "the id of %s in the runtime is unknown" % " and ".join(unknown),
            expected = "backends = [\"...\"], with the ids of all backends of the program" if is_plugin(unknown[0]) else "a program for a runtime",
        )

    # The action reads the program, and finds a wrong one.
    return [BACKEND_IDS[backend] for backend in info.backends]

def _memory(ctx, info):
    """Declares the action that measures arenas."""
    memory = ctx.actions.declare_file(ctx.attr.file_name + ".memory.json")
    args = ctx.actions.args()
    args.add(info.program, format = "--program=%s")
    args.add(memory, format = "--memory=%s")
    inputs = [info.program]
    if info.weights:
        args.add(info.weights, format = "--data=%s")
        inputs.append(info.weights)
    ctx.actions.run(
        arguments = [args],
        executable = ctx.executable.runner,
        inputs = inputs,
        mnemonic = "DelegateMemory",
        outputs = [memory],
        progress_message = "Measuring the arenas of %s" % label_text(ctx.label),
    )
    return memory

def _program_header_impl(ctx):
    info = ctx.attr.program[DelegateProgramInfo]
    label = label_text(ctx.label)[:-len(".header")]
    backends = _linked_backends(ctx, label, info)
    kernels = ctx.attr.kernels == "yes" or (ctx.attr.kernels == "auto" and not info.full_delegation)
    libraries = (["kernels"] if kernels else []) + (["quantized_kernels"] if ctx.attr.quantized_kernels else [])
    exact = (["kernels"] if ctx.attr.kernels == "yes" else []) + ["quantized_kernels"] + ctx.attr.backends
    runtime = runtime_libraries(ctx, label, ctx.attr.runtime, ["executorch"] + libraries, backends)

    header = ctx.actions.declare_file(ctx.attr.file_name + ".h")

    # Without embedded files, too: a library without sources would not build its header.
    assembly = ctx.actions.declare_file(ctx.attr.file_name + ".embedded.S")
    args = delegatec_arguments(ctx, "header")

    # The target that the user wrote.
    args.add(label, format = "--label=%s")
    args.add(info.program, format = "--pte=%s")
    args.add(info.program, format = "--included-pte=%s")
    args.add(info.manifest, format = "--manifest=%s")
    args.add(info.exported.signature, format = "--signature=%s")
    args.add(header, format = "--header=%s")
    args.add(assembly, format = "--assembly=%s")
    args.add(ctx.attr.namespace or ctx.attr.file_name, format = "--namespace=%s")
    args.add_all(backends + libraries, format_each = "--link=%s")
    args.add_all(exact, format_each = "--exact=%s")
    inputs = [info.program, info.manifest, info.exported.signature]
    if ctx.attr.runner:
        inputs.append(_memory(ctx, info))
        args.add(inputs[-1], format = "--memory=%s")
    if info.weights:
        args.add(info.weights, format = "--ptd=%s")
        args.add(info.weights, format = "--included-ptd=%s")
        inputs.append(info.weights)
    if ctx.attr.embed:
        path = "%s/%s" % (ctx.label.package, ctx.attr.file_name)

        # The hash tells a-b from a_b.
        symbol = "delegatec_%s_%d" % (
            "".join([each if each.isalnum() else "_" for each in path.elems()]),
            hash(path) % 4294967296,
        )
        args.add(symbol, format = "--symbol=%s")
    else:
        args.add(path_in_runfiles(ctx, info.program), format = "--runfile=%s")
        if info.weights:
            args.add(path_in_runfiles(ctx, info.weights), format = "--weights-runfile=%s")
    delegatec_action(
        ctx,
        args = args,
        inputs = depset(inputs),
        mnemonic = "DelegateHeader",
        outputs = [header, assembly],
        progress_message = "Writing the header of %s" % label,
    )
    return [
        DefaultInfo(
            files = depset([header]),
            runfiles = runtime.runfiles,
        ),
        OutputGroupInfo(
            assembly = depset([assembly]),
            embedded = depset([info.program] + ([info.weights] if info.weights else []) if ctx.attr.embed else []),
        ),
        runtime.cc_info,
    ]

program_header = rule(
    implementation = _program_header_impl,
    doc = "The header of a program, for `program_cc_library`, with the libraries of the runtime that the program needs.",
    attrs = dict(ACTION_ATTRS, **{
        "backends": attr.string_list(),
        "embed": attr.bool(),
        "file_name": attr.string(mandatory = True),
        "kernels": attr.string(
            default = "auto",
            values = ["auto", "no", "yes"],
        ),
        "namespace": attr.string(),
        "program": attr.label(
            mandatory = True,
            providers = [DelegateProgramInfo],
        ),
        "quantized_kernels": attr.bool(),
        "runner": attr.label(
            cfg = "exec",
            executable = True,
        ),
        "runtime": attr.label(
            default = "//config:runtime",
            providers = [DelegateRuntimeInfo],
        ),
    }),
    provides = [CcInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
