// Evidence to class and words.
#include "job/classify.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

#include "job/not_started.h"

namespace pergpu {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(Classify, ExitCodes) {
  EXPECT_EQ(classify({.exit_code = 0}).cls, OutcomeClass::Ok);
  const Outcome three = classify({.exit_code = 3});
  EXPECT_EQ(three.cls, OutcomeClass::Exit);
  EXPECT_EQ(three.reason, "exit code 3");
  EXPECT_EQ(three.exit_code, 3);
  EXPECT_EQ(classify({.exit_code = 2}).cls, OutcomeClass::UserError);
  EXPECT_EQ(classify({.exit_code = 75}).cls, OutcomeClass::Requeue);
}

TEST(Classify, SignalsAreNamed) {
  const Outcome killed = classify({.signal = SIGKILL});
  EXPECT_EQ(killed.cls, OutcomeClass::Signal);
  EXPECT_EQ(killed.reason, "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(killed.signal, SIGKILL);
  EXPECT_EQ(signal_name(999), "signal 999");
}

TEST(Classify, NoEvidenceIsNeverSuccess) {
  const Outcome outcome = classify({});
  EXPECT_EQ(outcome.cls, OutcomeClass::Unknown);
  EXPECT_FALSE(outcome.reason.empty());
}

TEST(Classify, ARootThatWasReplacedChargesNothingAndIsNamed) {
  const Outcome outcome = classify(
      {.spawn_failure = SpawnFailure{std::string(kRootReplacedPhase), ESTALE, "/data/out"}});
  EXPECT_TRUE(is_storage_failure(outcome));
  EXPECT_EQ(outcome.reason.find("could not start yet: /data/out isn't the folder that holds"), 0u)
      << outcome.reason;
}

TEST(Classify, MissingProgramIsAUserError) {
  const Outcome outcome = classify(
      {.spawn_failure = SpawnFailure{.phase = "exec", .os_errno = ENOENT, .object = "python9"}});
  EXPECT_EQ(outcome.cls, OutcomeClass::UserError);
  EXPECT_EQ(outcome.reason, "could not start: exec python9: No such file or directory");
}

TEST(Classify, WhatIsWrongWithAProgramIsSaidAsItIs) {
  const Outcome outcome = classify(
      {.spawn_failure = SpawnFailure{.phase = std::string(kProgramPhase),
                                     .os_errno = ENOENT,
                                     .object = "./x: no such interpreter \"/bin/bash\\r\""}});
  EXPECT_EQ(outcome.cls, OutcomeClass::UserError);
  EXPECT_EQ(outcome.reason, "could not start: ./x: no such interpreter \"/bin/bash\\r\"");
}

TEST(Classify, SpawnFailuresByErrno) {
  const auto cls = [](int code) {
    return classify(
               {.spawn_failure = SpawnFailure{.phase = "mkdir", .os_errno = code, .object = "/o"}})
        .cls;
  };
  for (int full : {ENOSPC, EDQUOT, EROFS}) EXPECT_EQ(cls(full), OutcomeClass::DiskFull);
  for (int machine : {EAGAIN, ENOMEM, EMFILE, ENFILE, EIO, ESTALE}) {
    EXPECT_EQ(cls(machine), OutcomeClass::Lost);
  }
  for (int user : {ENOENT, EACCES, ENOTDIR, ENOEXEC}) EXPECT_EQ(cls(user), OutcomeClass::UserError);
}

TEST(Classify, StartsThatAFailingDiskRefusesAreToldApart) {
  const auto outcome_of = [](const std::string& phase, int code) {
    return classify(
        {.spawn_failure = SpawnFailure{.phase = phase, .os_errno = code, .object = "/o/log.txt"}});
  };
  for (const int code : {ENOSPC, EDQUOT, EROFS, EIO, ESTALE, ENOTCONN, EUCLEAN, ETIMEDOUT}) {
    for (const std::string phase : {"mkdir", "open log", "write", "lock", "exec", "chdir"}) {
      EXPECT_TRUE(is_storage_failure(outcome_of(phase, code))) << phase << " " << code;
    }
  }
  for (const int code : {ENOENT, EACCES, EAGAIN, ENOMEM, EMFILE, ENAMETOOLONG}) {
    EXPECT_FALSE(is_storage_failure(outcome_of("open log", code))) << code;
  }
  EXPECT_EQ(outcome_of("open log", ENOSPC).reason,
            "could not start yet: open log /o/log.txt: No space left on device");
  // What ran and found the disk full ended by itself.
  EXPECT_FALSE(is_storage_failure(
      classify({.exit_code = 1, .log_tail = "OSError: [Errno 28] No space left on device\n"})));
}

TEST(Classify, MissingOutputIsNoSuccess) {
  const Outcome outcome = classify(
      {.exit_code = 0, .missing_output = "runs/a/train/model.pt", .missing_why = "does not exist"});
  EXPECT_EQ(outcome.cls, OutcomeClass::OutputMissing);
  EXPECT_EQ(outcome.reason, "output runs/a/train/model.pt does not exist");
}

TEST(Classify, ExitCodeSaysMoreThanAMissingOutput) {
  EXPECT_EQ(classify({.exit_code = 1, .missing_output = "x", .missing_why = "is empty"}).cls,
            OutcomeClass::Exit);
}

TEST(Classify, TimeoutInTheWordsOfWhoseTimeItWas) {
  for (const std::string words :
       {"stopped after its timeout of 12h", "stopped at the time limit of its allocation"}) {
    const Outcome outcome = classify({.signal = SIGTERM,
                                      .stop = StopCause::Timeout,
                                      .stop_reason = words,
                                      .timeout_ns = 12 * 3600 * kSecond});
    EXPECT_EQ(outcome.cls, OutcomeClass::Timeout);
    EXPECT_EQ(outcome.reason, words);
  }
}

TEST(Classify, MemoryInWords) {
  const std::uint64_t gib = std::uint64_t{1} << 30;
  const Outcome outcome = classify({.signal = SIGTERM,
                                    .stop = StopCause::Memory,
                                    .memory_bytes = 33 * gib + gib / 10,
                                    .memory_limit_bytes = 32 * gib});
  EXPECT_EQ(outcome.cls, OutcomeClass::OomHost);
  EXPECT_EQ(outcome.reason, "memory 33.1 GiB exceeded its limit of 32 GiB");
}

TEST(Classify, KillForWantOfMemoryNamesPeakAndLimit) {
  const std::uint64_t mib = std::uint64_t{1} << 20;
  Evidence evidence{.signal = SIGKILL,
                    .memory_limit_bytes = 100 * mib,
                    .oom_kills = 1,
                    .oom_at_limit = true,
                    .peak_memory_bytes = 99 * mib};
  Outcome outcome = classify(evidence);
  EXPECT_EQ(outcome.cls, OutcomeClass::OomHost);
  EXPECT_EQ(outcome.reason,
            "killed by the kernel: memory reached its limit of 100 MiB (peak 99 MiB)");
  // A worker was killed, its parent failed in words of its own.
  evidence.signal.reset();
  evidence.exit_code = 1;
  EXPECT_EQ(classify(evidence).cls, OutcomeClass::OomHost);
  // Not its own limit.
  evidence.oom_at_limit = false;
  outcome = classify(evidence);
  EXPECT_EQ(outcome.cls, OutcomeClass::OomHost);
  EXPECT_EQ(outcome.reason,
            "killed by the kernel: the machine ran out of memory (the job's peak: 99 MiB)");
  // It went on without the part that was killed, and succeeded.
  evidence.exit_code = 0;
  EXPECT_EQ(classify(evidence).cls, OutcomeClass::Ok);
  // A cancel outranks it.
  evidence.exit_code = 1;
  evidence.stop = StopCause::Cancel;
  EXPECT_EQ(classify(evidence).cls, OutcomeClass::Cancelled);
}

TEST(Classify, AStopOfOursIsNoSuccessEvenWithExitCodeZero) {
  const Outcome outcome =
      classify({.exit_code = 0, .stop = StopCause::Cancel, .stop_reason = "by you"});
  EXPECT_EQ(outcome.cls, OutcomeClass::Cancelled);
  EXPECT_EQ(outcome.reason, "by you");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(classify({.exit_code = 0, .stop = StopCause::Timeout}).cls, OutcomeClass::Timeout);
}

TEST(Classify, LostOnlyWhenTheTreeIsProvenGone) {
  EXPECT_EQ(classify({.lost = true, .lost_why = "its keeper was killed"}).cls, OutcomeClass::Lost);
  const Outcome stopped = classify({.lost = true,
                                    .lost_why = "its keeper was killed",
                                    .stop = StopCause::Timeout,
                                    .stop_reason = "stopped after its timeout of 3 s"});
  EXPECT_EQ(stopped.cls, OutcomeClass::Timeout);
  EXPECT_EQ(stopped.reason, "stopped after its timeout of 3 s; its keeper was killed");
  EXPECT_EQ(classify({.lost = true, .proven_gone = false}).cls, OutcomeClass::Unknown);
}

TEST(Classify, QuickTracebackIsAUserErrorAndQuoted) {
  const std::string tail =
      "Traceback (most recent call last):\n  File \"train.py\", line 1, in <module>\n"
      "ModuleNotFoundError: No module named '\x1b[31mtorchh'\n";
  const Outcome quick = classify({.exit_code = 1, .duration_ns = kSecond, .log_tail = tail});
  EXPECT_EQ(quick.cls, OutcomeClass::UserError);
  EXPECT_EQ(quick.reason, "exit code 1: ModuleNotFoundError: No module named 'torchh'");
  const Outcome late = classify({.exit_code = 1, .duration_ns = 3600 * kSecond, .log_tail = tail});
  EXPECT_EQ(late.cls, OutcomeClass::Exit);
  EXPECT_EQ(late.reason, quick.reason);
}

TEST(Classify, TracebackOfAnotherKindMayPassWithARetry) {
  const std::string tail =
      "Traceback (most recent call last):\n  File \"train.py\", line 1\n"
      "ConnectionError: reset by peer\n";
  EXPECT_EQ(classify({.exit_code = 1, .duration_ns = kSecond, .log_tail = tail}).cls,
            OutcomeClass::Exit);
}

TEST(Classify, TheReasonOfAnyExceptionIsShown) {
  const auto log = [](const std::string& line) {
    return "Traceback (most recent call last):\n  File \"train.py\", line 1, in <module>\n" + line;
  };
  for (const std::string line : {"ValueError: diverged", "IndexError: list index out of range",
                                 "__main__.Diverged: loss 1e30", "AssertionError"}) {
    for (const std::int64_t ns : {kSecond, 3600 * kSecond}) {
      const Outcome o = classify({.exit_code = 1, .duration_ns = ns, .log_tail = log(line + "\n")});
      EXPECT_EQ(o.cls, OutcomeClass::Exit);
      EXPECT_EQ(o.reason, "exit code 1: " + line);
    }
  }
  const Outcome killed = classify({.signal = SIGKILL, .log_tail = log("KeyError: 'x'\n")});
  EXPECT_EQ(killed.cls, OutcomeClass::Signal) << "what others send is no mistake";
}

TEST(Classify, AnOutageIsNoErrorOfTheUserWhateverItsExitCode) {
  const std::string log =
      "fatal: unable to access 'https://hub.invalid/': Could not resolve host\n";
  for (const int code : {1, 2, 126, 127, 128}) {
    EXPECT_EQ(classify({.exit_code = code, .duration_ns = kSecond, .log_tail = log}).cls,
              OutcomeClass::Exit)
        << code;
  }
  EXPECT_EQ(classify({.signal = SIGKILL, .log_tail = log}).cls, OutcomeClass::Signal);
}

TEST(Classify, WhatAShellCouldNotExecuteIsAUserErrorHoweverLate) {
  const auto judged = [](int code, std::string log, std::int64_t ns = kSecond) {
    return classify({.exit_code = code, .duration_ns = ns, .log_tail = std::move(log)});
  };
  const Outcome late =
      judged(127, "epoch 9\ntrain.sh: line 9: pyhton: command not found\n", 3600 * kSecond);
  EXPECT_EQ(late.cls, OutcomeClass::UserError);
  EXPECT_EQ(late.reason, "exit code 127: train.sh: line 9: pyhton: command not found");
  EXPECT_EQ(judged(126, "sh: 1: ./run.sh: Permission denied\n").cls, OutcomeClass::UserError);
  EXPECT_EQ(judged(127, "").cls, OutcomeClass::UserError);
  EXPECT_EQ(judged(126, "\n").cls, OutcomeClass::UserError);
  // Another code, or other last words: the program goes on, or means something else by it.
  EXPECT_EQ(judged(1, "sh: 1: nvidia-smi: not found\n").cls, OutcomeClass::Exit);
  EXPECT_EQ(judged(127, "the solver has diverged\n").cls, OutcomeClass::Exit);
  EXPECT_EQ(judged(127, "CUDA out of memory\n").cls, OutcomeClass::OomGpu);
  EXPECT_EQ(judged(127, "sh: 1: nvidia-smi: not found\nepoch 1\nno progress\n").cls,
            OutcomeClass::Exit);
  EXPECT_EQ(
      judged(127, "Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: x\n")
          .cls,
      OutcomeClass::Exit);
}

TEST(Classify, UsageOfResourcesIsKept) {
  const Outcome outcome = classify({.exit_code = 0, .peak_memory_bytes = 5, .cpu_ns = 6});
  EXPECT_EQ(outcome.peak_memory_bytes, 5u);
  EXPECT_EQ(outcome.cpu_ns, 6);
}

TEST(Classify, WhatBrokeOnItsGpuComesBeforeWhatItPrinted) {
  const Outcome o = classify({.exit_code = 1,
                              .duration_ns = 1'000'000'000,
                              .gpu_fault = "gpu0 reported Xid 79",
                              .driver_fault = "an old driver",
                              .log_tail = "Traceback (most recent call last):\nKeyError: 'x'\n"});
  EXPECT_EQ(o.cls, OutcomeClass::Hardware);
  EXPECT_EQ(o.reason, "exit code 1; gpu0 reported Xid 79");
  EXPECT_EQ(classify({.signal = 6, .gpu_fault = "broke"}).reason, "killed by SIGABRT; broke");
  EXPECT_EQ(classify({.exit_code = 1, .driver_fault = "an old driver"}).cls, OutcomeClass::Driver);
}

TEST(Classify, AGpusFaultChangesNoSuccessNoStopAndNoWishToBeMoved) {
  EXPECT_EQ(classify({.exit_code = 0, .gpu_fault = "broke", .gpu_notes = "x"}).reason, "");
  EXPECT_EQ(classify({.exit_code = 75, .gpu_fault = "broke"}).cls, OutcomeClass::Requeue);
  for (const StopCause stop : {StopCause::Stall, StopCause::Idle, StopCause::Timeout}) {
    for (const int code : {0, 1}) {
      const Outcome hung = classify(
          {.exit_code = code, .stop = stop, .stop_reason = "was ended", .gpu_fault = "broke"});
      EXPECT_EQ(hung.cls, OutcomeClass::Hardware) << "a watchdog ended what the GPU made hang";
      EXPECT_EQ(hung.reason, "was ended; broke");
    }
  }
  EXPECT_EQ(classify({.exit_code = 1, .stop = StopCause::Memory, .gpu_fault = "broke"}).cls,
            OutcomeClass::OomHost);
  EXPECT_EQ(classify({.exit_code = 1, .stop = StopCause::Cancel, .gpu_fault = "broke"}).cls,
            OutcomeClass::Cancelled);
}

TEST(Classify, WhatIsNobodysFaultIsNamedBesideTheRest) {
  const Outcome o = classify({.exit_code = 1, .gpu_notes = "gpu0 reported Xid 31"});
  EXPECT_EQ(o.cls, OutcomeClass::Exit);
  EXPECT_EQ(o.reason, "exit code 1; gpu0 reported Xid 31");
}

TEST(Classify, DeathByTheSignalAheadIsATimeout) {
  const Evidence evidence{.signal = SIGUSR1, .timeout_ns = 3600 * kSecond, .early_signal = SIGUSR1};
  EXPECT_EQ(classify(evidence).cls, OutcomeClass::Timeout);
  EXPECT_EQ(classify(evidence).reason,
            "ended by its pre-stop signal SIGUSR1, sent before its timeout of 1h");
  EXPECT_EQ(classify({.signal = SIGUSR2, .early_signal = SIGUSR1}).cls, OutcomeClass::Signal);
  EXPECT_EQ(classify({.exit_code = 75, .early_signal = SIGUSR1}).cls, OutcomeClass::Requeue);
}

TEST(Classify, WithMpsABrokenContextMayBeAnothersFault) {
  Evidence e{.exit_code = 1,
             .shares_mps = true,
             .log_tail = "step 1\nRuntimeError: CUDA error: an illegal memory access\n"};
  const Outcome outcome = classify(e);
  EXPECT_EQ(outcome.cls, OutcomeClass::Neighbour);
  EXPECT_EQ(
      outcome.reason,
      "exit code 1: RuntimeError: CUDA error: an illegal memory access (with MPS, another job "
      "on its GPU may have caused it)");
  e.log_tail =
      "Traceback (most recent call last):\n  File \"a.py\", line 3\n" + e.log_tail.substr(7);
  EXPECT_EQ(classify(e).cls, OutcomeClass::Neighbour);
  e.exit_code = std::nullopt;
  e.signal = SIGABRT;  // as programs in C++ end by an error of CUDA
  EXPECT_EQ(classify(e).cls, OutcomeClass::Neighbour);
  e.stop = StopCause::Cancel;
  EXPECT_EQ(classify(e).cls, OutcomeClass::Cancelled);
}

TEST(Classify, WithMpsWhatIsKnownToBeItsOwnStaysItsOwn) {
  const auto cls = [](std::string log, bool shares_mps = true) {
    return classify({.exit_code = 1, .shares_mps = shares_mps, .log_tail = std::move(log)}).cls;
  };
  EXPECT_EQ(cls("CUDA error: an illegal memory access", false), OutcomeClass::Exit);
  EXPECT_EQ(cls("CUDA out of memory. Tried to allocate"), OutcomeClass::OomGpu);
  EXPECT_EQ(cls("CUDA error: invalid device ordinal"), OutcomeClass::UserError);
  EXPECT_EQ(cls("ValueError: no such thing"), OutcomeClass::Exit);
}

}  // namespace
}  // namespace pergpu
