"""Trains the lists of cuVS, in a process of its own if that takes long.

cuVS holds the GIL of its process during every call. So this is also a program, which imports no
other module of ours:

    python train_lists.py SAMPLE LISTS N_LISTS DEVICE

`SAMPLE` is a .npy file, float16 (n, dimension); `LISTS` is written, and holds centroids only.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

TRAINING_ROUNDS = 20


def train(sample: torch.Tensor, n_lists: int, resources: Any) -> Any:
    """Returns an IVF-Flat index without rows; the caller waits for the handle of cuVS.

    The sample is float16 (n, dimension), contiguous, on the device of `resources`; n is at least
    `n_lists`. Raises CuvsException if cuVS reported an error.
    """
    from cuvs.neighbors import ivf_flat

    parameters = ivf_flat.IndexParams(
        n_lists=n_lists,
        metric="inner_product",
        kmeans_n_iters=TRAINING_ROUNDS,
        kmeans_trainset_fraction=1.0,
        # Rows are added with their slots, which only `extend` accepts.
        add_data_on_build=False,
        # With adaptive centroids the results would depend on the order of writes.
        adaptive_centers=False,
        # Lists in whole groups take 5 to 20 % more memory than their rows, instead of 44 %.
        conservative_memory_allocation=True,
    )
    return ivf_flat.build(parameters, sample, resources=resources)


def main(sample: str, lists: str, n_lists: str, device: str) -> None:
    """Trains lists from one file and writes them to another."""
    from cuvs.common import Resources
    from cuvs.neighbors import ivf_flat

    with torch.cuda.device(torch.device(device)):
        resources = Resources()
        rows = torch.from_numpy(np.load(sample)).to(device)
        torch.cuda.current_stream().synchronize()
        index = train(rows, int(n_lists), resources)
        ivf_flat.save(lists, index, resources=resources)
        resources.sync()


if __name__ == "__main__":
    main(*sys.argv[1:])
