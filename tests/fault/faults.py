"""Fault injection with real processes: thousands of experiments, one table.

    faults.py [--kills N] [--seed S] [--at-once N] [--build DIR] [--keep DIR]    exit status 1: something broke
    faults.py --one KIND SEED                                       once again, told as JSON

Kinds are the methods of experiment.Experiment.  For those of a system call the seed is the number
of the call: they are enumerated, first call to last, before the rest of the kills fall at random.
"""
import argparse
import concurrent.futures
import json
import os
import platform
import subprocess
import sys
import time
from collections import defaultdict

HERE = os.path.abspath(__file__)
# How often each kind comes among the random ones.
RANDOM = {
    "coordinator": 6,
    "coordinator_with_gpus": 2,
    "keepers": 4,
    "keepers_with_gpus": 2,
    "both": 3,
    "probe": 1,
    "client": 2,
    "disk": 2,
}
CALLS = ("coordinator_call", "keeper_call", "recovery_call", "coordinator_call_with_gpus")
MOST_FAILURES = 100
COUNTS = ("kills", "idle", "jobs")
BROKEN = ("lost", "twice", "wrong", "orphans", "leases", "stuck")


def one(kind, seed):
    """In a process of its own: an experiment reaps all that it leaves."""
    command = [sys.executable, HERE, "--one", kind, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        told = dict.fromkeys((*COUNTS, *BROKEN), 0)
        return {"kind": kind, "seed": seed, "error": done.stdout + done.stderr, **told}


class Campaign:
    def __init__(self, kills, seed, at_once):
        self.kills, self.seed = kills, seed
        self.pool = concurrent.futures.ThreadPoolExecutor(at_once)
        self.rows = defaultdict(lambda: defaultdict(int))
        self.killed = 0
        self.failures = []

    def take(self, result):
        row = self.rows[result["kind"]]
        row["experiments"] += 1
        self.killed += result["kills"]
        for name in (*COUNTS, *BROKEN):
            row[name] += result[name]
        if any(result[name] for name in BROKEN):
            self.fail("BROKEN", result, result["notes"])
        elif "error" in result:
            self.fail("NO RESULT", result, result["error"])

    def fail(self, how, result, why):
        self.failures.append(result)
        print(f"\n{how} {result['kind']} {result['seed']}: {why}\n"
              f"again: {HERE} --one {result['kind']} {result['seed']}", flush=True)  # fmt: skip

    def enumerate(self):
        """Every call of a coordinator and of keepers, from their start to the end of the sweep; where
        the kills are few, each n-th of them."""
        points = {}
        for result in self.pool.map(one, CALLS, [0] * len(CALLS)):  # none is killed before call 0
            self.take(result)
            said = result.get("said", "").split()
            points[result["kind"]] = int(said[2]) if said[:2] == ["ended", "after"] else 0
            if not points[result["kind"]]:
                self.fail("NO RESULT", result, "no system call was counted")
        stride = max(1, -(-sum(points.values()) // max(1, self.kills // 3)))
        for kind, calls in points.items():
            numbers = range(1 + self.seed % stride, calls + 1, stride)
            for result in self.pool.map(one, [kind] * len(numbers), numbers):
                self.take(result)
        print(f"system calls: {points}, each {stride}. of them", flush=True)

    def throw(self):
        """Kills at random instants until there were enough; a pergpu that breaks each time is not asked
        for ever."""
        kinds = [kind for kind, weight in RANDOM.items() for _ in range(weight)]
        running, number = set(), self.seed * 1_000_000
        wanted = lambda: self.killed < self.kills and len(self.failures) < MOST_FAILURES  # noqa: E731
        while wanted() or running:
            while wanted() and len(running) < self.pool._max_workers:
                running.add(self.pool.submit(one, kinds[number % len(kinds)], number))
                number += 1
            ready, running = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for future in ready:
                self.take(future.result())

    def table(self):
        columns = ("experiments", *COUNTS, *BROKEN)
        lines = [f"{'':28}" + "".join(f"{name:>12}" for name in columns)]
        total = defaultdict(int)
        for kind, row in self.rows.items():
            lines.append(f"{kind:28}" + "".join(f"{row[name]:12}" for name in columns))
            for name in columns:
                total[name] += row[name]
        lines.append(f"{'all':28}" + "".join(f"{total[name]:12}" for name in columns))
        return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--build", help="folder of the programs (build/dev)")
    parser.add_argument("--keep", help="folder for the homes of experiments that broke something "
                                       "(BUILD/broken)")  # fmt: skip
    parser.add_argument("--one", nargs=2, metavar=("KIND", "SEED"))
    args = parser.parse_args()
    build = os.path.abspath(args.build or "build/dev")
    programs = {
        "PERGPU_BIN": build + "/pergpu",
        "FAKE_NVML": build + "/fake_nvml/libnvidia-ml.so.1",
        "KILL_AT": build + "/tests/fault/kill_at",
        "FAULTY_DISK": build + "/tests/fault/libfaulty_disk.so",
    }
    for name, path in programs.items():
        if args.build or name not in os.environ:
            os.environ[name] = path
        if not os.path.exists(os.environ[name]):
            parser.error(f"there is no {os.environ[name]}: build it first")
    if args.keep or args.build or "KEEP_BROKEN" not in os.environ:
        os.environ["KEEP_BROKEN"] = os.path.abspath(args.keep or build + "/broken")
    if args.one:
        from experiment import Experiment

        print(json.dumps(Experiment(args.one[0], int(args.one[1])).run()))
        return 0
    begun = time.monotonic()
    campaign = Campaign(args.kills, args.seed, args.at_once)
    campaign.enumerate()
    campaign.throw()
    print(campaign.table())
    print(f"seed {args.seed}, {platform.system()} {platform.release()}, "
          f"{time.strftime('%Y-%m-%d', time.gmtime())}, {time.monotonic() - begun:.0f} s")  # fmt: skip
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
