# SPDX-License-Identifier: Apache-2.0
"""`compiler_wheel`: the compiler as a wheel for pip and uv."""

load("//rules/private:delegatec_toolchain.bzl", "FIXED_ENVIRONMENT", "INTERPRETER_FLAGS")
load("//rules/private:labels.bzl", "repository_name")
load("//rules/private:python_paths.bzl", "PYTHON_PROVIDERS", "import_roots", "merged_python")

def _compiler_wheel_impl(ctx):
    python = merged_python(ctx, [ctx.attr.library])

    # Only what is in this repository: wheels are requirements.
    sources = [
        file
        for file in python.files.to_list()
        if repository_name(file.owner) == repository_name(ctx.label)
    ]

    # A directory, since the name of a wheel contains the version, which a file of the compiler has.
    wheel = ctx.actions.declare_directory(ctx.label.name)
    args = ctx.actions.args()
    args.set_param_file_format("multiline")
    args.use_param_file("@%s", use_always = True)
    args.add(wheel.path, format = "--output=%s")
    args.add(ctx.file.license, format = "--license=%s")
    args.add(ctx.files.requirements[0].dirname, format = "--requirements=%s")
    args.add_all(import_roots(ctx, python.imports), format_each = "--root=%s")
    args.add_all(sources)
    interpreter = [ctx.file._interpreter, ctx.file._interpreter_library, ctx.file._interpreter_manifest]
    ctx.actions.run(
        arguments = INTERPRETER_FLAGS + [ctx.file._script.path, args],
        env = FIXED_ENVIRONMENT,
        executable = ctx.file._interpreter,
        inputs = [ctx.file._script, ctx.file.license] + ctx.files.requirements + interpreter + sources,
        mnemonic = "DelegatecWheel",
        outputs = [wheel],
        progress_message = "Writing the wheel of the compiler",
    )
    return [DefaultInfo(
        files = depset([wheel]),
        runfiles = ctx.runfiles([wheel]),
    )]

compiler_wheel = rule(
    implementation = _compiler_wheel_impl,
    doc = """\
Writes the wheel of a library and of the libraries of this repository that it depends on, into the directory `NAME`.

The same sources give the same bytes. Requirements are those that the build's locks are resolved from, as ranges.
""",
    attrs = {
        "library": attr.label(
            mandatory = True,
            doc = "The Python library.",
            providers = PYTHON_PROVIDERS,
        ),
        "license": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "The file of its license.",
        ),
        "requirements": attr.label(
            mandatory = True,
            allow_files = [".txt"],
            doc = "The files that the locks are resolved from, in one directory.",
        ),
        "_interpreter": attr.label(
            default = "@delegatec_python//:bin/python3",
            allow_single_file = True,
        ),
        "_interpreter_library": attr.label(
            default = "@delegatec_python//:lib",
            allow_single_file = True,
        ),
        "_interpreter_manifest": attr.label(
            default = "@delegatec_python//:python.manifest",
            allow_single_file = True,
        ),
        "_script": attr.label(
            default = "//python/wheel:write_wheel.py",
            allow_single_file = True,
        ),
    },
)
