"""Vectors that stay on their device, and their conversion to arrays."""

from __future__ import annotations

import pickle

import numpy as np
import torch

from serving.adapters.vector_index.device_vector import DeviceVector

VALUES = np.array([0.6, 0.0, 0.8], np.float32)


def made() -> DeviceVector:
    return DeviceVector(torch.from_numpy(VALUES.copy()))


def test_numpy_reads_it_as_float32() -> None:
    vector = np.asarray(made())

    assert vector.dtype == np.float32
    np.testing.assert_array_equal(vector, VALUES)
    assert len(made()) == len(VALUES)


def test_a_copy_of_it_has_memory_of_its_own() -> None:
    vector = made()

    np.array(vector, copy=True)[0] = 1

    np.testing.assert_array_equal(vector, VALUES)


def test_device_vector_reaches_another_process_as_array() -> None:
    arrived = pickle.loads(pickle.dumps(made(), protocol=5))

    assert type(arrived) is np.ndarray
    np.testing.assert_array_equal(arrived, VALUES)
