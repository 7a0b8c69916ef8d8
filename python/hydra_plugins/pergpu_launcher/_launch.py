"""Turns Hydra's jobs into calls of a pergpu.Executor, and their results into Hydra's.

A call composes its own configuration, as with all launchers, because the job's id is known only there.  Its
exceptions leave it, so that the job of pergpu fails and may be retried.  Hydra's result of such a job is built
here, also for a job that was killed.
"""

from __future__ import annotations

import concurrent.futures
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides, run_job, setup_globals
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

import pergpu

log = logging.getLogger(__name__)


class Sweep:
    """All batches of a multirun."""

    def __init__(
        self, options: Mapping[str, Any], context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self._context = context
        self._task_function = task_function
        self._config = config
        setup_globals()
        configure_log(config.hydra.hydra_logging, config.hydra.verbose)
        Path(str(config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)  # from here on `now` stays what it is
        given = {name: _plain(value) for name, value in options.items() if value is not None}
        keys = given.pop("keys", {})
        self._pool = pergpu.Executor(**{**keys, **given})

    def launch(self, job_overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
        pool = self._pool
        log.info(f"Launching {len(job_overrides)} jobs with pergpu; to watch them: pergpu top {pool.name}")
        state = Singleton.get_state()
        futures = []
        try:
            for i, overrides in enumerate(job_overrides, first):
                log.info(f"\t#{i} : {' '.join(filter_overrides(overrides))}")
                call = Call(self._context, self._config, self._task_function, state)
                futures.append(pool.submit(call, i, *overrides))
            concurrent.futures.wait(futures)
        except BaseException:  # Ctrl-C: nobody would wait for them any more
            pool.terminate_workers()
            raise
        returned = [
            self._returned(future, i, overrides) for i, (future, overrides) in enumerate(zip(futures, job_overrides), first)
        ]
        configure_log(self._config.hydra.hydra_logging, self._config.hydra.verbose)
        return returned

    def _returned(self, future: pergpu.Future, i: int, overrides: Sequence[str]) -> JobReturn:
        try:
            error = future.exception()
        except concurrent.futures.CancelledError as cancelled:
            error = cancelled
        if error is None:
            return future.result()
        outcome = future.outcome
        log.warning(f"\t#{i} has failed; its log: {outcome['log'] if outcome else 'none, it did not start'}")
        config = _compose(self._context, self._config, overrides, i, str(outcome["id"]) if outcome else "")
        hydra_config = OmegaConf.masked_copy(config, "hydra")
        with open_dict(config):
            del config["hydra"]
        told = JobReturn(
            overrides=[*hydra_config.hydra.overrides.task],
            cfg=config,
            hydra_cfg=hydra_config,
            working_dir=os.getcwd(),
            task_name=hydra_config.hydra.job.name,
            status=JobStatus.FAILED,
        )
        told.return_value = error if isinstance(error, Exception) else RuntimeError(f"job #{i}: {error!r}")
        return told


class Call:
    """Runs in a job; `func` names the function that is shown."""

    def __init__(self, context: HydraContext, config: DictConfig, task_function: TaskFunction, state: Any) -> None:
        self.func = task_function
        self._given = (context, config, state)

    def __call__(self, i: int, /, *overrides: str) -> JobReturn:
        context, config, state = self._given
        setup_globals()
        Singleton.set_state(state)
        sweep_config = _compose(context, config, overrides, i, os.environ["PERGPU_JOB"])
        HydraConfig.instance().set_config(sweep_config)
        returned = run_job(
            hydra_context=context,
            task_function=self.func,
            config=sweep_config,
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )
        if returned.status == JobStatus.FAILED:
            returned.return_value  # noqa: B018 (it raises what the function has raised)
        return returned


def _compose(
    context: HydraContext, config: DictConfig, overrides: Sequence[str], i: int, job_id: str
) -> DictConfig:
    composed = context.config_loader.load_sweep_config(config, list(overrides))
    with open_dict(composed):
        composed.hydra.job.id = job_id
        composed.hydra.job.num = i
    return composed


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
