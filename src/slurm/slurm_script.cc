// Options are lines of the script, so that what was asked for can be read afterwards.
#include "slurm/slurm_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "job/text.h"

namespace pergpu::slurm {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

/// For /bin/sh.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

/// For a line that sbatch reads: in double quotes only these two need a backslash.
std::string value(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string name_for_people(std::string_view name) {
  constexpr std::size_t kLongest = 100;
  std::string out;
  for (const char c : name.substr(0, kLongest)) {
    out += c > ' ' && c < 0x7f && c != '%' && c != '"' && c != '\\' ? c : '_';
  }
  return out;
}

}  // namespace

bool is_gpu_type(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

std::string gres_option(const std::string& type, int gpus) {
  return is_gpu_type(type) ? fmt::format("--gres=gpu:{}:{}", type, gpus)
                           : fmt::format("--gres=gpu:{}", gpus);
}

std::string file_name_option(std::string_view path) {
  std::string out;
  for (const char c : path) {
    out += c;
    if (c == '%') out += c;
  }
  return out;
}

std::string script_text(const ArrayRequest& r) {
  std::string out = "#!/bin/sh\n";
  const auto option = [&](const std::string& text) { out += "#SBATCH " + text + "\n"; };
  const auto named = [&](const char* name, const std::string& text) {
    if (!text.empty()) option(fmt::format("--{}={}", name, value(text)));
  };
  named("job-name", name_for_people(r.name));
  named("comment", r.comment);
  option("--array=" + ranges_text(r.tasks) +
         (r.most_at_once > 0 ? fmt::format("%{}", r.most_at_once) : ""));
  option("--nodes=1");
  option("--ntasks=1");
  option(r.requeue ? "--requeue" : "--no-requeue");
  option("--export=ALL");
  option("--open-mode=append");
  named("output", file_name_option(r.folder) + "/task-%a.txt");
  named("chdir", r.cwd);
  if (r.gpus > 0) option(gres_option(r.gpu, r.gpus));
  if (r.cpus > 0) option(fmt::format("--cpus-per-task={}", r.cpus));
  if (r.memory_bytes > 0) option(fmt::format("--mem={}M", (r.memory_bytes + kMiB - 1) / kMiB));
  if (r.time) {
    option(fmt::format("--time={}", std::chrono::ceil<std::chrono::minutes>(*r.time).count()));
  }
  if (r.warning_s > 0) option(fmt::format("--signal=B:USR2@{}", r.warning_s));
  if (!r.dependency.empty()) {
    option("--dependency=" + r.dependency);
    option("--kill-on-invalid-dep=yes");
  }
  if (r.nice > 0) option(fmt::format("--nice={}", r.nice));
  named("partition", r.options.partition);
  named("account", r.options.account);
  named("qos", r.options.qos);
  named("constraint", r.options.constraint);
  for (const std::string& extra : r.options.extra) {
    const std::size_t equals = extra.find('=');
    option(equals == std::string::npos
               ? extra
               : extra.substr(0, equals + 1) + value(extra.substr(equals + 1)));
  }
  // Signals that come before the program can take them mean what its files say when it begins.
  out += "trap '' USR1 USR2\nexec";
  for (const std::string& word : r.command) out += " " + shell_quoted(word);
  return out + "\n";
}

}  // namespace pergpu::slurm
