"""What the jobs of an experiment do, and what has to become of them.

Each job takes a lock of its own when it starts, and of its GPU where it has one; whatever it forks
inherits them.  So a second process tree of a job, or of a GPU, finds the lock taken and says so,
whatever was killed meanwhile.  Some jobs ignore SIGTERM, some leave a child behind, in their
session or out of it, some work for more than a second.

Stamps are lines "WHAT JOB ATTEMPT PID GPUS STEP INDEX CODE":
  start, end     the last thing that it says is the exit code that follows
  beside         another tree of the same job was there
  crowded        another tree on the same GPU was there
  unleased       the lease of its GPU could be taken while it worked
"""
import collections

# $1 step, $2 index, $3 seconds, $4 code ("once": 1 the first time, then 0), $5 manners
WORK = """#!/bin/sh
gpu=${CUDA_VISIBLE_DEVICES:--}
say() { echo "$1 $PERGPU_JOB $PERGPU_ATTEMPT $$ $gpu $step $index $code" >>"$STAMPS"; }
step=$1 index=$2 code=$4
exec 8>>"$STAMPS.job.$PERGPU_JOB" 9>>"$STAMPS.gpu.$gpu"
flock -n 8 || say beside
if [ "$gpu" != - ]; then
  flock -n 9 || say crowded
  ! flock -n "$LEASES/$gpu" true || say unleased
fi
case $5 in *t*) trap '' TERM ;; esac
say start
case $5 in
  *c*) sleep "$(($3 + 2000))e-3" & ;;
  *s*) setsid sleep "$(($3 + 2000))e-3" & ;;
esac
[ "$3" = 0 ] || sleep "$3e-3"
if [ "$code" = once ]; then
  code=0
  [ -e "$STAMPS.failed.$PERGPU_JOB" ] || { code=1; : >"$STAMPS.failed.$PERGPU_JOB"; }
fi
echo "$code" >"$PERGPU_OUT/result"
say end
exit "$code"
"""

SECONDS = {0: 3, 20: 3, 50: 3, 200: 3, 500: 2, 1200: 2}  # milliseconds, and how often
MANNERS = {"-": 6, "t": 1, "c": 1, "s": 1, "ts": 1}  # t: ignores TERM, c: a child, s: in a new session
RETRIES = 1

Stamp = collections.namedtuple("Stamp", "what job attempt pid gpus step index code")
Row = collections.namedtuple("Row", "ms code manner")
# What has to become of a job; `starts` where no keeper dies.
Expected = collections.namedtuple("Expected", "state exit starts")


def stamps(text):
    """Of whole lines: one that crosses a page may be seen when only its begin is there."""
    whole = text[: text.rfind("\n") + 1]
    return [
        Stamp(what, int(job), int(attempt), *rest)
        for what, job, attempt, *rest in map(str.split, whole.splitlines())
    ]


def weighted(chance, weights):
    return chance.choices(list(weights), weights=list(weights.values()))[0]


class Work:
    """Rows of a sweep, each a run of step `train`, and of `evaluate` where `follow_up`; before all of
    them comes the once-step `prepare` where `once`."""

    def __init__(self, rows, follow_up, once, gpus):
        self.rows, self.follow_up, self.once, self.gpus = rows, follow_up, once, gpus

    @classmethod
    def by_chance(cls, chance, gpus):
        codes = ["0", "1", "2", "0", "once", "0"]
        rows = [
            Row(weighted(chance, SECONDS), codes[i % 6], weighted(chance, MANNERS))
            for i in range(chance.randint(8, 20))
        ]
        return cls(rows, chance.random() < 0.5, chance.random() < 0.3, gpus)

    @classmethod
    def short(cls, gpus):
        """The same each time: for kills at each system call."""
        return cls([Row(0, code, "-") for code in ("0", "once", "2")], True, False, gpus)

    @classmethod
    def lasting(cls):
        """The same each time, and three of them run for a while."""
        rows = [Row(400, "0", "s"), Row(300, "once", "t"), Row(350, "2", "c"), Row(0, "0", "-")]
        return cls(rows, True, False, False)

    def sweep(self):
        def step(name, index, ms, code, manner, extra=""):
            command = f'["work", "{name}", "{index}", "{ms}", "{code}", "{manner}"]'
            # No breaker: that the slow ones succeed after three have failed is no fault.
            keys = 'breaker = 0\ngrace = "200ms"\noutputs = ["{out}/result"]\n'
            return f"[steps.{name}]\ncommand = {command}\n{keys}{extra}"

        gpu = "gpus = 1\n" if self.gpus else ""
        retries = f'retries = {{ max = {RETRIES}, on = ["exit"], delay = "50ms" }}\n'
        text = 'name = "sweep"\n'
        for i, row in enumerate(self.rows):
            text += f'[[runs]]\ni = {i}\nms = {row.ms}\ncode = "{row.code}"\nmanner = "{row.manner}"\n'
        if self.once:
            text += step("prepare", "-", 20, 0, "s", "once = true\n")
        needs = 'needs = ["prepare"]\n' if self.once else ""
        text += step("train", "{i}", "{ms}", "{code}", "{manner}", gpu + retries + needs)
        if self.follow_up:
            text += step("evaluate", "{i}", 20, 0, "{manner}", 'needs = ["train"]\n')
        return text

    def expected(self):
        """{(step, index): Expected}"""
        jobs = {}
        if self.once:
            jobs["prepare", "-"] = Expected("done", 0, 1)
        for i, row in enumerate(self.rows):
            good = row.code in ("0", "once")
            starts = 1 + RETRIES if row.code in ("1", "once") else 1
            code = 0 if good else int(row.code)
            jobs["train", str(i)] = Expected("done" if good else "failed", code, starts)
            if self.follow_up:
                ran = Expected("done", 0, 1) if good else Expected("skipped", None, 0)
                jobs["evaluate", str(i)] = ran
        return jobs

    def needs_of(self, step, index):
        """What must have ended well before."""
        if step == "evaluate":
            return [("train", index)]
        return [("prepare", "-")] if step == "train" and self.once else []

    def unfinished(self, lines):
        """Jobs that have certainly not come to their last end, by what they said themselves."""
        ends = collections.Counter((s.step, s.index, s.code) for s in lines if s.what == "end")
        return [
            (step, index)
            for (step, index), what in self.expected().items()
            if what.exit is not None
            and ends[step, index, str(what.exit)] < (1 + RETRIES if what.exit == 1 else 1)
        ]
