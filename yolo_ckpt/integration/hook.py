"""What `yolo-ckpt enable` puts into an environment, so that the plain `yolo` command knows our flags.

A start-up file (.pth) makes Python import one small module, which waits for `ultralytics.cfg` to be imported and does
nothing else. When that happens, the host's `entrypoint` is wrapped: it takes our flags out of its arguments and calls
the original. The environment variable YOLO_CKPT can hold flags for every training of a process. Without this package
(uninstalled, but not disabled) the host stays as it is.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import sysconfig
import timeit
from pathlib import Path
from typing import Any

from yolo_ckpt.errors import RequestError, SettingsError, YoloCkptError
from yolo_ckpt.settings import Settings, split_flags

VARIABLE = "YOLO_CKPT"  # flags for every training of a process, where the hook is enabled
MODULE = "_yolo_ckpt_startup"
WATCHER = '''\
"""Written by `yolo-ckpt enable`, removed by `yolo-ckpt disable`: lets the `yolo` command take ckpt= flags."""

import sys


class Watcher:
    """Does nothing until ultralytics.cfg is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "ultralytics.cfg":
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        if find_spec("yolo_ckpt") is None:
            return None
        spec = find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            from yolo_ckpt.integration.hook import wrap

            wrap(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Watcher())
'''


def folder() -> Path:
    """Where this environment's packages are."""
    return Path(sysconfig.get_paths()["purelib"])


def files() -> tuple[Path, Path]:
    """The module, and the start-up file that imports it."""
    return folder() / f"{MODULE}.py", folder() / f"{MODULE}.pth"


def enable() -> bool:
    """Write both files; False when they were there already.

    Raises:
        YoloCkptError: The folder cannot be written.
    """
    module, startup = files()
    if is_enabled():
        return False
    try:
        module.write_text(WATCHER, encoding="utf-8")
        startup.write_text(f"import {MODULE}\n", encoding="utf-8")  # last: it must not name a module that is missing
    except OSError as error:
        disable()
        raise _refused(error) from error
    return True


def disable() -> bool:
    """Remove everything that `enable` wrote or caused; False when there was nothing.

    Raises:
        YoloCkptError: A file cannot be removed.
    """
    module, startup = files()
    cached = Path(importlib.util.cache_from_source(str(module)))
    compiled = list(cached.parent.glob(f"{MODULE}.*.pyc"))
    found = [path for path in (startup, module, *compiled) if path.exists()]
    try:
        for path in found:
            path.unlink()
    except OSError as error:
        raise _refused(error) from error
    return bool(found)


def is_enabled() -> bool:
    """True when both files are there and are what this version writes."""
    module, startup = files()
    return startup.is_file() and module.is_file() and module.read_text(encoding="utf-8") == WATCHER


def import_cost_us() -> float:
    """Microseconds that the start-up module takes from its compiled form: the best of several runs of its code."""
    code = compile(WATCHER, MODULE, "exec")
    before = list(sys.meta_path)
    try:
        return min(timeit.repeat(lambda: exec(code, {"__name__": MODULE}), number=1, repeat=50)) * 1e6
    finally:
        sys.meta_path[:] = before


def _refused(error: OSError) -> YoloCkptError:
    return YoloCkptError(f"{folder()} cannot be changed ({error}); use an environment that you own")


def _register_from_environment() -> None:
    """Processes that the host starts by itself (tuning) get no flags on their command line."""
    flags = os.environ.get(VARIABLE, "").split()
    if flags:
        from yolo_ckpt.integration import register_default

        ours, rest = split_flags(flags)
        if rest:
            raise SettingsError(f"{rest[0]} is not a flag; write for example {VARIABLE}='ckpt=full ckpt_stages=0-8'")
        register_default(Settings.from_mapping(ours))


def wrap(cfg: Any) -> None:
    """Make the host's `entrypoint` take our flags, and take those in the environment for every training here."""
    original = cfg.entrypoint
    try:
        _register_from_environment()
    except RequestError as error:
        raise SystemExit(f"{VARIABLE}: {error}") from None

    @functools.wraps(original)
    def entrypoint(debug: str = "") -> Any:
        from yolo_ckpt.integration import compat
        from yolo_ckpt.integration.shell import planned

        arguments = debug.split()[1:] if debug else compat.arguments()[1:]
        try:
            with planned(arguments, ckpt=None) as rest:
                return compat.call_entrypoint(original, rest)
        except RequestError as error:
            print(f"yolo: {error}", file=sys.stderr)
            raise SystemExit(2) from None

    cfg.entrypoint = entrypoint
