# SPDX-License-Identifier: Apache-2.0
"""`app_kernels`: kernels of custom operators, which an app registers in the runtime."""

load("//rules:providers.bzl", "AppKernelsInfo")
load(":options.bzl", "fail_with_all", "problem")
load(":python_paths.bzl", "PYTHON_PROVIDERS", "merged_python")

NO_KERNELS = AppKernelsInfo(files = depset(), imports = depset(), kernels = depset(), modules = depset())

def merged_kernels(targets):
    """Merges what several targets declare.

    Args:
        targets: targets with AppKernelsInfo.

    Returns:
        An AppKernelsInfo.
    """
    infos = [target[AppKernelsInfo] for target in targets]
    return AppKernelsInfo(**{
        field: depset(transitive = [getattr(info, field) for info in infos])
        for field in ["files", "imports", "kernels", "modules"]
    })

def module_flags(kernels):
    """Returns the flags of verbs that read a `.pt2`: what they import.

    Args:
        kernels: an AppKernelsInfo.

    Returns:
        A list of strings.
    """
    return ["--kernel-module=" + module for module in kernels.modules.to_list()]

def kernel_flags(kernels):
    """Returns the flags of verbs that write or run a program.

    Args:
        kernels: an AppKernelsInfo.

    Returns:
        A list of strings.
    """
    return module_flags(kernels) + ["--kernel=" + kernel for kernel in kernels.kernels.to_list()]

def _app_kernels_impl(ctx):
    fail_with_all(ctx.label, [
        problem(
            "DC211",
            "\"%s\" is not the name of a kernel" % kernel,
            expected = "NAMESPACE::OPERATOR.OVERLOAD, such as \"dsp::window.out\"",
        )
        for kernel in ctx.attr.kernels
        if not _is_name(kernel)
    ])
    python = merged_python(ctx, ctx.attr.deps)
    return [
        DefaultInfo(),
        AppKernelsInfo(
            files = python.files,
            imports = python.imports,
            kernels = depset(ctx.attr.kernels),
            modules = depset([ctx.attr.module]),
        ),
    ]

def _is_name(kernel):
    namespace, separator, rest = kernel.partition("::")
    operation, dot, overload = rest.partition(".")
    parts = [namespace, operation, overload]
    return bool(separator and dot) and all([part.replace("_", "a").isalnum() for part in parts])

app_kernels = rule(
    implementation = _app_kernels_impl,
    doc = """\
Declares kernels of custom operators: programs call them, and the app registers them in the runtime.

The operators are registered in Python with `torch.library`, by a module that models import as well: its functions compute
the results of `export`, of calibration and of tests on this host.
""",
    attrs = {
        "deps": attr.label_list(
            mandatory = True,
            allow_empty = False,
            doc = "Libraries that contain the module, and what it imports.",
            providers = PYTHON_PROVIDERS,
        ),
        "kernels": attr.string_list(
            mandatory = True,
            allow_empty = False,
            doc = "Names of kernels, such as `dsp::window.out`: the out variants of operators.",
        ),
        "module": attr.string(
            mandatory = True,
            doc = "The module, such as `dsp.operators`, whose import registers the operators.",
        ),
    },
    provides = [AppKernelsInfo],
)
