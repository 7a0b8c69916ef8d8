// What the end of a log says.
#include "job/failures.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "job/classify.h"

namespace pergpu {
namespace {

/// Of a program that ended with 1, within seconds or after an hour.
Outcome judged(std::string_view log, bool is_quick = true, std::span<const FailureRule> own = {}) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  return classify({.exit_code = 1,
                   .duration_ns = (is_quick ? 5 : 3600) * kSecond,
                   .log_tail = std::string(log),
                   .rules = own});
}

/// nullopt: its log says nothing.
std::optional<OutcomeClass> class_in(std::string_view log, bool is_quick = true,
                                     std::vector<FailureRule> own = {}) {
  const Outcome outcome = judged(log, is_quick, own);
  if (outcome.reason == "exit code 1") return std::nullopt;
  return outcome.cls;
}

TEST(EndOfAFailure, KnowsWhatFrameworksSay) {
  const std::vector<std::pair<std::string, OutcomeClass>> said = {
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
       OutcomeClass::OomGpu},
      {"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying",
       OutcomeClass::OomGpu},
      {"RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.",
       OutcomeClass::OomHost},
      {"terminate called after throwing an instance of 'std::bad_alloc'", OutcomeClass::OomHost},
      {"RuntimeError: CUDA error: uncorrectable ECC error encountered", OutcomeClass::Hardware},
      {"RuntimeError: CUDA driver version is insufficient for CUDA runtime version",
       OutcomeClass::Driver},
      {"OSError: [Errno 28] No space left on device", OutcomeClass::DiskFull},
  };
  for (const auto& [line, cls] : said) {
    EXPECT_EQ(class_in("epoch 1\n" + line + "\n"), cls) << line;
    EXPECT_EQ(class_in(line, false), cls) << line;  // after hours, too
  }
  EXPECT_EQ(class_in("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Terminated."),
            std::nullopt);
  EXPECT_EQ(class_in("loss 0.5\nloss 0.4\n"), std::nullopt);
  EXPECT_EQ(class_in(""), std::nullopt);
}

TEST(EndOfAFailure, AGpuByANumberThatTheJobDoesNotHaveIsAMistake) {
  const std::vector<std::string> said = {
      // PyTorch: a tensor or torch.cuda.set_device(), old and new; torch.load(); DataParallel.
      "RuntimeError: CUDA error: invalid device ordinal\n"
      "CUDA kernel errors might be asynchronously reported at some other API call, so the "
      "stacktrace "
      "below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1.",
      "torch.AcceleratorError: CUDA error: invalid device ordinal\n"
      "GPU device may be out of range, do you have enough GPUs?",
      "RuntimeError: cuda runtime error (101) : invalid device ordinal at "
      "torch/csrc/cuda/Module.cpp:59",
      "RuntimeError: Attempting to deserialize object on CUDA device 3 but "
      "torch.cuda.device_count() is "
      "1. Please use torch.load with map_location to map your storages to an existing device.",
      "AssertionError: Invalid device id",
      "[rank1]: AssertionError: Invalid device id",
      // Lightning.
      "lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu: [3]\n"
      " But your machine only has: [0]",
      // TensorFlow: tf.device(), eagerly and in a graph; tf.config.set_visible_devices().
      "RuntimeError: /job:localhost/replica:0/task:0/device:GPU:2 unknown device.",
      "tensorflow.python.framework.errors_impl.InvalidArgumentError: Could not satisfy device "
      "specification '/job:localhost/replica:0/task:0/device:GPU:2'. enable_soft_placement=0. "
      "Supported "
      "device types [GPU, CPU]. All available devices "
      "[/job:localhost/replica:0/task:0/device:CPU:0, "
      "/job:localhost/replica:0/task:0/device:GPU:0].",
      "tensorflow.python.framework.errors_impl.InvalidArgumentError: Cannot assign a device for "
      "operation MatMul: {{node MatMul}} was explicitly assigned to /device:GPU:3 but available "
      "devices "
      "are [ /job:localhost/replica:0/task:0/device:CPU:0, "
      "/job:localhost/replica:0/task:0/device:GPU:0 "
      "]. Make sure the device specification refers to a valid device.",
      "tensorflow.python.framework.errors_impl.InvalidArgumentError: 'visible_device_list' listed "
      "an "
      "invalid Device id '1' but visible device count is 1",
      // JAX, as Python 3.11 and as 3.9 show it.
      "    device = jax.devices()[3]\n             ~~~~~~~~~~~~~^^^\nIndexError: list index out of "
      "range",
      "    device = jax.devices()[3]\nIndexError: list index out of range",
      // CuPy, Numba.
      "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInvalidDevice: invalid device "
      "ordinal",
      "numba.cuda.cudadrv.driver.CudaAPIError: [101] Call to cuDeviceGet results in "
      "CUDA_ERROR_INVALID_DEVICE",
  };
  for (const std::string& words : said) {
    for (const bool is_quick : {true, false}) {
      const Outcome outcome = judged("epoch 1\n" + words + "\n", is_quick);
      EXPECT_EQ(outcome.cls, OutcomeClass::UserError) << words;
      EXPECT_NE(outcome.reason.find(kNotItsGpu), std::string::npos) << words << outcome.reason;
    }
  }
}

