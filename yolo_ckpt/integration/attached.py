"""What an attached `YOLO` object does that others do not: it knows the native size before it starts a process for each
device, plans the processes that its tuning starts, and keeps its plan when its callbacks are reset, which Ray's workers
do before they train.

The object gets a subclass of its own class. It is pickled and copied as an object of the original class that is
attached again.
"""

from __future__ import annotations

from typing import Any

from yolo_ckpt.integration.children import planned_children

_classes: dict[type, type] = {}


class _Attached:
    """Mixed in front of the object's own class."""

    callbacks: dict[str, list[Any]]

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """The host's training."""
        from yolo_ckpt.integration.native import size_for_processes

        imgsz = size_for_processes(kwargs)
        return super().train(*args, **(kwargs if imgsz is None else {**kwargs, "imgsz": imgsz}))  # type: ignore[misc]

    def tune(self, *args: Any, **kwargs: Any) -> Any:
        """The host's tuning, with every training planned."""
        from yolo_ckpt.integration.callback import callback_of

        callback = callback_of(self)
        if callback is None or not callback.settings.does_anything:
            return super().tune(*args, **kwargs)  # type: ignore[misc]
        with planned_children(callback.settings):
            return super().tune(*args, **kwargs)  # type: ignore[misc]

    def reset_callbacks(self) -> None:
        """Reset all callbacks but ours."""
        from yolo_ckpt.integration.callback import callback_of, register

        callback = callback_of(self)
        super().reset_callbacks()  # type: ignore[misc]
        if callback is not None:
            register(self.callbacks, callback)

    def __reduce_ex__(self, _: Any) -> Any:
        return _made, (type(self).__mro__[2],), self.__dict__


def extend_object(yolo: Any) -> None:
    """Give `yolo` these methods, where its class has them."""
    base = type(yolo)
    if isinstance(yolo, _Attached) or not (hasattr(base, "tune") and hasattr(base, "reset_callbacks")):
        return
    yolo.__class__ = _class_for(base)


def _class_for(base: type) -> type:
    if base not in _classes:
        named = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
        _classes[base] = type(base.__name__, (_Attached, base), named)
    return _classes[base]


def _made(base: type) -> Any:
    return object.__new__(_class_for(base))
