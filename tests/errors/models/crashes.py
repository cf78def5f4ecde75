# SPDX-License-Identifier: Apache-2.0
"""Ends its process without a word."""

import os
import signal


def build():
    print("about to crash", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
