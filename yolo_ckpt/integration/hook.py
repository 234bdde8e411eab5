"""What `yolo-ckpt enable` puts into an environment, so that the plain `yolo` command knows our flags.

A start-up file (.pth) makes Python run a few lines, which wait for `ultralytics.cfg` to be imported and do nothing
else. When that happens, the host's `entrypoint` is wrapped: it takes our flags out of its arguments and calls the
original. The environment variable YOLO_CKPT can hold flags for every training of a process. Without this package
(uninstalled, but not disabled) the host stays as it is.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import sysconfig
import timeit
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from yolo_ckpt.errors import RequestError, YoloCkptError
from yolo_ckpt.integration.children import VARIABLE, flags_of_environment
from yolo_ckpt.reporting import write_whole
from yolo_ckpt.settings import Settings

FILE = "yolo_ckpt_startup.pth"
WATCHER = """\
import sys
class Watcher:
 def find_spec(self, name, path=None, target=None):
  if name == "ultralytics.cfg":
   import sys
   from importlib.util import find_spec
   sys.meta_path.remove(self)
   if find_spec("yolo_ckpt"):
    from yolo_ckpt.integration.hook import wrapping_spec
    return wrapping_spec(name)
sys.meta_path.insert(0, Watcher())
"""
# Python runs the lines of a .pth file that begin with `import`. All is in one line, since importing a module this early
# costs two milliseconds for listing the folders of the standard library.
STARTUP = f"import sys; exec({WATCHER!r})\n"


def folder() -> Path:
    """Where this environment's packages are."""
    return Path(sysconfig.get_paths()["purelib"])


def file() -> Path:
    """The start-up file."""
    return folder() / FILE


def enable() -> bool:
    """Write the start-up file; False when it was there already.

    Raises:
        YoloCkptError: The folder cannot be written.
    """
    if is_enabled():
        return False
    try:
        write_whole(file(), STARTUP)
    except OSError as error:
        raise _refused(error) from error
    return True


def disable() -> bool:
    """Remove the start-up file; False when there was none.

    Raises:
        YoloCkptError: It cannot be removed.
    """
    found = file().exists()
    try:
        file().unlink(missing_ok=True)
    except OSError as error:
        raise _refused(error) from error
    return found


def is_enabled() -> bool:
    """True when the file is there and is what this version writes."""
    return file().is_file() and file().read_text(encoding="utf-8") == STARTUP


def startup_us() -> float:
    """Microseconds that the line takes, compiling included: the best of several runs."""
    before = list(sys.meta_path)
    try:
        return min(timeit.repeat(lambda: exec(STARTUP, {}), number=1, repeat=50)) * 1e6
    finally:
        sys.meta_path[:] = before


def _refused(error: OSError) -> YoloCkptError:
    return YoloCkptError(f"{folder()} cannot be changed ({error}); use an environment that you own")


def _register_from_environment() -> None:
    """Processes that the host starts by itself (tuning) get no flags on their command line."""
    if os.environ.get(VARIABLE):
        from yolo_ckpt.integration import register_default

        register_default(Settings.from_mapping(flags_of_environment()))


def wrapping_spec(name: str) -> ModuleSpec | None:
    """How to import the module `name` of the host so that it is wrapped once it is there."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return spec
    execute = spec.loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        wrap(module)

    spec.loader.exec_module = exec_module  # type: ignore[method-assign]
    return spec


def wrap(cfg: Any) -> None:
    """Make the host's `entrypoint` take our flags, and take those in the environment for every training here."""
    original = cfg.entrypoint
    if hasattr(original, "__wrapped__"):
        return  # virtual environments run a start-up file twice
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
