# SPDX-License-Identifier: Apache-2.0
"""The check of a `program_test`'s settings, before anything is built.

`delegatec.samples.tolerances` is the authority.
"""

load(":compiler_tables.bzl", "TOLERANCE_DTYPES")
load(":options.bzl", "did_you_mean", "problem")

_NUMBER = "a number of at least 0, such as \"1e-3\""

def is_number(text):
    """Returns whether a text is a decimal number without a sign, such as 0.001 or 1e-3.

    Args:
        text: a string.

    Returns:
        A bool.
    """
    mantissa, mark, exponent = text.strip().lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    if not (whole + fraction).isdigit():
        return False
    return not mark or (exponent[1:] if exponent[:1] in ["+", "-"] else exponent).isdigit()

def tolerance_problems(atol, rtol, seeds, tolerances, minimum_snr_db, exported):
    """Returns what is wrong with the settings of a test.

    Args:
        atol: a string, empty for the default.
        rtol: likewise.
        seeds: number of random inputs.
        tolerances: dict of dtype to "ATOL" or "ATOL,RTOL".
        minimum_snr_db: an int; 0 for the limit of the exported program.
        exported: the ExportedProgramInfo of the program.

    Returns:
        A list of `problem`.
    """
    problems = []
    if seeds < 0:
        problems.append(problem("DC514", "seeds cannot be %d" % seeds, expected = "0 or more"))
    for name, value in [("atol", atol), ("rtol", rtol)]:
        if value and not is_number(value):
            problems.append(problem("DC514", "%s cannot be \"%s\"" % (name, value), expected = _NUMBER))
    if minimum_snr_db < 0:
        problems.append(problem("DC514", "minimum_snr_db cannot be %d" % minimum_snr_db, expected = "0 or more"))
    if minimum_snr_db and not (exported.quantized and exported.samples):
        problems.append(problem(
            "DC423",
            "minimum_snr_db has no effect: %s" % ("there are no samples of the model" if exported.quantized else "the program is not quantized"),
            expected = "a program of a quantized_program without quantize_io, whose exported_program has samples, or no minimum_snr_db",
        ))
    for dtype, value in tolerances.items():
        if dtype not in TOLERANCE_DTYPES:
            problems.append(problem(
                "DC514",
                "tolerances names the dtype \"%s\"" % dtype,
                expected = ", ".join(TOLERANCE_DTYPES),
                help = did_you_mean(dtype, TOLERANCE_DTYPES),
            ))
        parts = value.split(",")
        if len(parts) > 2 or [part for part in parts if not is_number(part)]:
            problems.append(problem(
                "DC514",
                "the tolerance of %s cannot be \"%s\"" % (dtype, value),
                expected = "an absolute tolerance, such as \"1e-3\", and perhaps a relative one, as in \"1e-3,1e-2\"",
            ))
    return problems
