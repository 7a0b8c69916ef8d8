"""The options below `hydra.launcher`.

OmegaConf reads the annotations, and Hydra runs this module before it has a name in sys.modules.  So
they must not be strings, which `from __future__ import annotations` would make them.
"""

from dataclasses import dataclass, field
from typing import Any, Dict, Optional

from hydra.core.config_store import ConfigStore


@dataclass
class PergpuLauncherConf:
    """The arguments of pergpu.Executor."""

    _target_: str = "hydra_plugins.pergpu_launcher.launcher.PergpuLauncher"
    gpus: Any = 1
    cpus: Optional[int] = None
    memory: Optional[str] = None
    gpu_memory: Optional[str] = None
    timeout: Optional[str] = None
    retries: Any = None
    max_workers: Optional[int] = None
    lanes: Optional[int] = None
    name: Optional[str] = None
    out: str = "${hydra.sweep.dir}/.pergpu"
    keys: Dict[str, Any] = field(default_factory=dict)  # others of a step: docs/sweep-file.md


ConfigStore.instance().store(
    group="hydra/launcher", name="pergpu", node=PergpuLauncherConf, provider="pergpu_launcher"
)
