# SPDX-License-Identifier: Apache-2.0
"""From a checkpoint to a network with its weights, in the forms in which a program stores them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.frontend import session
from delegatec.frontend.data import data_path
from delegatec.language.folder import Description
from delegatec.language.gguf_file import SUFFIX
from delegatec.language.network import forms_of, store_weights
from delegatec.language.settings import WeightSettings
from delegatec.language.sources import read_checkpoint, weights_of
from delegatec.language.stored import read_stored, write_stored
from delegatec.language.weights import attach, in_memory

NetworkOf = Callable[[Description], Any]
"""Returns a network whose weights have no memory."""


def load_network(
    checkpoint: str | os.PathLike[str], network_of: NetworkOf, settings: WeightSettings
) -> tuple[Any, Description]:
    """Returns a network with its weights, and the description of its folder.

    Args:
        checkpoint: the folder of a checkpoint, a GGUF file, or a file of `store_checkpoint`; a declared data
            file.
        network_of: builds the network.
        settings: how weights are stored; a file has its own.

    Raises:
        DelegatecError: DC115 to DC117, the checkpoint is missing, cannot be read, or does not match its
            configuration; DC134, DC136, settings that do not fit; what `network_of` raises.
    """
    path = _checkpoint_path(os.fspath(checkpoint))
    is_stored = not os.path.isdir(path) and not path.endswith(SUFFIX)
    return (_stored if is_stored else _converted)(path, network_of, settings)


def store_checkpoint(directory: str, path: str, network_of: NetworkOf, settings: WeightSettings) -> None:
    """Writes the weights of a checkpoint in the forms in which a program stores them.

    Args:
        directory: the folder of the checkpoint.
        path: the file to write.
        network_of: builds the network.
        settings: how the weights are stored.

    Raises:
        DelegatecError: as `load_network`.
    """
    folder = read_checkpoint(directory)
    network = network_of(folder.description)
    forms = forms_of(network, settings)
    write_stored(path, network, forms, weights_of(network, folder), folder.description, settings)


def located(error: DelegatecError) -> DelegatecError:
    """Returns an error whose diagnostics have the line of the model's source that called the compiler."""
    where = session.caller()
    return DelegatecError(replace(each, location=each.location or where) for each in error.diagnostics)


def _checkpoint_path(name: str) -> str:
    """Returns the path of a declared folder or file; of a folder, its configuration may be declared."""
    try:
        return data_path(name)
    except DelegatecError as error:
        try:
            return os.path.dirname(data_path(os.path.join(name, "config.json")))
        except DelegatecError:
            raise error from None


def _converted(directory: str, network_of: NetworkOf, settings: WeightSettings) -> tuple[Any, Description]:
    folder = read_checkpoint(directory)
    network = network_of(folder.description)
    forms = forms_of(network, settings)
    tensors = in_memory(network, forms, weights_of(network, folder))
    store_weights(network, forms, settings.activation)
    attach(network, forms, tensors)
    return network, folder.description


def _stored(path: str, network_of: NetworkOf, settings: WeightSettings) -> tuple[Any, Description]:
    if settings != WeightSettings():
        help = "set weights, group_size, embedding and activation where the file is written, only"
        text = f"{os.path.basename(path)} has the settings of its weights"
        raise DelegatecError([Diagnostic("DC136", text, expected="no settings besides", help=help)])
    stored = read_stored(path)
    network = network_of(stored.description)
    forms = forms_of(network, stored.settings)
    store_weights(network, forms, stored.settings.activation)
    attach(network, forms, stored.tensors)
    return network, stored.description
