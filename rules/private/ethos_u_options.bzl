# SPDX-License-Identifier: Apache-2.0
"""Options of `ethos_u` that must fit each other, checked before anything is built.

The tables repeat `python/delegatec/backends/arm/ethos_u/accelerator.py`; //tests/rules:backends_test compares them.
"""

load(":options.bzl", "did_you_mean", "fail_with")

SYSTEMS = {
    "u55": ["Ethos_U55_Deep_Embedded", "Ethos_U55_High_End_Embedded"],
    "u65": ["Ethos_U65_Embedded", "Ethos_U65_Mid_End", "Ethos_U65_High_End", "Ethos_U65_Client_Server"],
    "u85": [
        "Ethos_U85_SYS_Flash_Low",
        "Ethos_U85_SYS_Flash_High",
        "Ethos_U85_SYS_DRAM_Low",
        "Ethos_U85_SYS_DRAM_Mid",
        "Ethos_U85_SYS_DRAM_High",
    ],
}

MEMORY_MODES = [
    "Sram_Only",
    "Shared_Sram",
    "Dedicated_Sram",
    "Dedicated_Sram_256KB",
    "Dedicated_Sram_384KB",
    "Dedicated_Sram_512KB",
]

def check_ethos_u_options(label, options, defaults):
    """Fails unless the system and the memory mode exist, for the accelerator.

    Args:
        label: the target, for the message.
        options: dict of option to its value, those that the target sets.
        defaults: dict of option to `option`.
    """
    if options.get("config"):
        for name in ["system_config", "memory_mode"]:
            if not options.get(name):
                fail_with(
                    label,
                    "DC402",
                    "option \"%s\" is not set, and option \"config\" replaces its default" % name,
                    expected = "a name in the configuration file",
                )
        return
    accelerator = options.get("accelerator") or defaults["accelerator"].default
    for name, valid in [
        ("system_config", SYSTEMS[accelerator.split("-")[1]]),
        ("memory_mode", MEMORY_MODES),
    ]:
        value = options.get(name)
        if value and value not in valid:
            fail_with(
                label,
                "DC402",
                "option \"%s\" cannot be \"%s\" for %s" % (name, value, accelerator),
                expected = " or ".join(valid),
                help = did_you_mean(value, valid) or "a board's own names are those of its option \"config\"",
            )
