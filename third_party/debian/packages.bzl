# SPDX-License-Identifier: Apache-2.0
"""Downloads locked packages of Debian, for repository rules."""

_MIRRORS = [
    "http://deb.debian.org/debian/pool/main/",
    "http://snapshot.debian.org/archive/debian/%s/pool/main/",
]

def _mirrors(snapshot):
    """Returns the addresses below which packages are.

    Args:
        snapshot: when their versions were in the distribution, such as "20261101T000000Z".
    """
    return [mirror % snapshot if "%s" in mirror else mirror for mirror in _MIRRORS]

def download_debian_packages(rctx, packages, snapshot, folder):
    """Downloads packages.

    Args:
        rctx: the context of a repository rule.
        packages: dict of a file in pool/main of the distribution to its SHA-256.
        snapshot: when these versions were in the distribution.
        folder: where to write them.

    Returns:
        A struct: `files`, list of string, in the order of the packages; `missing`, why one cannot be had, or "".
    """
    files = []
    for path, sha256 in packages.items():
        file = folder + "/" + path.split("/")[-1].replace("+", "-").replace("~", "-")
        rctx.report_progress("Downloading " + path)
        mirrors = _mirrors(snapshot)
        done = rctx.download(
            allow_fail = True,
            output = file,
            sha256 = sha256,
            url = [mirror + path for mirror in mirrors],
        )
        if not done.success:
            rctx.delete(folder)
            return struct(files = [], missing = "%s cannot be downloaded from %s" % (path, " or ".join(mirrors)))
        files.append(file)
    return struct(files = files, missing = "")
