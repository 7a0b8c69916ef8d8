// What the end of a log says: ends that programs have written, a line for each row of the table,
// and what is above the end.
#include "job/end_of_log.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <fstream>
#include <set>
#include <sstream>

#include "job/classify.h"
#include "job/traceback.h"

namespace pergpu {
namespace {

const std::string kData = std::string(PERGPU_TEST_DATA) + "/failures/";
constexpr std::int64_t kSecond = 1'000'000'000;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

/// A log, and how it is to be judged.
struct End {
  std::string name = {};
  std::string log = {};
  std::optional<int> exit_code = std::nullopt;
  std::optional<int> signal = std::nullopt;
  std::string cls = {};
  std::string reason = {};
};

const std::vector<End>& ends() {
  static const std::vector<End> all = [] {
    std::vector<End> out;
    for (const std::string& line : split(read(kData + "expected.tsv"), '\n')) {
      if (line.starts_with("#")) continue;
      const std::vector<std::string> cells = split(line, '\t');
      EXPECT_EQ(cells.size(), 4u) << line;
      const std::vector<std::string> ended = split(cells.at(1), ' ');
      End end{.name = cells[0],
              .log = read(kData + cells[0] + ".log"),
              .cls = cells[2],
              .reason = cells[3]};
      (ended.at(0) == "exit" ? end.exit_code : end.signal) = std::stoi(ended.at(1));
      out.push_back(std::move(end));
    }
    return out;
  }();
  return all;
}

Outcome judge(const End& end, std::string log) {
  return classify({.exit_code = end.exit_code,
                   .signal = end.signal,
                   .duration_ns = 5 * kSecond,
                   .asks_for_gpus = !end.name.starts_with("gpu-none-"),
                   .log_tail = std::move(log)});
}

/// A line of rows.txt: "CLASS | WORDS", "127 CLASS | WORDS".
struct Example {
  std::string words = {};
  std::string cls = {};
  int exit_code = 1;
};

/// "KeyError: 'x'", "numpy._core.MemoryError": not "fatal: …", "sh: …".
bool names_an_exception(std::string_view line) {
  const std::string_view name = exception_name(line);
  return !name.empty() && (name.front() < 'a' || name.find('.') != name.npos) &&
         name.find("Error:") == name.npos && name != "ERROR" && name != "Error" &&
         !line.starts_with("java.") && !line.starts_with("cuda");
}

std::vector<Example> examples() {
  std::vector<Example> out;
  for (const std::string& line : split(read(kData + "rows.txt"), '\n')) {
    const std::size_t bar = line.find(" | ");
    if (line.starts_with("#") || bar == std::string::npos) continue;
    Example example{.cls = line.substr(0, bar)};
    if (const std::size_t gap = example.cls.find(' '); gap != std::string::npos) {
      example.exit_code = std::stoi(example.cls);
      example.cls = example.cls.substr(gap + 1);
    }
    for (std::size_t at = bar + 3; at < line.size(); ++at) {
      const bool is_escape = line[at] == '\\' && at + 1 < line.size();
      example.words += !is_escape ? line[at] : line[++at] == 'n' ? '\n' : '\t';
    }
    const std::string first = example.words.substr(0, example.words.find('\n'));
    if (example.exit_code != 1 || !names_an_exception(first)) {
      example.words = "epoch 1\n" + example.words + "\n";
    } else {
      example.words = "epoch 1\nTraceback (most recent call last):\n  File \"train.py\", line 3\n" +
                      example.words + "\n";
    }
    out.push_back(std::move(example));
  }
  return out;
}

LogQuestion question(const std::string& log, int exit_code = 1) {
  return {.log_tail = log, .is_quick = true, .exit_code = exit_code};
}

TEST(EndOfLog, EndsThatProgramsHaveWrittenAreJudgedAsExpected) {
  EXPECT_GE(ends().size(), 150u);
  for (const End& end : ends()) {
    const Outcome outcome = judge(end, end.log);
    EXPECT_EQ(to_string(outcome.cls), end.cls) << end.name;
    EXPECT_EQ(outcome.reason, end.reason) << end.name;
  }
}

TEST(EndOfLog, EachRowOfTheTableHasAnExampleThatItDecides) {
  std::set<const FailureRow*> seen;
  for (const Example& example : examples()) {
    const auto said = read_end_of_log(question(example.words, example.exit_code));
    if (said && said->row != nullptr) seen.insert(said->row);
    const Outcome outcome = classify(
        {.exit_code = example.exit_code, .duration_ns = 5 * kSecond, .log_tail = example.words});
    EXPECT_EQ(to_string(outcome.cls), example.cls) << example.words << outcome.reason;
  }
  for (const auto rows : {text_rows(), exception_rows(), shell_rows()}) {
    for (const FailureRow& row : rows) EXPECT_TRUE(seen.contains(&row)) << row.words;
  }
}

TEST(EndOfLog, TheDocumentationListsEachRow) {
  const std::string page = read(std::string(PERGPU_TEST_DATA) + "/../../docs/failure-words.md");
  for (const auto rows : {text_rows(), exception_rows(), shell_rows()}) {
    for (const FailureRow& row : rows) {
      const std::string from = "\n| " + std::string(row.who) + " |";
      const std::string words = "``" + std::string(row.words) + "``";
      bool is_listed = false;
      for (std::size_t at = page.find(from); at != std::string::npos && !is_listed;
           at = page.find(from, at + 1)) {
        const std::string line = page.substr(at, page.find('\n', at + 1) - at);
        is_listed = line.find(words) != std::string::npos;
      }
      EXPECT_TRUE(is_listed) << row.who << ": " << words;
    }
  }
}

TEST(EndOfLog, AJobThatWasToSeeNoGpuIsToldHowToGetOne) {
  Evidence none{.exit_code = 1,
                .duration_ns = 600 * kSecond,
                .asks_for_gpus = false,
                .log_tail =
                    "Traceback (most recent call last):\n  File \"train.py\", line 3\n"
                    "RuntimeError: No CUDA GPUs are available\n"};
  const Outcome outcome = classify(none);
  EXPECT_EQ(outcome.cls, OutcomeClass::UserError) << "however late: no second start can heal it";
  EXPECT_EQ(
      outcome.reason,
      "exit code 1: a job with gpus = 0 sees no GPU; gpus = 1 in its step, or --gpus 1, gives "
      "it one (RuntimeError: No CUDA GPUs are available)");
  none.asks_for_gpus = true;
  EXPECT_EQ(classify(none).cls, OutcomeClass::Exit) << "its GPU may be broken";
}

TEST(EndOfLog, WhatWasHandledAboveChangesNothing) {
  EXPECT_TRUE(rc::check([] {
    const auto any_end = [] { return *rc::gen::inRange<std::size_t>(0, ends().size()); };
    const End& above = ends()[any_end()];
    const End& end = ends()[any_end()];
    RC_PRE(!end.log.empty());  // no words are no other end
    const int epochs = *rc::gen::inRange(1, 60);
    std::string log = above.log;
    for (int i = 0; i < epochs; ++i) log += "epoch " + std::to_string(i) + " loss 0.5\n";
    const Outcome outcome = judge(end, log + end.log);
    RC_ASSERT(std::string(to_string(outcome.cls)) == end.cls);
    RC_ASSERT(outcome.reason == end.reason);
  }));
}

TEST(EndOfLog, WhatLaunchersReportIsJudgedByTheChild) {
  const std::string frames = "Traceback (most recent call last):\n  File \"a.py\", line 3\n";
  const std::string tag = "(EngineCore_DP0 pid=4711) ";
  const std::vector<std::pair<std::string, OutcomeClass>> logs = {
      {tag + "ERROR 11-27 12:00:00 [core.py:390] Traceback (most recent call last):\n" + tag +
           "ERROR 11-27 12:00:00 [core.py:390]   File \"a.py\", line 3\n" + tag +
           "ERROR 11-27 12:00:00 [core.py:390] torch.OutOfMemoryError: CUDA out of memory.\n" +
           frames + "RuntimeError: Engine core initialization failed. See root cause above.\n",
       OutcomeClass::OomGpu},
      {frames + "KeyError: 'los'\n" +
           "[2026-11-27 12:00:00,123] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 1\n"
           "[2026-11-27 12:00:00,124] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 2\n"
           "[2026-11-27 12:00:00,125] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 3\n"
           "[2026-11-27 12:00:00,126] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 4\n"
           "[2026-11-27 12:00:00,127] [ERROR] [launch.py:321:sigkill_handler] exits with code 1\n",
       OutcomeClass::UserError},
      // Of an earlier launch, which was not the end.
      {frames + "KeyError: 'los'\n" + frames + "subprocess.CalledProcessError: no\n" + frames +
           "subprocess.CalledProcessError: no\n",
       OutcomeClass::Exit},
      // Rank 1 has failed, rank 0 has lost it.
      {"[rank1]: Traceback (most recent call last):\n[rank1]:   File \"a.py\", line 3\n"
       "[rank1]: KeyError: 'los'\n[rank0]: Traceback (most recent call last):\n[rank0]:   File "
       "\"a.py\", line 4\n[rank0]: RuntimeError: [../gloo/transport/tcp/pair.cc:525] Connection "
       "closed by peer [127.0.0.1]:17\n",
       OutcomeClass::UserError},
  };
  for (const auto& [log, cls] : logs) {
    const Outcome outcome = classify({.exit_code = 1, .duration_ns = 5 * kSecond, .log_tail = log});
    EXPECT_EQ(outcome.cls, cls) << log << outcome.reason;
  }
}

TEST(EndOfLog, WordsInNamesAndDataAreNoCause) {
  const auto cls = [](const std::string& log) {
    return classify({.exit_code = 1, .duration_ns = 5 * kSecond, .log_tail = log}).cls;
  };
  const std::string frames = "Traceback (most recent call last):\n  File \"a.py\", line 3\n";
  for (const char* mistake :
       {"KeyError: 'Connection refused'", "KeyError: \"CUDA out of memory: it's a key\"",
        "KeyError: (1, 'No space left on device')",
        "AttributeError: 'Row' object has no attribute 'GPU out of memory'",
        "FileNotFoundError: [Errno 2] No such file or directory: 'logs/CUDA out of memory.txt'",
        "PermissionError: [Errno 13] Permission denied: '/data/Connection refused'",
        "ModuleNotFoundError: No module named 'Connection refused'",
        "TypeError: f() got an unexpected keyword argument 'GPU is lost'"}) {
    EXPECT_EQ(cls(frames + mistake + "\n"), OutcomeClass::UserError) << mistake;
  }
  for (const char* data :
       {"processing sample: 'GPU ran out of memory story'",
        "processing sample: GPU ran out of memory story", "label: 'GPU is lost'",
        "reading: the GPU is lost in translation", "Out of memory and out of mind",
        "answer: \"CUDA does not run out of memory\"", "a memory exhausted by time"}) {
    EXPECT_EQ(cls(std::string(data) + "\n"), OutcomeClass::Exit) << data;
  }
  EXPECT_EQ(cls(frames + "ValueError: could not convert string to float: 'CUDA out of memory'\n"),
            OutcomeClass::Exit);
  EXPECT_EQ(cls(frames + "PermissionError: [Errno 13] Connection refused: 'host'\n"),
            OutcomeClass::Exit)
      << "its own words count";
}

TEST(EndOfLog, CommonWordsCountInWhatLooksLikeAnError) {
  for (const char* error :
       {"GPU ran out of memory", "GPU 3: out of memory (5 GiB)", "GPU is out of memory, sorry",
        "Error: the GPU ran out of memory in layer 3",
        "{\"level\":\"error\",\"msg\":\"GPU out of memory\"}",
        "level=fatal msg=\"GPU out of memory while training\"",
        "can't go on: GPU out of memory there"}) {
    const Outcome outcome = classify(
        {.exit_code = 1, .duration_ns = 5 * kSecond, .log_tail = std::string(error) + "\n"});
    EXPECT_EQ(outcome.cls, OutcomeClass::OomGpu) << error;
  }
}

TEST(EndOfLog, MoreOutputThanAProgramLeavesBehindMeansThatItWentOn) {
  const auto cls = [](const std::string& log) {
    return classify({.exit_code = 1, .duration_ns = 5 * kSecond, .log_tail = log}).cls;
  };
  const std::string frames = "Traceback (most recent call last):\n  File \"a.py\", line 3\n";
  for (int lines = 0; lines < 12; ++lines) {
    std::string after;
    for (int i = 0; i < lines; ++i) after += "writing the table of results\n";
    EXPECT_EQ(cls("CUDA out of memory\n" + after),
              lines <= 5 ? OutcomeClass::OomGpu : OutcomeClass::Exit);
    EXPECT_EQ(cls(frames + "KeyError: 'los'\n" + after),
              lines <= 3 ? OutcomeClass::UserError : OutcomeClass::Exit);
    EXPECT_EQ(cls("ERROR:root:no cache\n" + frames + "KeyError: 'los'\n" + after),
              lines == 0 ? OutcomeClass::UserError : OutcomeClass::Exit);
  }
  for (const char* handled : {"CUDA out of memory, retrying with 32", "WARNING: CUDA out of memory",
                              "CUDA out of memory: trying 16", "CUDA out of memory, skipping it"}) {
    EXPECT_EQ(cls(std::string(handled) + "\n"), OutcomeClass::Exit) << handled;
  }
}

TEST(EndOfLog, NotesBelowAnExceptionBelongToIt) {
  const std::string key =
      "Traceback (most recent call last):\n  File \"a.py\", line 3\nTypeError: x\n";
  const auto cls = [&](const std::string& after, int code = 1) {
    return classify({.exit_code = code, .duration_ns = 5 * kSecond, .log_tail = key + after}).cls;
  };
  const std::string notes =
      "note one\nnote two\nnote three\nnote four\nnote five\nnote six\nnote seven\n";
  EXPECT_EQ(cls(notes), OutcomeClass::UserError);
  EXPECT_EQ(cls(notes + "\nwandb: waiting\n"), OutcomeClass::UserError);
  EXPECT_EQ(cls(notes, 3), OutcomeClass::Exit);  // it chose its code
  EXPECT_EQ(cls(notes + "8\n9\n10\n11\n"), OutcomeClass::Exit);
  EXPECT_EQ(cls("note one\n\n" + notes), OutcomeClass::Exit);
  EXPECT_EQ(cls("falling back to the CPU\n" + notes), OutcomeClass::Exit);
}

TEST(EndOfLog, WhatLoggersOfExperimentsSayAtTheEndChangesNothing) {
  const std::string key =
      "Traceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'x'\n";
  const std::string log =
      key +
      "[neptune] [info   ] Shutting down background jobs, please wait a moment...\n"
      "[neptune] [info   ] Done!\n"
      "[neptune] [info   ] Waiting for the remaining 5 operations to synchronize with Neptune.\n"
      "[neptune] [info   ] All 5 operations synced, thanks for waiting!\n"
      "[neptune] [info   ] Explore the metadata in the Neptune app: https://neptune.example.org\n";
  EXPECT_EQ(classify({.exit_code = 1, .duration_ns = 5 * kSecond, .log_tail = log}).cls,
            OutcomeClass::UserError);
}

TEST(EndOfLog, AGroupOfMistakesThatWereNeverRaisedIsOne) {
  const std::string log =
      "  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\", line 1\n"
      "  | ExceptionGroup: eg (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n"
      "    | KeyError: 1\n    +---------------- 2 ----------------\n    | TypeError: 2\n"
      "    +------------------------------------\n";
  const Outcome outcome = classify({.exit_code = 1, .duration_ns = 5 * kSecond, .log_tail = log});
  EXPECT_EQ(outcome.cls, OutcomeClass::UserError);
  EXPECT_EQ(outcome.reason,
            "exit code 1: ExceptionGroup: eg (2 sub-exceptions): KeyError: 1; TypeError: 2");
}

TEST(EndOfLog, WindowsLineEndingsAreNamed) {
  for (const std::string line :
       {"/usr/bin/env: ‘python3\\r’: No such file or directory", "env: 'python3\\r': No such file",
        "/usr/bin/env: python3\r: No such file or directory",
        "/usr/bin/env: 'python3\r': No such file or directory",
        "env: can't execute 'python3\r': No such file or directory",
        "env: »python3\\r«: Datei oder Verzeichnis nicht gefunden",
        "bash: ./run.sh: /bin/bash^M: bad interpreter: No such file or directory",
        "zsh:1: ./run.sh: bad interpreter: /bin/bash^M: no such file or directory",
        "run.sh: line 2: $'\\r': command not found", "run.sh: 2: train\r: not found"}) {
    for (const std::string after : {"", "/usr/bin/env: use -[v]S to pass options\n"}) {
      const Outcome outcome =
          classify({.exit_code = 127, .duration_ns = kSecond, .log_tail = line + "\n" + after});
      EXPECT_EQ(outcome.cls, OutcomeClass::UserError) << line;
      EXPECT_TRUE(outcome.reason.starts_with(
          "exit code 127: the script has Windows line endings; convert it with dos2unix ("))
          << outcome.reason;
    }
  }
  const Outcome not_there = classify({.exit_code = 127,
                                      .duration_ns = kSecond,
                                      .log_tail = "env: ‘pyhton’: No such file or directory\n"});
  EXPECT_EQ(not_there.reason.find("Windows"), std::string::npos);
}

TEST(EndOfLog, AFileServerThatDoesNotAnswerIsNoMissingProgram) {
  for (const std::string words : {"Transport endpoint is not connected", "Connection timed out",
                                  "Host is down", "Remote I/O error"}) {
    const Outcome outcome =
        classify({.exit_code = 126,
                  .duration_ns = kSecond,
                  .log_tail = "bash: line 1: /nfs/bin/python: " + words + "\n"});
    EXPECT_EQ(outcome.cls, OutcomeClass::Exit) << words;
    EXPECT_EQ(outcome.reason, "exit code 126: bash: line 1: /nfs/bin/python: " + words);
  }
}

TEST(EndOfLog, AProgramThatGoesOnHasNotEndedByWhatItMet) {
  for (const End& end : ends()) {
    const std::string log = end.log + "epoch 3 loss 0.5\nepoch 4 loss 0.4\n";
    const auto said = read_end_of_log(question(log));
    if (said) ADD_FAILURE() << end.name << ": " << said->line;
  }
}

}  // namespace
}  // namespace pergpu
