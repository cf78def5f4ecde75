# SPDX-License-Identifier: Apache-2.0
"""buildifier, the formatter and linter of Starlark: the executable in its npm package."""

_PACKAGE = "@bazel/buildifier@8.2.1"
_TARBALL = "bazel-buildifier-8.2.1.tgz"
_EXECUTABLE = "package/buildifier-linux_amd64"

_BUILD = """\
exports_files(
    ["buildifier"],
    visibility = ["//visibility:public"],
)
"""

def _buildifier_impl(rctx):
    npm = rctx.which("npm")
    if not npm:
        fail("\n".join([
            "",
            "error DC012: no npm on this host, which the linters need for %s" % _PACKAGE,
            "  help: apt-get install npm, or skip the linters with --test_tag_filters=-lint --build_tag_filters=-lint",
            "",
        ]))
    packed = rctx.execute([npm, "pack", "--silent", "--ignore-scripts", _PACKAGE], timeout = 600)
    if packed.return_code:
        fail("npm cannot fetch %s: %s%s" % (_PACKAGE, packed.stdout, packed.stderr))
    checked = rctx.execute(["sha256sum", _TARBALL])
    digest = checked.stdout.split(" ")[0]
    if digest != rctx.attr.sha256:
        fail("%s has SHA-256 %s, expected %s" % (_TARBALL, digest, rctx.attr.sha256))
    rctx.extract(_TARBALL)
    rctx.symlink(_EXECUTABLE, "buildifier")
    rctx.file("BUILD.bazel", _BUILD, executable = False)

buildifier = repository_rule(
    implementation = _buildifier_impl,
    doc = "Fetches buildifier with npm from the configured registry, and checks its hash.",
    attrs = {
        "sha256": attr.string(
            default = "b96ea9b13003036c801f52bee6f9b0314738f8432e5cb9d814c89f59292604ee",
            doc = "SHA-256 of the package's tarball.",
        ),
    },
    environ = ["PATH"],
)