TEST(EndOfAFailure, WhoLacksTheFirstGpuOrAnotherListIsNotSaidToNameOne) {
  for (const char* words :
       {"RuntimeError: Attempting to deserialize object on CUDA device 0 but "
        "torch.cuda.device_count() is 0. Please use torch.load with map_location",
        "RuntimeError: /job:localhost/replica:0/task:0/device:GPU:0 unknown device.",
        "InvalidArgumentError: Cannot assign a device for operation a: node a was explicitly "
        "assigned "
        "to /device:GPU:0 but available devices are [ "
        "/job:localhost/replica:0/task:0/device:XLA_GPU:1 "
        "]. Make sure the device specification refers to a valid device.",
        "You requested gpu: [0]\n But your machine only has: []",
        "cudaErrorInvalidDeviceFunction: invalid device function",
        "    row = rows[3]\n          ~~~~^^^\nIndexError: list index out of range",
        "IndexError: list index out of range", "\nIndexError: list index out of range",
        "AssertionError: Invalid device ids"}) {
    EXPECT_EQ(class_in(words, false), std::nullopt) << words;
  }
  for (const char* words : {"RuntimeError: No CUDA GPUs are available",
                            "RuntimeError: CUDA error: no CUDA-capable device is detected"}) {
    EXPECT_EQ(class_in(words, false), OutcomeClass::Exit) << words;
  }
}

TEST(EndOfAFailure, TheLastWordsDecide) {
  const std::string handled = "CUDA out of memory: trying a smaller batch\n";
  EXPECT_EQ(class_in(handled + "OSError: [Errno 28] No space left on device"),
            OutcomeClass::DiskFull);
  const std::string traceback = "Traceback (most recent call last):\n  File \"a.py\"\n";
  EXPECT_EQ(class_in(handled + traceback + "KeyError: 'lr'\n"), OutcomeClass::UserError);
}

TEST(EndOfAFailure, AMistakeIsOneOnlyRightAfterTheStart) {
  const std::string log = "Traceback (most recent call last):\nKeyError: 'lr'\n";
  EXPECT_EQ(class_in(log, true), OutcomeClass::UserError);
  EXPECT_EQ(class_in(log, false), OutcomeClass::Exit);
  EXPECT_EQ(class_in("KeyError: only mentioned\n"), std::nullopt);
}

TEST(EndOfAFailure, TheStepsOwnRulesComeFirst) {
  const std::vector<FailureRule> own = {{"loss is nan", OutcomeClass::UserError},
                                        {"NCCL timeout", OutcomeClass::Requeue}};
  EXPECT_EQ(class_in("step 7: loss is nan, giving up\nCUDA out of memory\n", false, own),
            OutcomeClass::UserError);
  EXPECT_EQ(class_in("NCCL timeout\n", false, own), OutcomeClass::Requeue);
}

