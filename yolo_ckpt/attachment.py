"""Putting a plan on a model and taking it off: the only module that changes a model.

How it is done, and why so:

1. A planned object gets a subclass of its own class. Its module tree, names, hooks and `state_dict` stay as they are.
2. `__class__` answers the original class, so pickle's own check and `isinstance` see the original. `type()` does not.
3. `__reduce_ex__` gives the new-object form with the original class and a state without ours. The result loads where
   this package is not installed, also under a loader that restricts classes.
4. `__deepcopy__` makes another planned object, which shares nothing with this one.
5. One subclass per original class and role, made once, so that two models never differ in class.
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from torch import nn

from yolo_ckpt.plan import Plan
from yolo_ckpt.remat import ConvBlock, PlainConv, Segment, is_conv_block, run, sequential_forward
from yolo_ckpt.stages import stages_of

_SEGMENT = "_yolo_ckpt_segment"
_set_class = object.__dict__["__class__"].__set__  # planned classes hide it behind a property (rule 2)
_classes: dict[tuple[type, bool], type] = {}

Model = TypeVar("Model", bound=nn.Module)


class _Planned:
    """What every planned object can do; mixed in front of its original class."""

    _yolo_ckpt_original: type

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = super().__reduce_ex__(protocol)
        make, arguments, state, *rest = reduced
        arguments = tuple(self._yolo_ckpt_original if a is type(self) else a for a in arguments)
        if isinstance(state, dict):
            state = {k: v for k, v in state.items() if k != _SEGMENT}
        return (make, arguments, state, *rest)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        clone = object.__new__(type(self))
        memo[id(self)] = clone
        clone.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return clone


class _Stage:
    """A stage that runs under its segment; mixed in front of everything else."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The stage's own forward, under its plan."""
        segment: Segment = self.__dict__[_SEGMENT]
        return run(segment, super().forward, args, kwargs)  # type: ignore[misc]


class _Chain:
    """An nn.Sequential inside a stage."""

    forward = sequential_forward


def _original(module: nn.Module) -> type:
    return getattr(type(module), "_yolo_ckpt_original", type(module))


def _role(original: type) -> type | None:
    """The engine's part for modules of this class, if it has one."""
    if original is nn.Conv2d:
        return PlainConv
    if original is nn.Sequential:
        return _Chain
    return ConvBlock if is_conv_block(original) else None


def _class_for(original: type, *, stage: bool) -> type | None:
    """The subclass for objects of class `original`; None when there is nothing to do for them."""
    key = (original, stage)
    if key not in _classes:
        role = _role(original)
        mixins = tuple(m for m in ((_Stage if stage else None), role) if m is not None)
        if not mixins:
            return None
        body = {
            "__module__": original.__module__,
            "__qualname__": original.__qualname__,
            "__doc__": original.__doc__,
            "__class__": property(lambda self: self._yolo_ckpt_original),
            "_yolo_ckpt_original": original,
        }
        _classes[key] = type(original.__name__, (*mixins, _Planned, original), body)
    return _classes[key]


def _assign(module: nn.Module, kind: type) -> None:
    _set_class(module, kind)


def apply(model: Model, plan: Plan) -> Model:
    """Put `plan` on `model` in place, instead of any plan that is on it; return the model.

    Raises:
        PlanError: The plan is for another model.
        RequestError: The model is not made of stages.
    """
    stages = stages_of(model)
    plan.check_model([stage.__class__.__name__ for stage in stages])
    remove(model)
    for stage, entry in zip(stages, plan.stages, strict=True):
        if entry.action == "save":
            continue
        for module in stage.modules():
            kind = _class_for(_original(module), stage=module is stage)
            if kind is not None:
                _assign(module, kind)
        stage.__dict__[_SEGMENT] = Segment(entry.action, entry.opens, entry.closes)
    return model


def remove(model: Model) -> Model:
    """Take any plan off `model` in place; it is exactly what it was. Return the model."""
    for module in model.modules():
        if issubclass(type(module), _Planned):
            _assign(module, _original(module))
            module.__dict__.pop(_SEGMENT, None)
    return model


def is_planned(model: nn.Module) -> bool:
    """True when a plan is on the model."""
    return any(issubclass(type(module), _Planned) for module in model.modules())
