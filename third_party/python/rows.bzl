# SPDX-License-Identifier: Apache-2.0
"""`@delegatec_row`: the row of the table of Python, torch and platforms, `rows.json`, that a workspace builds with."""

load(":host.bzl", "host_python")

# The row of a workspace that names none.
_DEFAULT = "3.11"

_BUILD = """\
exports_files(
    ["row.json"] + glob(["*.lock.txt"]),
    visibility = ["//visibility:public"],
)
"""

def _read_tables(rctx):
    """Returns a struct: `rows` and `platforms` of the workspace's table, if any, and then of ours."""
    rows, platforms = [], {}
    for table in ([rctx.attr.table] if rctx.attr.table else []) + [rctx.attr._table]:
        path = rctx.path(table)
        content = json.decode(rctx.read(path))
        for row in content["rows"]:
            name = "%s-%s-%s" % (row["python"], row["torch"], row["platform"])
            rows.append(struct(entry = row, locks = "%s/%s" % (path.dirname, row["locks"]), name = name))
        for name, platform in content.get("platforms", {}).items():
            platforms.setdefault(name, platform)
    return struct(platforms = platforms, rows = rows)

def _choose(tables, wanted, host):
    """Returns the first row with a name, or with the start of a name and the host's platform; None if there is none."""
    for row in tables.rows:
        on_host = tables.platforms[row.entry["platform"]]["host"] == host
        if row.name == wanted or (on_host and (row.name + "-").startswith(wanted + "-")):
            return row
    return None

def _row_impl(rctx):
    wanted = rctx.os.environ.get("DELEGATEC_ROW") or rctx.attr.row or _DEFAULT
    host = rctx.execute(["uname", "-s", "-m"]).stdout.strip()
    tables = _read_tables(rctx)
    row = _choose(tables, wanted, host)
    problem = ""
    if not row:
        problem = "\n".join([
            "",
            "error DC017: no row of wheels for %s on %s" % (wanted, host or "this host"),
            "  expected: PYTHON, PYTHON-TORCH or PYTHON-TORCH-PLATFORM of " + ", ".join([each.name for each in tables.rows]),
            "  help: make a row: bazel run @rules_delegate//third_party/python:add_row -- --help",
            "",
        ])

        # Targets that need no wheels can be analyzed.
        row = [each for each in tables.rows if each.entry["python"] == _DEFAULT][0]
    platform = tables.platforms[row.entry["platform"]]
    for site in rctx.attr.sites:
        lock = rctx.path("%s/%s.lock.txt" % (row.locks, site))
        if lock.exists and not problem:
            rctx.symlink(lock, site + ".lock.txt")
        else:
            rctx.file(site + ".lock.txt", "# Row %s has no such lock.\n" % row.name, executable = False)
    content = {
        "host": platform["host"] == host,
        "name": row.name,
        "platform": platform,
        "problem": problem,
        "row": row.entry,
    }
    rctx.file("row.json", json.encode(content) + "\n", executable = False)
    rctx.file("row.bzl", "EXEC_COMPATIBLE_WITH = %r\n" % platform["constraints"], executable = False)
    rctx.file("BUILD.bazel", _BUILD, executable = False)

python_row = repository_rule(
    implementation = _row_impl,
    doc = """\
Chooses a row, and links its locks. It fetches nothing.

The variable DELEGATEC_ROW (`--repo_env`) replaces the row that the workspace names. If there is no such row, the repositories
of wheels say so when they are fetched.
""",
    attrs = {
        "row": attr.string(
            doc = "The name of a row, or its start: `3.13`, `3.13-2.13.0`, which the host's platform completes.",
        ),
        "sites": attr.string_list(
            doc = "Names of locks.",
        ),
        "table": attr.label(
            allow_single_file = [".json"],
            doc = "A table of the workspace, whose rows precede those of `rows.json`.",
        ),
        "_table": attr.label(default = "//third_party/python:rows.json"),
    },
    environ = ["DELEGATEC_ROW", "PATH"],
)

def read_row(rctx):
    """Returns the row that a workspace builds with, for a repository rule that has ROW_ATTRIBUTES.

    Args:
        rctx: the context of the rule.

    Returns:
        A struct: `file`, the path of `row.json`; `name`, `python` and `interpreter`, strings; `host`, whether this host can
        run it.
    """
    file = rctx.path(rctx.attr._row)
    content = json.decode(rctx.read(file))
    if content["problem"]:
        fail(content["problem"])
    entry = content["row"]
    return struct(
        file = file,
        host = content["host"],
        interpreter = entry["interpreter"],
        name = content["name"],
        platform = entry["platform"],
        python = entry["python"],
    )

ROW_ATTRIBUTES = {
    "_row": attr.label(default = "@delegatec_row//:row.json"),
    # Imported by the scripts that get the row.
    "_rows": attr.label(default = "//third_party/python:rows.py"),
}

def row_python(rctx, row):
    """Returns the Python that compiles modules: the build's, or the host's if the row is for another platform.

    Args:
        rctx: the context of a rule that has an attribute `_interpreter`.
        row: its row.
    """
    return rctx.path(rctx.attr._interpreter) if row.host else host_python(rctx)
