"""Memory of known GPUs, for planning without one."""

from __future__ import annotations

from yolo_ckpt.errors import SettingsError
from yolo_ckpt.units import parse_bytes

CONTEXT_MIB = 600  # CUDA's context and libraries, which no tensor can have

# Total MiB as nvidia-smi reports it.
TOTAL_MIB = {
    "rtx2080ti": 11264, "rtx3060": 12288, "rtx3070": 8192, "rtx3080": 10240, "rtx3090": 24576, "rtx4060": 8188,
    "rtx4060ti-16": 16380, "rtx4070": 12282, "rtx4080": 16376, "rtx4090": 24564, "rtx5080": 16303, "rtx5090": 32607,
    "a4000": 16376, "a5000": 24564, "a6000": 49140, "t4": 15360, "v100-16": 16384, "v100-32": 32768, "a10": 23028,
    "l4": 23034, "l40s": 46068, "a100-40": 40960, "a100-80": 81920, "h100": 81559, "h200": 143771,
    # By the names of managed cloud training.
    "rtx-2000-ada": 16380, "rtx-a4500": 20470, "rtx-a5000": 24564, "rtx-4000-ada": 20475, "a40": 46068,
    "rtx-3090": 24576, "rtx-a6000": 49140, "rtx-pro-4000": 24467, "rtx-pro-4500": 32623, "rtx-4090": 24564,
    "rtx-6000-ada": 49140, "rtx-pro-5000": 48935, "rtx-5090": 32607, "l40": 46068, "a100-80gb-pcie": 81920,
    "a100-80gb-sxm": 81920, "rtx-pro-6000": 97887, "h100-pcie": 81559, "h100-nvl": 95830, "h100-sxm": 81559,
    "h200-nvl": 143771, "h200-sxm": 143771, "b200": 183359, "b300": 275040,
}  # fmt: skip


def usable_bytes(name: str) -> int:
    """Bytes that tensors can have on the GPU `name`, or the size that `name` says (`22GiB`).

    Raises:
        SettingsError: It is neither.
    """
    key = name.lower().replace("_", "-").replace(" ", "")
    if key in TOTAL_MIB:
        return (TOTAL_MIB[key] - CONTEXT_MIB) << 20
    if key[:1].isdigit():
        return parse_bytes(name, "gpu")
    raise SettingsError(
        f"gpu={name} is not known; give its memory, such as gpu=22GiB, or one of {', '.join(TOTAL_MIB)}"
    )
