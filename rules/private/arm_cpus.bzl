# SPDX-License-Identifier: Apache-2.0
"""The Arm CPUs on which tests run programs."""

# Name, also of the emulator -> what it has besides the vector instructions of ARMv8.0, of which XNNPACK has kernels.
CPUS = {
    "a64fx": ["half precision", "SVE of 512 bits"],
    "cortex-a53": [],
    "cortex-a55": ["half precision", "dot products"],
    "cortex-a710": ["half precision", "dot products", "int8 matrix products", "SVE2 of 128 bits"],
    "cortex-a72": [],
    "cortex-a76": ["half precision", "dot products"],
    "max": ["half precision", "dot products", "int8 matrix products", "SVE2", "SME2"],
    "neoverse-n1": ["half precision", "dot products"],
    "neoverse-v1": ["half precision", "dot products", "int8 matrix products", "SVE of 256 bits"],
}

def cpu_attribute(cpu):
    """Returns the name of a CPU in the module `executorch_runner.arm`.

    Args:
        cpu: a key of CPUS.
    """
    return cpu.replace("-", "_").upper()
