# SPDX-License-Identifier: Apache-2.0
"""Debian 13's CPython 3.13 with the libraries that it and wheels load, libc included: it runs on older distributions."""

# When these versions were in the distribution.
SNAPSHOT = "20261128T000000Z"

# Version and platform of a row -> file in pool/main of the distribution -> SHA-256.
PACKAGES = {
    "3.13": {
        "linux_aarch64": {
            "b/bzip2/libbz2-1.0_1.0.8-6_arm64.deb": "3537fe4fc577a60c8a9568873cd577db7ebc135eb8bb1825f18caf8972d9d2f2",
            "e/expat/libexpat1_2.9.0-1~deb13u1_arm64.deb": "d9e1c50fcdad079fe16d77f1578adcc763be1bf7f2da7fa8adca7010b0c84c83",
            "g/gcc-14/libgcc-s1_14.2.0-19_arm64.deb": "1108bc87879833d6d9a145f22a4a15cddb34e065b4b5f4b97bee586adbac2851",
            "g/gcc-14/libstdc++6_14.2.0-19_arm64.deb": "6669b0c52a2e7c6af9adfdabce3ff6e286065cdfbc7b85280862b5f799daebee",
            "g/glibc/libc6_2.41-12+deb13u5_arm64.deb": "0966fc3da1a26cc57647c68b5736f791b6e7eb498173a7993f63b6c89b4ed4f5",
            "libf/libffi/libffi8_3.4.8-2_arm64.deb": "d84a783b818f2386627604e64b793eb4ac5bb9ea1ba321a194a1c9c82fe09a01",
            "libz/libzstd/libzstd1_1.5.7+dfsg-1_arm64.deb": "924540bd59fdbfa77a0604360efdaca54411a43daf11c7e002a3c64791b67448",
            "o/openssl/libssl3t64_3.5.9-1~deb13u1_arm64.deb": "18edc2b123e8e81efcc14ea5502454b4505285aa9d3325c22315e9304acb25ca",
            "p/python3.13/libpython3.13-minimal_3.13.5-2+deb13u5_arm64.deb": "3655ef258b19142cf6fe38ef89731d5c630b2cf3309632494a720b28c1cfcd85",
            "p/python3.13/libpython3.13-stdlib_3.13.5-2+deb13u5_arm64.deb": "d1178d24e4d143cc6c577d9dc0f26dd982efccc2e600d25ce86361f168a22be0",
            "p/python3.13/python3.13-minimal_3.13.5-2+deb13u5_arm64.deb": "95237a3ad99bf9366308e16f7c79449c9371c4cff9c883772fb7c254652467eb",
            "s/sqlite3/libsqlite3-0_3.46.1-7+deb13u2_arm64.deb": "5b09efca71cb7a16d67f5453af3989ae1a84fe6b68c6dd3913de527cb0ca23aa",
            "u/util-linux/libuuid1_2.41.5-0+deb13u1_arm64.deb": "448ad6b190184dbff24508ef2eda88bd737a5ffc0f9750eb779fcf9885292bea",
            "x/xz-utils/liblzma5_5.8.1-1+deb13u2_arm64.deb": "88f3aa499dc30edf01b9209ab40f11e37edfbecef971f84f4721de1874ed4827",
            "z/zlib/zlib1g_1.3.dfsg+really1.3.1-1+deb13u1_arm64.deb": "0e41b3d7ad8ad7fcd36dd4d61ca91a70018478fc4af652e044f4be770784ddff",
        },
        "linux_x86_64": {
            "b/bzip2/libbz2-1.0_1.0.8-6_amd64.deb": "cba4cda04244b5e481bb15524bc3c983a7d1b6f330013b9b381706a2fcb65310",
            "e/expat/libexpat1_2.9.0-1~deb13u1_amd64.deb": "feff874772cae904ae4d24e917b35664952bec4b4ae9100a4edda5a7fa746832",
            "g/gcc-14/libgcc-s1_14.2.0-19_amd64.deb": "3c71917b490d1a17aed43196a2787a256ecf060526cdb20216a74bedc061b150",
            "g/gcc-14/libstdc++6_14.2.0-19_amd64.deb": "ab1fa05837aa7a92aae748fd07a18a35f7d18bb4a71c4724fe2bbf0e32089de0",
            "g/glibc/libc6_2.41-12+deb13u5_amd64.deb": "b59b0625cd1a791375d40dab23a4d5d3d0641e3d0a773501becdc3725b7f99cf",
            "libf/libffi/libffi8_3.4.8-2_amd64.deb": "0ebdc340de33333639c3c63874cd4b15ac2e83dfa1ef3053b7eefaf4919f4f68",
            "libz/libzstd/libzstd1_1.5.7+dfsg-1_amd64.deb": "2f6a2aeacfc925eba8b00ac9139bc4bfccf8cacb09eb93de067074b26948eef9",
            "o/openssl/libssl3t64_3.5.9-1~deb13u1_amd64.deb": "ffefb9af363e0e4592251b2533eb06453c8e470f7772e40263c4b2129251a6d5",
            "p/python3.13/libpython3.13-minimal_3.13.5-2+deb13u5_amd64.deb": "a4aa6a9a8c77f87bfe545e1d14ec42c001d189ace90e3aa75deec882b39dee49",
            "p/python3.13/libpython3.13-stdlib_3.13.5-2+deb13u5_amd64.deb": "db161322a3481d2c0c3b9a3b9a03c3ab0e2b1718f54b88755fb4a3f939165b84",
            "p/python3.13/python3.13-minimal_3.13.5-2+deb13u5_amd64.deb": "c1fda9e7b1bf15b2fa75a238d8a8710e142fe14c722fc650c5fc614f078c9073",
            "s/sqlite3/libsqlite3-0_3.46.1-7+deb13u2_amd64.deb": "0a459adaffd901109f7811ab65f58e7a957b4907d05539cf3d1184efdcde0468",
            "u/util-linux/libuuid1_2.41.5-0+deb13u1_amd64.deb": "c1bf4c4c3ff48c57fabf93307dfb56996b60cfa33927afc4158b5db36fb2721e",
            "x/xz-utils/liblzma5_5.8.1-1+deb13u2_amd64.deb": "b38acab30f295bf1066a6632e31cbd0a1980f2924b38040cda131d5dea5384ec",
            "z/zlib/zlib1g_1.3.dfsg+really1.3.1-1+deb13u1_amd64.deb": "8c27c342230503b73dfde629642c3b352e87b554e06d60cf58772f236a305ceb",
        },
    },
}
