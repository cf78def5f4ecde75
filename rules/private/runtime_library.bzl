# SPDX-License-Identifier: Apache-2.0
"""`runtime_library`: libraries of the runtime that the build is configured for, as a dependency of C++ targets."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "DelegateRuntimeInfo")
load(":labels.bzl", "label_text")
load(":options.bzl", "fail_with")

def runtime_libraries(ctx, label, runtime, libraries, backends):
    """Returns libraries of a runtime as one.

    Args:
        ctx: the rule's context.
        label: the label of the user's target, for messages.
        runtime: the target of a `delegate_runtime`.
        libraries: names of libraries, such as "kernels".
        backends: ids of backends.

    Returns:
        A struct: `cc_info`, and `runfiles`.
    """
    info = runtime[DelegateRuntimeInfo]
    missing = ["library \"%s\"" % name for name in libraries if name not in info.libraries]
    missing += ["backend %s" % id for id in backends if id not in info.backends]
    if missing:
        fail_with(
            label,
            "DC518",
            "the runtime %s has no %s" % (label_text(runtime.label), ", no ".join(missing)),
            expected = ", ".join(sorted(info.libraries) + sorted(info.backends)),
            help = "name them in its `delegate_runtime`, or set --@rules_delegate//config:runtime to one that has them",
        )
    targets = [info.libraries[name] for name in libraries] + [info.backends[id] for id in backends]
    runfiles = ctx.runfiles()
    for target in targets:
        runfiles = runfiles.merge(target[DefaultInfo].default_runfiles)
    return struct(
        cc_info = cc_common.merge_cc_infos(cc_infos = [target[CcInfo] for target in targets]),
        runfiles = runfiles,
    )

def _runtime_library_impl(ctx):
    backends = sorted(ctx.attr.runtime[DelegateRuntimeInfo].backends) if ctx.attr.all_backends else []
    libraries = runtime_libraries(ctx, ctx.label, ctx.attr.runtime, ctx.attr.libraries, backends)
    return [DefaultInfo(runfiles = libraries.runfiles), libraries.cc_info]

runtime_library = rule(
    implementation = _runtime_library_impl,
    doc = "Libraries of the configured runtime, for `deps` of C++ targets.",
    attrs = {
        "all_backends": attr.bool(
            doc = "Whether all backends of the runtime are linked.",
        ),
        "libraries": attr.string_list(
            mandatory = True,
            doc = "Their names: attributes of `delegate_runtime`.",
        ),
        "runtime": attr.label(
            default = "//config:runtime",
            doc = "The `delegate_runtime`.",
            providers = [DelegateRuntimeInfo],
        ),
    },
    provides = [CcInfo],
)
