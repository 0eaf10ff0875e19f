"""The same seed gives the same bits on one kind of GPU and one set of libraries.

What differed from call to call on an H200 with torch 2.11, found one at a time (`benchmarks/determinism.py`): cuDNN's attention, which
torch takes for a single query with a mask, so that other tokens were sampled from the tenth or so on; and the backward pass of attention,
whose kernels add in the order in which they finish. torch's deterministic algorithms leave out the first and cure the second.

While sampling they stay off: they turn each write into the cache of keys into a sort, which makes a step half as long again, and without
cuDNN's attention nothing that samples needs them. On a CPU nothing is set: one thread adds in one order.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

UNSUPPORTED = "does not have a deterministic implementation"
"""Words of torch's error where an operation has no deterministic kernel."""


def leave_out_cudnn_attention() -> None:
    """For each stage on a GPU, before anything is computed."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as NVIDIA asks for; torch 2.11 gave equal bits without it too
    import torch

    torch.backends.cuda.enable_cudnn_sdp(False)


def use_deterministic_updates() -> None:
    """For training on a GPU. An operation without a deterministic kernel raises RuntimeError with the words of UNSUPPORTED."""
    import torch

    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # it shows bugs, and costs a pass over memory


@contextlib.contextmanager
def sampling() -> Iterator[None]:
    """Sample inside: what torch calls deterministic is left off for a while."""
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
