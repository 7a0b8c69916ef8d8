#!/usr/bin/env python3
"""A search with Optuna: every trial is a job, several run at once, and unpromising ones are stopped.

    python3 optuna_search.py [--gpus 1] [--at-once 2] [--trials 12]

This process asks Optuna for parameters and reports the values (ask and tell), so no job imports Optuna and
no storage is shared.  The metrics of each step go to the pruner.  Runs on CPU lanes by default.  With
--gpus 1 every trial has its own GPU.  Needs Optuna 3 or later.
"""
import argparse
import concurrent.futures
import json

import optuna
import pergpu


def train(lr, momentum, steps=40):
    """Put your training here.  This one descends a valley; some parameters make it too slow, or diverge."""
    import time  # what a job needs it imports itself

    x, speed, loss = 5.0, 0.0, 0.0
    for step in range(steps):
        time.sleep(0.05)  # it takes some time, as training does
        speed = momentum * speed - lr * 2 * x
        x = max(-1e3, min(1e3, x + speed))
        loss = x * x
        pergpu.report(step=step, loss=loss)
    return loss


class Reported:
    """The values that a job reports, as they come."""

    def __init__(self, future):
        self.future = future
        self.position = 0

    def new(self):
        """The lines since the last call."""
        try:
            with open(self.future.outcome["metrics"], "rb") as file:
                file.seek(self.position)
                whole = file.read().rpartition(b"\n")[0]
        except (TypeError, FileNotFoundError):  # it has not started, or has nothing to tell
            return []
        self.position += len(whole) + 1 if whole else 0
        return [json.loads(line) for line in whole.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=0, choices=(0, 1), help="GPUs per trial")
    parser.add_argument("--at-once", type=int, default=2, help="trials that run at once")
    parser.add_argument("--trials", type=int, default=12, help="number of trials")
    chosen = parser.parse_args()

    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=1, constant_liar=True),  # it knows of trials that still run
        pruner=optuna.pruners.MedianPruner(n_startup_trials=2, n_warmup_steps=5),
    )
    running = {}
    with pergpu.Executor(chosen.at_once, gpus=chosen.gpus, timeout="1h") as pool:
        while running or len(study.trials) < chosen.trials:
            while len(running) < chosen.at_once and len(study.trials) < chosen.trials:
                trial = study.ask()
                lr = trial.suggest_float("lr", 1e-4, 1.0, log=True)
                momentum = trial.suggest_float("momentum", 0.0, 0.95)
                future = pool.submit(train, lr=lr, momentum=momentum)
                running[future] = trial, Reported(future)

            concurrent.futures.wait(running, timeout=0.2, return_when=concurrent.futures.FIRST_COMPLETED)
            for future, (trial, reported) in list(running.items()):
                ended = future.done()
                for line in reported.new():
                    trial.report(line["loss"], line["step"])
                if ended and future.exception() is not None:
                    print(f"trial {trial.number}: {future.exception()}")
                    study.tell(trial, state=optuna.trial.TrialState.FAIL)
                elif ended:
                    study.tell(trial, future.result())
                elif trial.should_prune():
                    study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                    future.kill()
                else:
                    continue
                del running[future]

    for trial in study.trials:
        print(f"trial {trial.number}: {trial.state.name.lower()} after {len(trial.intermediate_values)} steps, {trial.params}")
    print(f"best: trial {study.best_trial.number}, loss {study.best_value:.3g}")


if __name__ == "__main__":
    main()
