"""The files of `deploy/`. Its scripts lie in no package, since the image has them beside the installed one."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def _script(name: str) -> ModuleType:
    spec = spec_from_file_location(f"deploy_{name}", Path(__file__).parents[2] / "deploy" / f"{name}.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


healthy = _script("healthy")
snapshots = _script("snapshots")
