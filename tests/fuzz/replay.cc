// Feeds a target every file of its corpus, without libFuzzer: what was found once stays found.
//
//   replay_corpus TARGET FOLDER
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "os/fs/file.h"

#define TARGET(name) extern "C" int fuzz_##name(const std::uint8_t* data, std::size_t size);
#include "targets.inc"
#undef TARGET

namespace {

using Target = int (*)(const std::uint8_t* data, std::size_t size);

#define TARGET(name) {#name, fuzz_##name},
constexpr std::pair<std::string_view, Target> kTargets[] = {
#include "targets.inc"
};
#undef TARGET

constexpr std::size_t kLargest = 1u << 20;

int replay(Target target, const std::string& folder) {
  const pergpu::Result<std::vector<std::string>> names = pergpu::os::list_dir(folder);
  if (!names || names->empty()) {
    std::fprintf(stderr, "no corpus in %s\n", folder.c_str());
    return 1;
  }
  for (const std::string& name : *names) {
    const pergpu::Result<std::string> text = pergpu::os::read_file(folder + "/" + name, kLargest);
    if (!text) {
      std::fprintf(stderr, "%s\n", text.error().message.c_str());
      return 1;
    }
    std::fprintf(stderr, "%s\n", name.c_str());  // before the call: a crash names its input
    target(reinterpret_cast<const std::uint8_t*>(text->data()), text->size());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    for (const auto& [name, target] : kTargets) {
      if (name == argv[1]) return replay(target, argv[2]);
    }
  }
  std::fprintf(stderr, "usage: replay_corpus TARGET FOLDER\n");
  return 2;
}
