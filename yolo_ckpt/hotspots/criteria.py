"""What a loss is made of."""

from __future__ import annotations

from typing import Any


def parts_of(criterion: Any) -> tuple[Any, ...]:
    """A criterion and what it holds, among which may be criteria that it is made of."""
    return (criterion, *getattr(criterion, "__dict__", {}).values())
