// A sysfs and a /proc of the test's own, with AMD GPUs as the kernel's driver shows them.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "support.h"

namespace pergpu::gpu {

class AmdTree {
 public:
  /// GPU at `pci` as card<number>.
  void card(int number, const std::string& pci, std::string_view unique_id,
            std::string_view total = "17163091968\n") {
    const std::string device = device_of(pci);
    ASSERT_TRUE(os::make_dirs(device, 0755));
    ASSERT_TRUE(os::make_dirs(card_of(number), 0755));
    ASSERT_EQ(::symlink(("../../../bus/pci/devices/" + pci).c_str(),
                        (card_of(number) + "/device").c_str()),
              0);
    file(pci, "vendor", "0x1002\n");
    file(pci, "device", "0x744c\n");
    if (!unique_id.empty()) file(pci, "unique_id", unique_id);
    if (!total.empty()) file(pci, "mem_info_vram_total", total);
    file(pci, "mem_info_vram_used", "12345678\n");
    file(pci, "gpu_busy_percent", "7\n");
  }
  void file(const std::string& pci, std::string_view name, std::string_view text) {
    write(fmt::format("{}/{}", device_of(pci), name), text);
  }
  void remove_file(const std::string& pci, std::string_view name) {
    ASSERT_TRUE(os::remove_tree(fmt::format("{}/{}", device_of(pci), name)));
  }
  void remove_card(int number) { ASSERT_TRUE(os::remove_tree(card_of(number))); }

  /// Descriptor `fd` of process `pid` is open on the GPU at `pci`.
  void client(int pid, int fd, const std::string& pci, int id, std::string_view vram,
              std::string_view more = "") {
    fdinfo(pid, fd,
           fmt::format("pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-client-id:\t{}\n"
                       "drm-pdev:\t{}\ndrm-memory-vram:\t{}\ndrm-memory-gtt: \t2048 KiB\n{}",
                       id, pci, vram, more));
  }
  void fdinfo(int pid, int fd, std::string_view text) {
    const std::string folder = fmt::format("{}/{}/fdinfo", proc_.path(), pid);
    ASSERT_TRUE(os::make_dirs(folder, 0755));
    write(fmt::format("{}/{}", folder, fd), text);
  }
  /// Where the descriptor leads.
  void link(int pid, int fd, const std::string& target) {
    const std::string folder = fmt::format("{}/{}/fd", proc_.path(), pid);
    ASSERT_TRUE(os::make_dirs(folder, 0755));
    ASSERT_EQ(::symlink(target.c_str(), fmt::format("{}/{}", folder, fd).c_str()), 0);
  }

  const std::string& sysfs() const { return sysfs_.path(); }
  const std::string& proc() const { return proc_.path(); }

 private:
  std::string device_of(const std::string& pci) const {
    return sysfs_ / ("bus/pci/devices/" + pci);
  }
  std::string card_of(int number) const { return sysfs_ / fmt::format("class/drm/card{}", number); }

  TempFolder sysfs_;
  TempFolder proc_;
};

}  // namespace pergpu::gpu
