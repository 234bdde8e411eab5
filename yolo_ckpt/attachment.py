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
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import torch
from torch import nn

from yolo_ckpt.hotspots import assigner_roles, attention_role, mask_role, parts_of, semantic_role
from yolo_ckpt.plan import Plan
from yolo_ckpt.remat import (
    ConvBlock,
    PlainConv,
    Segment,
    is_conv_block,
    is_known_loop,
    joined_forward,
    run,
    run_loss,
    sequential_forward,
    stage_loop,
)
from yolo_ckpt.stages import stages_of, unwrap

_SEGMENT, _GUARD = "_yolo_ckpt_segment", "_yolo_ckpt_guard"
_set_class = object.__dict__["__class__"].__set__  # planned classes hide it behind a property (rule 2)
_classes: dict[tuple[type, ...], type] = {}

Guard = Callable[[Callable[[Any], Any], Any], Any]  # of a model's own forward and a batch

Model = TypeVar("Model", bound=nn.Module)


class _Planned:
    """What every planned object can do; mixed in front of its original class."""

    _yolo_ckpt_original: type

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = super().__reduce_ex__(protocol)
        make, arguments, state, *rest = reduced
        arguments = tuple(self._yolo_ckpt_original if a is type(self) else a for a in arguments)
        if isinstance(state, dict):
            state = {k: v for k, v in state.items() if k not in (_SEGMENT, _GUARD)}
        return (make, arguments, state, *rest)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        clone = object.__new__(type(self))
        memo[id(self)] = clone
        clone.__dict__.update(copy.deepcopy({k: v for k, v in self.__dict__.items() if k != _GUARD}, memo))
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


class _Joined:
    """A block that ends in a convolution of a concatenation."""

    def forward(self, x: Any) -> Any:
        """What the original's forward does."""
        forward = joined_forward(_original(self))
        assert forward is not None
        return forward(self, x)


class _Loop:
    """A model whose loop over its stages is one that the engine knows."""

    model: nn.Sequential

    def _predict_once(self, x: Any, profile: bool = False, embed: Any = None) -> Any:
        if profile or embed:
            return super()._predict_once(x, profile, embed)  # type: ignore[misc]
        return stage_loop(self.model, x)


class _CriterionMaker:
    """A model that makes its loss at the first training step."""

    def init_criterion(self) -> Any:
        """The model's own criterion, its parts bounded."""
        return _plan_criterion(super().init_criterion(), loss=False)  # type: ignore[misc]


class _LossMaker:
    """A model whose loss is a planned stage."""

    def init_criterion(self) -> Any:
        """The model's own criterion, its parts bounded, planned."""
        return _plan_criterion(super().init_criterion(), loss=True)  # type: ignore[misc]


class _Guarded:
    """A model whose training steps somebody watches."""

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The model's own forward; that of a training batch by way of the guard."""
        guard = self.__dict__.get(_GUARD)
        if guard is None or not isinstance(x, dict) or not torch.is_grad_enabled():
            return super().forward(x, *args, **kwargs)  # type: ignore[misc]
        return guard(super().forward, x)  # type: ignore[misc]


class _LossModule:
    """A criterion that is an nn.Module."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The criterion's own forward, as a planned stage."""
        return run_loss(super().forward, args, kwargs)  # type: ignore[misc]


class _LossCall:
    """A criterion that is a plain callable."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The criterion's own call, as a planned stage."""
        return run_loss(super().__call__, args, kwargs)  # type: ignore[misc]


def _original(thing: Any) -> type:
    return getattr(type(thing), "_yolo_ckpt_original", type(thing))


def _roles(original: type) -> tuple[type, ...]:
    """The engine's part for modules of this class inside a stage, if it has one."""
    if original is nn.Conv2d:
        return (PlainConv,)
    if original is nn.Sequential:
        return (_Chain,)
    if joined_forward(original) is not None:
        return (_Joined,)
    return (ConvBlock,) if is_conv_block(original) else ()