TEST(EndOfAFailure, ALineIsQuotedWithoutControlsAndCutBetweenCharacters) {
  const std::string line =
      "\x1b]0;evil\x07"
      "CUDA out of memory " +
      std::string(180, 'x') + "ä";
  const std::string reason = judged(line, false).reason;
  EXPECT_TRUE(reason.starts_with("exit code 1: CUDA")) << reason;
  EXPECT_TRUE(reason.ends_with("x…")) << reason;
}

TEST(Classify, ASignalAfterWordsThatNameTheCause) {
  const std::string log = "terminate called after throwing an instance of 'std::bad_alloc'\n";
  const Outcome outcome = classify({.signal = 6, .log_tail = log});
  EXPECT_EQ(outcome.cls, OutcomeClass::OomHost);
  EXPECT_EQ(outcome.reason, "killed by signal 6 (SIGABRT): " + log.substr(0, log.size() - 1));
}

TEST(Classify, TheReasonOfAGpuThatIsNotItsOwnSaysWhatAJobSees) {
  const Outcome outcome =
      classify({.exit_code = 1, .log_tail = "RuntimeError: CUDA error: invalid device ordinal\n"});
  EXPECT_EQ(outcome.cls, OutcomeClass::UserError);
  EXPECT_EQ(
      outcome.reason,
      "exit code 1: asked for a GPU that is not its own: a job sees only its own GPUs, the first "
      "is always cuda:0 (RuntimeError: CUDA error: invalid device ordinal)");
  // What the machine says of it comes first.
  EXPECT_EQ(classify({.exit_code = 1,
                      .gpu_fault = "gpu0 reported Xid 79",
                      .log_tail = "RuntimeError: CUDA error: invalid device ordinal\n"})
                .cls,
            OutcomeClass::Hardware);
}

/// By the reasons alone, of runs without parameters.
std::string signature(std::string reason) {
  return signature_of({.cls = OutcomeClass::UserError, .reason = std::move(reason)});
}

TEST(Signature, NumbersQuotedPartsPathsAndTheLastWordDoNotCount) {
  const std::vector<std::vector<std::string>> alike = {
      {"exit code 1: KeyError: 'run17'", "exit code 1: KeyError: 'run203'",
       "exit code 1: KeyError: 'a long word that is cut…", "exit code 1: KeyError: 'a'",
       "exit code 1: KeyError: 'no such dataset: b'", "exit code 1: KeyError: lr",
       "exit code 1: KeyError: \"it's\"", "exit code 1: KeyError"},
      {"exit code 1: TypeError: <function f at 0x7f678826d300>",
       "exit code 1: TypeError: <function f at 0x7fa9be1c11e0>"},
      {"exit code 1: FileNotFoundError: [Errno 2] No such file or directory: '/data/a/train.bin'",
       "exit code 1: FileNotFoundError: no checkpoint of mlp in /data/b"},
      {"exit code 1: AttributeError: 'aaaaa' object has no attribute 'x'",
       "exit code 1: AttributeError: 'bbbbb' object has no attribute 'x'",
       "exit code 1: AttributeError: no optimizer of this name"},
      {"exit code 1: ModuleNotFoundError: No module named 'a'",
       "exit code 1: ModuleNotFoundError: No module named 'a.b'"},
      {"exit code 2: error: bad lr aaaaa", "exit code 2: error: bad lr bbbbb",
       "exit code 2: error: bad lr 'ccccc'", "exit code 2: error: bad lr 0.1",
       "exit code 2: error: bad lr 1e-4", "exit code 2: error: bad lr ./d"},
      {"exit code 2: train.py: error: argument --lr: invalid float value: 'bad'",
       "exit code 2: train.py: error: argument --lr: invalid float value: 'worse'",
       "exit code 2: main.py: error: argument --lr: invalid float value: '1e-4x'"},
      {"exit code 2: Error: Invalid value for '--lr': 'bad' is not a valid float.",
       "exit code 2: Error: Invalid value for '--lr': '0.1.2' is not a valid float."},
      {"exit code 1: TypeError: f() got an unexpected keyword argument 'a'",
       "exit code 1: TypeError: f() got an unexpected keyword argument 'b'"},
      {"exit code 1: NotImplementedError: no optimizer sgdd",
       "exit code 1: NotImplementedError: no optimizer adamm"},
      {"exit code 127: ./run-a.sh: line 3: pyhton: command not found",
       "exit code 127: ./run-b.sh: line 3: pyhton: command not found"},
      {"could not start: ./a.py: no such interpreter \"python9\"",
       "could not start: ./b.py: no such interpreter \"python9\""},
      {"exit code 1: OSError: can't open ‘a’", "exit code 1: OSError: can't open ‘b’"},
  };
  std::vector<std::string> seen;
  for (const std::vector<std::string>& reasons : alike) {
    for (const std::string& reason : reasons) {
      EXPECT_EQ(signature(reason), signature(reasons.front())) << reason;
    }
    if (std::find(seen.begin(), seen.end(), signature(reasons.front())) != seen.end()) {
      ADD_FAILURE() << "as another kind: " << reasons.front();
    }
    seen.push_back(signature(reasons.front()));
  }
}

