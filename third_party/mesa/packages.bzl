# SPDX-License-Identifier: Apache-2.0
"""Packages of Debian 13 with Mesa's Vulkan driver for CPUs and the libraries that it needs, libc included."""

# When these versions were in the distribution.
SNAPSHOT = "20261101T000000Z"

# File in pool/main of the distribution -> SHA-256.
PACKAGES = {
    "e/elfutils/libelf1t64_0.192-4_amd64.deb": "94497b7e17b6f574a0605b380d454e20d3f01a9c63b70c2a2263f679d30053e1",
    "e/expat/libexpat1_2.8.3-1~deb13u1_amd64.deb": "38abe0e710a07688e9c149d74536e67cfee0364bdb64dd6d644c32a1cfad389f",
    "g/gcc-14/libgcc-s1_14.2.0-19_amd64.deb": "3c71917b490d1a17aed43196a2787a256ecf060526cdb20216a74bedc061b150",
    "g/gcc-14/libstdc++6_14.2.0-19_amd64.deb": "ab1fa05837aa7a92aae748fd07a18a35f7d18bb4a71c4724fe2bbf0e32089de0",
    "g/glibc/libc6_2.41-12+deb13u4_amd64.deb": "967aa62605721081c3eb2a17650611a792aa802d76a6511d1840242623d204c9",
    "l/llvm-toolchain-19/libllvm19_19.1.7-3+b1_amd64.deb": "db0d614d61345ca710fb73e75105f1ec6e38898fa7b3aa99fa7eb7d8b0a11d57",
    "libb/libbsd/libbsd0_0.12.2-2_amd64.deb": "e5a85986fa6bec3307ab1bc860736b478b331882bc45e17675a7bdf88eecb43a",
    "libd/libdrm/libdrm-amdgpu1_2.4.124-2_amd64.deb": "c1d97a5e32e2bc68e833b8abeae026b6306198e87ee4396a7ffecd4779caefbf",
    "libd/libdrm/libdrm2_2.4.124-2_amd64.deb": "fe2276901c7cd7b8079de63072d37fe1cbeb4eb001a3bc1f1d662ad89aa0890e",
    "libe/libedit/libedit2_3.1-20250104-1_amd64.deb": "b002ea172b9c1e34a67bc497c523c67bb74c3f0a4e98113cb083990a1f1d3bfe",
    "libf/libffi/libffi8_3.4.8-2_amd64.deb": "0ebdc340de33333639c3c63874cd4b15ac2e83dfa1ef3053b7eefaf4919f4f68",
    "libm/libmd/libmd0_1.1.0-2+b1_amd64.deb": "7244ec3839b61fac0c1884fe08aaa040f26e8f1f35f1f5d3482eacefd30d1b44",
    "libx/libx11/libx11-6_1.8.12-1_amd64.deb": "b5a3fd3bf8c8fd0364bfb9bea00dcba7fc301229bd02dded084632d31f5b0fb3",
    "libx/libx11/libx11-xcb1_1.8.12-1_amd64.deb": "e05f94d21a932fba5b09b9b13d99df776b155d3bc792c0e294451df9ffe1ba25",
    "libx/libxau/libxau6_1.0.11-1_amd64.deb": "689a9f0e0ba3e2c65431f864871e303ee904de69dd28abfc462663fae030227f",
    "libx/libxcb/libxcb-dri3-0_1.17.0-2+b1_amd64.deb": "f446d42fb5fcebbb3e347368ba83616769fdb271d85b2f49048e337f3163d267",
    "libx/libxcb/libxcb-present0_1.17.0-2+b1_amd64.deb": "db95ea4630c55bd7f3281cb60ccf75b1627ef2f4399e1939f8f6161e584a92fb",
    "libx/libxcb/libxcb-randr0_1.17.0-2+b1_amd64.deb": "f5d9fe5fdf797918f81f0abf6cfd4270bd54659540cddb4da709ab7154523214",
    "libx/libxcb/libxcb-shm0_1.17.0-2+b1_amd64.deb": "d1777a813f484e89f3dcaadd1d5f2b1a13e9313b6bf70eded16d8ce743208fef",
    "libx/libxcb/libxcb-sync1_1.17.0-2+b1_amd64.deb": "0ce4770ed1505be9ddc6473045e4662d062aff2f3077ee684265f01cfb543559",
    "libx/libxcb/libxcb-xfixes0_1.17.0-2+b1_amd64.deb": "f9c1aafc18bf9e4662e34bbaf3bb00f1f4e8c2fc1dd786fdfb6cb9cb6c64fae7",
    "libx/libxcb/libxcb1_1.17.0-2+b1_amd64.deb": "5c222a72d11b866447da31693254f738430726e3e065a384e82687b2fd2f978b",
    "libx/libxdmcp/libxdmcp6_1.1.5-1_amd64.deb": "0740dc760916b2008b45417a42a8fd7dd5de370fb57d31373f15034cda8acf0b",
    "libx/libxml2/libxml2_2.12.7+dfsg+really2.9.14-2.1+deb13u3_amd64.deb": "e0c6b63ce4602a036a526f60fe5e6c1586710688058d98fc1001b9b3147b7efd",
    "libx/libxshmfence/libxshmfence1_1.3.3-1_amd64.deb": "7b339e9e5b2349723d35af4df89bcc7aa456bbdf8ba1754358f9b44c3fe1f964",
    "libz/libzstd/libzstd1_1.5.7+dfsg-1_amd64.deb": "2f6a2aeacfc925eba8b00ac9139bc4bfccf8cacb09eb93de067074b26948eef9",
    "m/mesa/mesa-vulkan-drivers_25.0.7-2+deb13u1_amd64.deb": "caf2f7d296b7522efe74e40a74bce762a3ce84c33b53b5e54e1248ac2e0a13a5",
    "n/ncurses/libtinfo6_6.5+20250216-2_amd64.deb": "8b9f6a7983e9418564e48a627518de4c03917b56efe68d7f3e93bd8fffa1cc10",
    "v/vulkan-loader/libvulkan1_1.4.309.0-1_amd64.deb": "f47da79cd140264fe21cceb08bc87a71bc7fec05819e4a421f3f518d21101a37",
    "w/wayland/libwayland-client0_1.23.1-3_amd64.deb": "d1607e1db1a7c5378a2e5c6ae7b20f64dc6acf134f953d84a7f5204b74339f33",
    "x/xz-utils/liblzma5_5.8.1-1+deb13u1_amd64.deb": "1cfcc6e0dc36f438a79b6e2189facdb9d150b08f57d190a60e01c98075c7f896",
    "z/z3/libz3-4_4.13.3-1_amd64.deb": "71383373523ef62d47eccf660cf6535c3febcbb3f88e54cb7a43124014b57359",
    "z/zlib/zlib1g_1.3.dfsg+really1.3.1-1+b1_amd64.deb": "015be740d6236ad114582dea500c1d907f29e16d6db00566ca32fb68d71ac90d",
}
