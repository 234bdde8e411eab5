"""Live bytes: the tensor storage that is alive at a moment, and its peak, on any device."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Context that follows every storage from the operator that returned it until it is freed.

    Workspace that an operator allocates and frees inside itself is not seen. Storages that existed before count from
    the moment `add` or an operator shows them.

    Attributes:
        current_bytes: Alive now.
        peak_bytes: The most that was alive at once.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.current_bytes = 0
        self.peak_bytes = 0
        self._window_peak_bytes = 0
        self._sizes: dict[int, int] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping costs two Python calls for each operator, and nothing that is compiled is measured

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Count the storages of `tensors` too."""
        for tensor in tensors:
            self._see(tensor)

    def take_window_peak(self) -> int:
        """The most that was alive at once since the last call."""
        peak, self._window_peak_bytes = self._window_peak_bytes, self.current_bytes
        return peak

    def _see(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._sizes:
            return
        nbytes = self._sizes[key] = storage.nbytes()
        self.current_bytes += nbytes
        self.peak_bytes = max(self.peak_bytes, self.current_bytes)
        self._window_peak_bytes = max(self._window_peak_bytes, self.current_bytes)
        weakref.finalize(storage, self._freed, key).atexit = False

    def _freed(self, key: int) -> None:
        self.current_bytes -= self._sizes.pop(key, 0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor):
            self._see(out)
        else:
            self.add(tensors_in(out))
        return out


def tensors_in(tree: Any) -> list[Tensor]:
    """Every tensor in nested lists, tuples and dicts."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Bytes of the distinct storages behind `tensors`."""
    sizes = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}
    return sum(sizes.values())
