"""What fits a memory budget: the largest batch at each size, and the largest image."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn

from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.planner import make_plan
from yolo_ckpt.reporting.progress import Tell, untold
from yolo_ckpt.settings import Settings

SIZES = (640, 1024, 1280, 1536, 2048, 3072, 4096)
MODES = ("off", "selective", "full")
LARGEST = 32768  # sides beyond this are not looked for
STEP, SMALLEST, FIRST = 32, 64, 512  # of sides; a batch of one image of 32 px leaves one value per channel


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One mode.

    Attributes:
        ckpt: The mode.
        batches: The largest batch at each size of the table, by size; 0 where not even one image fits.
        largest_imgsz: The largest side at batch 1, a multiple of 32; 0 where none fits.
    """

    ckpt: str
    batches: dict[int, int]
    largest_imgsz: int


class Fits:
    """Forecasts of one model, as large as they have to be simulated.

    A step's bytes are a fixed part, and a part per image that grows with the pixels; the loss has parts of its own. So
    each simulated step says where to look next, and every answer is simulated itself.
    """

    def __init__(self, model: nn.Module, conditions: Conditions, tell: Tell = untold) -> None:
        self.model, self.conditions, self._tell = model, conditions, tell
        self._peaks: dict[tuple[str, int, int], int] = {}  # without the extra bytes

    def within(self, budget_bytes: int) -> Fits:
        """The same for another budget; what was simulated is shared."""
        other = Fits(self.model, replace(self.conditions, budget_bytes=budget_bytes), self._tell)
        other._peaks = self._peaks
        return other

    @property
    def budget(self) -> int:
        """What a step may have alive."""
        return self.conditions.budget_bytes

    def peak_bytes(self, ckpt: str, imgsz: int, batch: int) -> int:
        """Forecast peak of a step."""
        key = (ckpt, imgsz, batch)
        if key not in self._peaks:
            self._tell(f"ckpt={ckpt} imgsz={imgsz} batch={batch}")
            settings = Settings(ckpt=ckpt, ckpt_stages=self.conditions.stages, ckpt_attention=self.conditions.attention)
            plan = make_plan(self.model, settings, imgsz=imgsz, batch=batch)
            simulated = replace(self.conditions, imgsz=imgsz, batch=batch).simulated(self.model)
            self._peaks[key] = simulated.step(plan).peak_bytes
        return self._peaks[key] + self.conditions.extra_bytes

    def largest_batch(self, ckpt: str, imgsz: int, guess: int, below: int = 1 << 20) -> int:
        """The most images of this size in a step within the budget, fewer than `below`, searched from `guess` where
        nothing is known yet."""
        known = {b: self.peak_bytes(ckpt, imgsz, b) for c, s, b in list(self._peaks) if (c, s) == (ckpt, imgsz)}
        fits = max((b for b, peak in known.items() if peak <= self.budget and b < below), default=0)
        fails = min((b for b, peak in known.items() if peak > self.budget), default=below)
        fails = min(fails, below)
        near = next((b for b in (fits, fails) if b in known), None)
        wanted = guess if near is None else self._batch_by(known, near)
        while fails - fits > 1:
            batch = min(max(wanted, fits + 1), fails - 1)
            known[batch] = peak = self.peak_bytes(ckpt, imgsz, batch)
            fits, fails = (batch, fails) if peak <= self.budget else (fits, batch)
            wanted = self._batch_by(known, batch)
            if wanted == fits:
                break
        return fits

    def _batch_by(self, known: dict[int, int], batch: int) -> int:
        """The batch that the known peaks promise: by the line through the two nearest, or by all but the model for
        each image."""
        others = [b for b in known if b != batch]
        if others:
            near = min(others, key=lambda b: abs(b - batch))
            each = (known[batch] - known[near]) / (batch - near)
        else:
            fixed = self.conditions.extra_bytes + sum(2 * p.nbytes for p in self.model.parameters())
            each = (known[batch] - fixed) / batch
        return batch + int((self.budget - known[batch]) // max(each, 1))

    def largest_imgsz(self, ckpt: str, low: int, high: int, batch: int = 1) -> int:
        """The largest side with `batch` images within the budget, between `low`, which fits, and `high`, which does not
        (0: not known)."""
        for c, size, b in list(self._peaks):
            if (c, b) == (ckpt, batch) and self.peak_bytes(c, size, b) <= self.budget:
                low = max(low, size)
            elif (c, b) == (ckpt, batch):
                high = min(high or size, size)
        size = high or max(low * 2, FIRST)
        while not high and size <= LARGEST:
            if self.peak_bytes(ckpt, size, batch) > self.budget:
                high = size
            else:
                low, size = size, size * 2
        low = low // STEP * STEP
        while high - low > STEP and high > SMALLEST:
            middle = self._between(ckpt, low, high, batch)
            if self.peak_bytes(ckpt, middle, batch) <= self.budget:
                low = middle
            else:
                high = middle
        return low

    def _between(self, ckpt: str, low: int, high: int, batch: int) -> int:
        """A side strictly between two, where bytes that grow with the pixels would reach the budget."""
        known = {s: self.peak_bytes(c, s, b) for c, s, b in list(self._peaks) if (c, b) == (ckpt, batch)}
        guess = (low + high) / 2
        if low in known and high in known and known[high] > known[low]:
            share = (self.budget - known[low]) / (known[high] - known[low])
            guess = (low**2 + share * (high**2 - low**2)) ** 0.5
        return min(max(int(guess) // STEP * STEP, low + STEP, SMALLEST), high - STEP)

    def fit(self, ckpt: str) -> Fit:
        """The table's row for a mode."""
        batches: dict[int, int] = {}
        guess = 2
        for imgsz in SIZES:
            batches[imgsz] = self.largest_batch(ckpt, imgsz, guess) if guess else 0
            guess = _scaled(batches[imgsz], imgsz)
        low = max((s for s in SIZES if batches[s]), default=0)
        high = min((s for s in SIZES if not batches[s]), default=0)
        return Fit(ckpt=ckpt, batches=batches, largest_imgsz=self.largest_imgsz(ckpt, low, high))


def _scaled(batch: int, imgsz: int) -> int:
    """The batch at the next size that has as many pixels; 0 once no image fits."""
    larger = [s for s in SIZES if s > imgsz]
    return max(batch * imgsz**2 // larger[0] ** 2, 1) if batch and larger else 0
