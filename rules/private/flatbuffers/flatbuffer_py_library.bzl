# SPDX-License-Identifier: Apache-2.0
"""`flatbuffer_py_library`: the Python module of a FlatBuffers schema."""

load("@rules_python//python:defs.bzl", "PyInfo")
load("//rules/private:labels.bzl", "repository_name")
load("//rules/private:python_paths.bzl", "python_info")
load("//rules/private:toolchain_types.bzl", "FLATC_TOOLCHAIN_TYPE")

def _flatbuffer_py_library_impl(ctx):
    toolchain = ctx.toolchains[FLATC_TOOLCHAIN_TYPE].flatc
    schema = ctx.file.schema
    stem = schema.basename[:-len(".fbs")]
    module = ctx.actions.declare_file("%s/%s.py" % (ctx.attr.package, stem))

    args = ctx.actions.args()
    args.add("--python")

    # Without the object API, callers must iterate over vectors and unions themselves.
    args.add("--gen-object-api")

    # In flatc 25.12.19 only these two together, without --python-typing, generate a module that can be imported:
    # otherwise it uses classes before their definition.
    args.add_all(["--gen-onefile", "--gen-all"])
    args.add_all(["--filename-suffix", ""])
    args.add("-I", schema.owner.workspace_root or ".")
    args.add("-o", module.dirname)
    args.add(schema)
    ctx.actions.run(
        executable = toolchain.flatc,
        arguments = [args],
        env = {},
        inputs = [schema] + ctx.files.includes,
        mnemonic = "FlatcPython",
        outputs = [module],
        progress_message = "Compiling schema %s" % schema.short_path,
    )

    runtime = toolchain.python_runtime
    python = python_info(runtime)
    root = [part for part in [repository_name(ctx.label) or ctx.workspace_name, ctx.label.package] if part]
    return [
        DefaultInfo(
            files = depset([module]),
            runfiles = ctx.runfiles([module]).merge(runtime[DefaultInfo].default_runfiles),
        ),
        PyInfo(
            has_py3_only_sources = True,
            imports = depset(["/".join(root)], transitive = [python.imports]),
            transitive_sources = depset([module], transitive = [python.transitive_sources]),
        ),
        OutputGroupInfo(module = depset([module])),
    ]

flatbuffer_py_library = rule(
    implementation = _flatbuffer_py_library_impl,
    doc = """\
Compiles a schema to the module `PACKAGE.STEM`, with builders, readers and the object API.

`PACKAGE` is a namespace package: several targets can add their schemas to it.
""",
    attrs = {
        "includes": attr.label_list(
            allow_files = [".fbs"],
            doc = "Schemas that the schema includes, each by its path from the workspace root.",
        ),
        "package": attr.string(
            mandatory = True,
            doc = "The Python package of the module.",
        ),
        "schema": attr.label(
            mandatory = True,
            allow_single_file = [".fbs"],
            doc = "The schema; its file name becomes the module's.",
        ),
    },
    provides = [PyInfo],
    toolchains = [FLATC_TOOLCHAIN_TYPE],
)
