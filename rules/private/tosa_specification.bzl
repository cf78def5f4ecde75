# SPDX-License-Identifier: Apache-2.0
"""Specifications of TOSA graphs, checked before anything is built.

`delegatec.backends.arm.specification` is the authority.
"""

load(":compiler_tables.bzl", "TOSA_EXTENSIONS", "TOSA_LATER", "TOSA_MARKS", "TOSA_RENAMED")
load(":options.bzl", "did_you_mean", "fail_with")

_WORDS = ["int", "fp", "8k"] + TOSA_EXTENSIONS.keys() + TOSA_MARKS + TOSA_RENAMED.keys()

def check_tosa_specification(label, text):
    """Fails unless a text is a specification of TOSA graphs.

    Args:
        label: the target, for the message.
        text: the value of the option.
    """
    words = text.strip().lower().split("+")
    version = _version(words.pop(0))
    problems = ["it does not start with TOSA-1.0"] if not version else _problems(version, words)
    if problems:
        unknown = [word for word in words if word not in _WORDS]
        fail_with(
            label,
            "DC402",
            "option \"specification\" cannot be \"%s\": %s" % (text, "; ".join(problems)),
            expected = "TOSA-1.0 with profiles and extensions, such as TOSA-1.0+INT, TOSA-1.0+INT+FP or TOSA-1.0+INT+int16",
            help = did_you_mean(unknown[0], TOSA_EXTENSIONS.keys()) if unknown else "",
        )

def _version(head):
    """Returns the major and the minor version, such as "1.0"; None if it has another form."""
    parts = head[len("tosa-"):].split(".")
    if not head.startswith("tosa-") or len(parts) not in (2, 3) or [each for each in parts if not each.isdigit()]:
        return None
    return "%d.%d" % (int(parts[0]), int(parts[1]))

def _problems(version, words):
    """Returns what is wrong with the words after the version."""
    if version == "0.80":
        renewed = [TOSA_RENAMED.get(word, word.upper() if word in ("int", "fp") else word) for word in words]
        return ["it is of version 0.80; write %s for graphs of 1.0" % "+".join(["TOSA-1.0"] + (renewed or ["INT"]))]
    problems = [] if version in ("1.0", "1.1") else ["version %s is not 1.0 or 1.1" % version]
    profiles = [each for each in ("int", "fp") if each in words]
    problems += ["the profile %s is %s since version 1.0" % (word.upper(), TOSA_RENAMED[word]) for word in words if word in TOSA_RENAMED]
    if not profiles and not [word for word in words if word in TOSA_RENAMED]:
        problems.append("it has no profile, INT or FP")
    for word in words:
        if word in TOSA_EXTENSIONS:
            needed = TOSA_EXTENSIONS[word]
            if profiles and needed and needed not in profiles:
                problems.append("%s extends the profile %s, which is absent" % (word, needed.upper()))
            if word in TOSA_LATER and version == "1.0":
                problems.append("the extension %s needs version 1.1" % word)
        elif word not in _WORDS:
            problems.append("unknown extension \"%s\"" % word)
    marks = [mark for mark in TOSA_MARKS if mark in words]
    if len(marks) > 1:
        problems.append("it is for %s at once" % " and ".join(marks))
    if marks and "fp" in profiles:
        problems.append("%s has no floating point, and the profile FP is included" % marks[0])
    return problems