def _class_for(original: type, roles: tuple[type, ...]) -> type:
    """The subclass for objects of class `original` that play `roles`."""
    key = (original, *roles)
    if key not in _classes:
        body = {
            "__module__": original.__module__,
            "__qualname__": original.__qualname__,
            "__doc__": original.__doc__,
            "__class__": property(lambda self: self._yolo_ckpt_original),
            "_yolo_ckpt_original": original,
            "_yolo_ckpt_roles": roles,
        }
        _classes[key] = type(original.__name__, (*roles, _Planned, original), body)
    return _classes[key]


def _give(thing: Any, *roles: type) -> None:
    """Give an object these roles; one that has some already gets these instead."""
    if roles:
        _set_class(thing, _class_for(_original(thing), roles))


def _plan_criterion(criterion: Any, *, loss: bool) -> Any:
    """Give a criterion its role where the `loss` is planned, and its parts those that bound their memory; return it."""
    for part in parts_of(criterion):
        bounds = [role for role in (mask_role(part), semantic_role(part)) if role is not None]
        _give(part, *(_loss_roles(part) if loss and part is criterion else ()), *bounds)
    for assigner in _assigners(criterion):
        _give(assigner, *assigner_roles(assigner))
    return criterion


def _assigners(criterion: Any) -> list[Any]:
    """The assigners of a criterion, and of the criteria that it is made of."""
    return [part.assigner for part in parts_of(criterion) if isinstance(getattr(part, "assigner", None), nn.Module)]


def _loss_roles(criterion: Any) -> tuple[type, ...]:
    """The role of a criterion as a planned stage. One that is no object of a class with a `__call__` written in Python
    (a function, a bound method, a partial) cannot change its class, and stays as it is."""
    if isinstance(criterion, nn.Module):
        return (_LossModule,)
    plain = isinstance(_original(criterion).__call__, FunctionType) and hasattr(criterion, "__dict__")
    return (_LossCall,) if plain else ()


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
        for module in list(stage.modules()):
            attention = attention_role(module, plan.attention)
            roles = (attention,) if attention is not None else _roles(_original(module))
            _give(module, *((_Stage,) if module is stage else ()), *roles)
        stage.__dict__[_SEGMENT] = Segment(entry.action, entry.opens, entry.closes)
    if plan.planned:
        _apply_to_whole(unwrap(model), loss=plan.stages[-1].action != "save")
    return model


def _apply_to_whole(model: nn.Module, *, loss: bool) -> None:
    """What a plan does to the model itself: its loop over the stages, and the loss where the head is planned."""
    loops = "_predict_once" not in model.__dict__ and is_known_loop(getattr(type(model), "_predict_once", None))
    maker = (_LossMaker if loss else _CriterionMaker,) if hasattr(type(model), "init_criterion") else ()
    _give(model, *((_Loop,) if loops else ()), *maker)
    criterion = getattr(model, "criterion", None)
    if maker and criterion is not None:
        _plan_criterion(criterion, loss=loss)


def guard(model: nn.Module, guard: Guard) -> None:
    """Have `guard` run the forward pass of every training batch of `model`: it is given the model's own forward, and
    the batch. Another plan, and taking the plan off, end it; a copy of the model has none."""
    roles = [role for role in getattr(type(model), "_yolo_ckpt_roles", ()) if role is not _Guarded]
    _give(model, _Guarded, *roles)
    model.__dict__[_GUARD] = guard


def remove(model: Model) -> Model:
    """Take any plan off `model` in place; it is exactly what it was. Return the model."""
    criterion = getattr(unwrap(model), "criterion", None)
    for thing in (*model.modules(), *parts_of(criterion), *_assigners(criterion)):
        if issubclass(type(thing), _Planned):
            _set_class(thing, _original(thing))
            for name in (_SEGMENT, _GUARD):
                thing.__dict__.pop(name, None)
    return model


def is_planned(model: nn.Module) -> bool:
    """True when a plan is on the model."""
    return any(_SEGMENT in module.__dict__ for module in model.modules())
