// Clients of a GPU, from the text of fdinfo and from a /proc of the test's own (gpu/drm_clients.h).
#include "gpu/drm_clients.h"

#include "amd_tree.h"

namespace pergpu::gpu {
namespace {

constexpr const char* kPci = "0000:04:00.0";

std::optional<DrmClient> client_with(std::string_view vram) {
  return drm_client_in(fmt::format(
      "drm-driver:\tamdgpu\ndrm-client-id:\t30\ndrm-pdev:\t{}\ndrm-memory-vram:{}\n", kPci, vram));
}

TEST(DrmClient, IsReadFromWhatTheDriverWrites) {
  const std::optional<DrmClient> client = drm_client_in(
      "pos:\t0\nflags:\t02100002\nmnt_id:\t24\nino:\t1204\ndrm-driver:\tamdgpu\n"
      "drm-client-id:\t30\ndrm-pdev:\t0000:04:00.0\npasid:\t32785\ndrm-total-vram:\t600000 KiB\n"
      "drm-memory-vram:\t544428 KiB\ndrm-memory-gtt: \t22528 KiB\n"
      "drm-engine-gfx:\t39456116802 ns\n");
  EXPECT_EQ(client, (DrmClient{.driver = "amdgpu",
                               .pci = kPci,
                               .id = 30,
                               .vram_bytes = 544428ull << 10,
                               .only_draws = true}));
}

TEST(DrmClient, MemoryHasAUnitOrIsInBytes) {
  EXPECT_EQ(client_with("\t0")->vram_bytes, 0u);
  EXPECT_EQ(client_with(" 4096")->vram_bytes, 4096u);
  EXPECT_EQ(client_with("\t3 KiB")->vram_bytes, 3072u);
  EXPECT_EQ(client_with("\t3  MiB ")->vram_bytes, 3u << 20);
  for (const char* vram : {"", "\t", " x", " -1", " 3 GB", " 3KiB", " 99999999999999999999 KiB",
                           " 18446744073709551615 KiB"}) {
    EXPECT_EQ(client_with(vram), std::nullopt) << vram;
  }
}

TEST(DrmClient, WhatSaysTooLittleIsNone) {
  for (const char* text : {"", "\n\n", "pos:\t0\nflags:\t0\n", "drm-driver:\tamdgpu",
                           "drm-driver:\ti915\ndrm-client-id:\t1\ndrm-pdev:\t0000:00:02.0\n",
                           "drm-client-id:\tx\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:04:00.0\n"
                           "drm-memory-vram:\t1 KiB\n"}) {
    EXPECT_EQ(drm_client_in(text), std::nullopt) << text;
  }
}

TEST(DrmClients, AForkedOneIsThatOfTheLowerPid) {
  AmdTree tree;
  tree.client(100, 3, kPci, 7, "1 MiB");
  tree.client(99, 3, kPci, 7, "1 MiB");
  tree.client(100, 4, kPci, 8, "2 MiB");
  tree.client(100, 5, "0000:05:00.0", 7, "3 MiB");  // ids count within a GPU
  std::vector<std::pair<int, std::uint64_t>> seen;
  for (const DrmClient& client : drm_clients(tree.proc(), "amdgpu")) {
    seen.push_back({client.pid, client.vram_bytes >> 20});
  }
  EXPECT_EQ(seen, (std::vector<std::pair<int, std::uint64_t>>{{99, 1}, {100, 2}, {100, 3}}));
  EXPECT_TRUE(drm_clients(tree.proc(), "xe").empty());
}

TEST(DrmClients, OnlyDescriptorsOfDevicesAreRead) {
  AmdTree tree;
  tree.client(100, 3, kPci, 1, "1 MiB");
  tree.link(100, 3, "/dev/dri/renderD128");
  tree.client(100, 4, kPci, 2, "1 MiB");
  tree.link(100, 4, "socket:[1234]");
  const std::vector<DrmClient> seen = drm_clients(tree.proc(), "amdgpu");
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].id, 1u);
}

TEST(DrmClients, WhatIsNoProcessIsPassedOver) {
  AmdTree tree;
  ASSERT_TRUE(os::make_dirs(tree.proc() + "/self/fdinfo", 0755));
  write(tree.proc() + "/loadavg", "0\n");
  tree.fdinfo(100, 3, std::string(100'000, 'x'));
  EXPECT_TRUE(drm_clients(tree.proc(), "amdgpu").empty());
  EXPECT_TRUE(drm_clients(tree.proc() + "/none", "amdgpu").empty());
}

}  // namespace
}  // namespace pergpu::gpu
