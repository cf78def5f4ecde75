# SPDX-License-Identifier: Apache-2.0
"""`program_runtime`: a runtime in which a `program_test` runs programs, besides the compiler's own executors."""

load(":options.bzl", "fail_with")
load(":python_paths.bzl", "PYTHON_PROVIDERS", "merged_python")

ProgramRuntimeInfo = provider(
    doc = "A runtime for the tests of programs.",
    fields = {
        "files": "depset of File: the sources and runfiles of the plug-in.",
        "imports": "depset of string: their import paths, for a runfiles tree.",
        "runtime": "string: `module:attribute`, a `delegatec.verify.runtime.Runtime`; empty for none.",
    },
)

def _program_runtime_impl(ctx):
    module, _, attribute = ctx.attr.runtime.partition(":")
    if not module or not attribute:
        fail_with(
            ctx.label,
            "DC516",
            "runtime \"%s\" does not name an attribute of a module" % ctx.attr.runtime,
            expected = "module:attribute, such as \"executorch_runtime:RUNTIME\"",
            help = "the module is imported from `deps`",
        )
    python = merged_python(ctx, ctx.attr.deps)
    return [
        DefaultInfo(),
        ProgramRuntimeInfo(files = python.files, imports = python.imports, runtime = ctx.attr.runtime),
    ]

program_runtime = rule(
    implementation = _program_runtime_impl,
    doc = """\
Declares a runtime for `program_test(runtime = ...)`: a plug-in in Python that loads programs on this host.

`@rules_delegate//python/executorch_runtime` is one for the `executorch` wheel, which comes from a lock of yours.
""",
    attrs = {
        "deps": attr.label_list(
            mandatory = True,
            allow_empty = False,
            doc = "Libraries that contain the plug-in, and the wheels that it imports.",
            providers = PYTHON_PROVIDERS,
        ),
        "runtime": attr.string(
            mandatory = True,
            doc = "`module:attribute`: a `delegatec.verify.runtime.Runtime` in `deps`.",
        ),
    },
    provides = [ProgramRuntimeInfo],
)

def _no_program_runtime_impl(_ctx):
    return [
        DefaultInfo(),
        ProgramRuntimeInfo(files = depset(), imports = depset(), runtime = ""),
    ]

no_program_runtime = rule(
    implementation = _no_program_runtime_impl,
    doc = "No runtime: tests run programs in the compiler's own executors alone.",
    provides = [ProgramRuntimeInfo],
)
