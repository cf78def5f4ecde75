# SPDX-License-Identifier: Apache-2.0
"""Debian's packages with a cross compiler for aarch64, and an emulator of Arm CPUs, for hosts with x86-64.

The compiler is Debian 12's, which has older libraries, and the emulator Debian 13's: the QEMU 7.2 of Debian 12 computes int8
wrongly with SME.
"""

# When these versions were in the distribution.
SNAPSHOT = "20261101T000000Z"

# File in pool/main of the distribution -> SHA-256.
PACKAGES = {
    "b/binutils/binutils-aarch64-linux-gnu_2.40-2_amd64.deb": "3d6f64a7a4ed6d73719f8fa2e85fd896f58ff7f211a6683942ba93de690aaa66",
    "c/cross-toolchain-base/libc6-arm64-cross_2.36-8cross1_all.deb": "91936cbbee75771c360ed16513f6e734a25ca5517fe7c3e13dfd7835d7553186",
    "c/cross-toolchain-base/libc6-dev-arm64-cross_2.36-8cross1_all.deb": "5e4cf6abf0e89e89c4b3006bb8b7dc47aa831df25d94df9134929b8b968cacb4",
    "c/cross-toolchain-base/linux-libc-dev-arm64-cross_6.1.4-1cross1_all.deb": "66457f015d16b7d372db6591cff38db0da928362ff2ea1fa75491e28f6904d81",
    "g/gcc-12-cross/g++-12-aarch64-linux-gnu_12.2.0-14cross1_amd64.deb": "3693e31fe2b42fcbdd92fef3e5578e91dd86af30e3d2c5fff3f9821e34a1cb91",
    "g/gcc-12-cross/libgcc-12-dev-arm64-cross_12.2.0-14cross1_all.deb": "ff1324e262bae2c3aad685c2ed52bd531ab0a2a337a0fe35c3b720947d55b2ba",
    "g/gcc-12-cross/libgcc-s1-arm64-cross_12.2.0-14cross1_all.deb": "af1e686fc6a416228222e7bfb68317dd2fa2685236301ae29141fc6108a66cac",
    "g/gcc-12-cross/libstdc++-12-dev-arm64-cross_12.2.0-14cross1_all.deb": "942b5710c6b9792578dfa64f7a4633bc0d3cb205b56ded11297e240ff824f5da",
    "g/gcc-12-cross/libstdc++6-arm64-cross_12.2.0-14cross1_all.deb": "9cba984b64d0cf11698978fc5e0fe93c7441d29b9f42f70f1c6c734cc9e2ea41",
    "g/glibc/libc6_2.36-9+deb12u14_amd64.deb": "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf",
    "g/gmp/libgmp10_6.2.1+dfsg1-1.1_amd64.deb": "187aedef2ed763f425c1e523753b9719677633c7eede660401739e9c893482bd",
    "i/isl/libisl23_0.25-1.1_amd64.deb": "ebff0b2f8b220c74224197523019366e97ee4770d464bebc48e4865114e4da0e",
    "j/jansson/libjansson4_2.14-2_amd64.deb": "3fc9742f9f1a37bcb9931df6074b4d1483419ef832ad5349f47323e75fc27864",
    "libz/libzstd/libzstd1_1.5.4+dfsg2-5_amd64.deb": "6315b5ac38b724a710fb96bf1042019398cb656718b1522279a5185ed39318fa",
    "m/mpclib3/libmpc3_1.3.1-1_amd64.deb": "d7f79544790e44f9b0c8cb9034a18c58d37f8702a15f32539050718679e52f80",
    "m/mpfr4/libmpfr6_4.2.0-1_amd64.deb": "37b7a2b4e78890b6a074777f27b96c84f58e81558ba08410c2b6c0ca4a4ad77b",
    "q/qemu/qemu-user_10.0.13+ds-0+deb13u1_amd64.deb": "ca6ede739327a20ae5a3498230c8a3a9a072c586e131bc6bcc1201eb1725e336",
    "z/zlib/zlib1g_1.2.13.dfsg-1_amd64.deb": "d7dd1d1411fedf27f5e27650a6eff20ef294077b568f4c8c5e51466dc7c08ce4",
}