TEST(Signature, TheTypeAndOtherWordsCount) {
  const std::vector<std::string> differ = {
      "exit code 1: KeyError: 'a'",
      "exit code 1: NameError: name 'a' is not defined",
      "exit code 1: TypeError: 'int' object is not callable",
      "exit code 1: TypeError: f() missing 1 required positional argument: 'x'",
      "exit code 1: yaml.scanner.ScannerError: mapping values are not allowed here",
      "exit code 2: train.py: error: argument --lr: invalid float value: 'a'",
      "exit code 2: train.py: error: argument --batch: invalid int value: 'a'",
      "exit code 2: train.py: error: unrecognized arguments: --a",
      "exit code 2: error: bad lr a",
      "exit code 2: error: no dataset a",
      "exit code 2"};
  for (std::size_t i = 0; i < differ.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(signature(differ[i]), signature(differ[j])) << differ[i] << " " << differ[j];
    }
  }
  EXPECT_NE(signature_of({.cls = OutcomeClass::UserError, .reason = "r"}),
            signature_of({.cls = OutcomeClass::Exit, .reason = "r"}));
}

TEST(Signature, ValuesOfTheRunDoNotCount) {
  const auto of = [](const std::vector<std::string>& values, std::string reason) {
    Outcome outcome{.cls = OutcomeClass::UserError, .reason = std::move(reason)};
    outcome.mistake = mistake_without(values, outcome);
    return signature_of(outcome);
  };
  EXPECT_EQ(of({"mlp", "3"}, "exit code 2: error: no optimizer for mlp in this version"),
            of({"res net", "4"}, "exit code 2: error: no optimizer for res net in this version"));
  EXPECT_NE(of({}, "exit code 2: error: no optimizer for mlp in this version"),
            of({}, "exit code 2: error: no optimizer for cnn in this version"));
  // A part of a word is no value.
  EXPECT_NE(of({"a"}, "exit code 2: error: no data for a in this version"),
            of({"a"}, "exit code 2: error: bad data for a in this version"));
  // Kept only where it makes a difference, and only of mistakes.
  const std::string reason = "exit code 1: KeyError: 'mlp'";
  EXPECT_EQ(mistake_without({"mlp"}, {.cls = OutcomeClass::UserError, .reason = reason}), "");
  EXPECT_EQ(mistake_without({"mlp"}, {.cls = OutcomeClass::Exit, .reason = "no mlp here"}), "");
}

TEST(Signature, WhatWasLeftRunningDoesNotCount) {
  const Outcome outcome{.cls = OutcomeClass::UserError, .reason = "exit code 1: KeyError: 'a'"};
  Outcome left = outcome;
  left.left_running = "1 process that it left running was ended: sleep";
  EXPECT_EQ(signature_of(left), signature_of(outcome));
  EXPECT_EQ(whole_reason(left), outcome.reason + "; " + left.left_running);
  EXPECT_EQ(whole_reason(outcome), outcome.reason);
  // Of one that was done they're the reason.
  EXPECT_EQ(whole_reason({.reason = left.left_running, .left_running = left.left_running}),
            left.left_running);
}

}  // namespace
}  // namespace pergpu
