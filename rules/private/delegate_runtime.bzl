# SPDX-License-Identifier: Apache-2.0
"""`delegate_runtime`: ExecuTorch's runtime as C++ libraries, which apps link."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "DelegateRuntimeInfo")

def _delegate_runtime_impl(ctx):
    libraries = {
        "etdump": ctx.attr.etdump,
        "executorch": ctx.attr.executorch,
        "kernels": ctx.attr.kernels,
        "quantized_kernels": ctx.attr.quantized_kernels,
        "threadpool": ctx.attr.threadpool,
    }
    return [
        DefaultInfo(),
        DelegateRuntimeInfo(
            backends = {id: target for target, id in ctx.attr.backends.items()},
            libraries = {name: target for name, target in libraries.items() if target},
        ),
    ]

delegate_runtime = rule(
    implementation = _delegate_runtime_impl,
    doc = """\
Declares ExecuTorch's runtime as C++ libraries, for `program_cc_library` and the runner.

The default is `@rules_delegate//runtime:stock`, of ExecuTorch's own wheels for Linux. A company that builds its own, for
Android, iOS or a fork, declares it with this rule, and sets `--@rules_delegate//config:runtime=//app:runtime` in its
`.bazelrc`.
""",
    attrs = {
        "backends": attr.label_keyed_string_dict(
            doc = "The library of each backend -> its id, such as \"XnnpackBackend\". Static libraries need `alwayslink`.",
            providers = [CcInfo],
        ),
        "etdump": attr.label(
            doc = "The recorder of events, for `runner --etdump` and profiles.",
            providers = [CcInfo],
        ),
        "executorch": attr.label(
            mandatory = True,
            doc = "The runtime itself, with its headers, its extensions `data_loader`, `flat_tensor`, `module` and `tensor`, and the " +
                  "definitions with which it was compiled.",
            providers = [CcInfo],
        ),
        "kernels": attr.label(
            doc = "The kernels of operators that programs call outside of delegates. A static library needs `alwayslink`.",
            providers = [CcInfo],
        ),
        "quantized_kernels": attr.label(
            doc = "The kernels of the namespace `quantized_decomposed`, for programs of other compilers.",
            providers = [CcInfo],
        ),
        "threadpool": attr.label(
            doc = "The thread pool that kernels and backends share.",
            providers = [CcInfo],
        ),
    },
    provides = [DelegateRuntimeInfo],
)
