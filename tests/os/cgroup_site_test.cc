// Which groups are taken, on machines of many kinds: from texts, without a machine.
#include "os/process/cgroup_site.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <set>

namespace pergpu::os {
namespace {

constexpr char kV2Mount[] =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kV1Mounts[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "37 31 0:34 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n";

struct Machine {
  std::string mountinfo = {};
  std::string self_cgroup = {};
  std::string asked = {};
  bool has_systemd = true;
  std::set<std::string> writable = {};
  std::set<std::string> delegated = {};
  std::map<std::string, std::string> files = {};

  CgroupChoice choose() const {
    return choose_cgroups(
        {.mountinfo = mountinfo,
         .self_cgroup = self_cgroup,
         .asked = asked,
         .has_systemd = has_systemd,
         .may_write = [this](const std::string& path) { return writable.count(path) != 0; },
         .is_delegated = [this](const std::string& path) { return delegated.count(path) != 0; },
         .read =
             [this](const std::string& path) {
               const auto it = files.find(path);
               return it == files.end() ? std::string() : it->second;
             }});
  }
};

const std::string kScope = "/sys/fs/cgroup/user.slice/run-1.scope";

Machine delegated_scope() {
  return {.mountinfo = kV2Mount,
          .self_cgroup = "0::/user.slice/run-1.scope\n",
          .writable = {kScope, kScope + "/cgroup.procs", kScope + "/cgroup.subtree_control"},
          .delegated = {kScope},
          .files = {{kScope + "/cgroup.controllers", "cpu memory pids\n"}}};
}

TEST(ChooseCgroups, DelegatedScopeOfV2ServesAllAndIsVacated) {
  const CgroupChoice choice = delegated_scope().choose();
  EXPECT_EQ(choice.site.track, (CgroupPlace{2, kScope}));
  EXPECT_EQ(choice.site.memory, (CgroupPlace{2, kScope}));
  EXPECT_EQ(choice.site.cpu, (CgroupPlace{2, kScope}));
  EXPECT_EQ(choice.vacate, kScope);
  EXPECT_EQ(choice.controllers, (std::vector<std::string>{"memory", "cpu"}));
}

TEST(ChooseCgroups, InItsLeafALaterCoordinatorFindsWhatIsHandedOnAlready) {
  Machine machine = delegated_scope();
  machine.self_cgroup = "0::/user.slice/run-1.scope/pergpu-own\n";
  machine.files[kScope + "/cgroup.subtree_control"] = "cpu memory\n";
  const CgroupChoice choice = machine.choose();
  EXPECT_EQ(choice.site.memory, (CgroupPlace{2, kScope}));
  EXPECT_TRUE(choice.vacate.empty());
}

TEST(ChooseCgroups, GroupOfSystemdThatIsNotDelegatedIsLeftAlone) {
  Machine machine = delegated_scope();
  machine.delegated.clear();
  const CgroupChoice choice = machine.choose();
  EXPECT_FALSE(choice.site);
  EXPECT_NE(choice.site.words.find("Delegate=yes"), std::string::npos) << choice.site.words;
}

TEST(ChooseCgroups, GroupThatMayNotBeWrittenIsNotTaken) {
  Machine machine = delegated_scope();
  machine.writable.clear();
  const CgroupChoice choice = machine.choose();
  EXPECT_FALSE(choice.site);
  EXPECT_NE(choice.site.words.find("can't create groups"), std::string::npos);
}

TEST(ChooseCgroups, ServiceWithoutASubgroupGetsNoControllers) {
  const std::string service = "/sys/fs/cgroup/pergpu.service";
  const Machine machine = {
      .mountinfo = kV2Mount,
      .self_cgroup = "0::/pergpu.service\n",
      .writable = {service, service + "/cgroup.procs", service + "/cgroup.subtree_control"},
      .delegated = {service},
      .files = {{service + "/cgroup.controllers", "cpu memory\n"}}};
  const CgroupChoice choice = machine.choose();
  EXPECT_EQ(choice.site.track.version, 2);
  EXPECT_FALSE(choice.site.memory);
  EXPECT_TRUE(choice.vacate.empty());
}

TEST(ChooseCgroups, RootsGroupsOfV1NeedOnlyFolders) {
  const std::string memory = "/sys/fs/cgroup/memory/batch/7";
  const Machine machine = {
      .mountinfo = kV1Mounts,
      .self_cgroup = "3:freezer:/\n2:memory:/batch/7\n1:cpu,cpuacct:/\n",
      .writable = {memory, "/sys/fs/cgroup/freezer", "/sys/fs/cgroup/cpu,cpuacct"}};
  const CgroupChoice choice = machine.choose();
  EXPECT_EQ(choice.site.memory, (CgroupPlace{1, memory}));
  EXPECT_EQ(choice.site.cpu, (CgroupPlace{1, "/sys/fs/cgroup/cpu,cpuacct"}));
  EXPECT_EQ(choice.site.track, (CgroupPlace{1, "/sys/fs/cgroup/freezer"}));
}

TEST(ChooseCgroups, V1OfAnotherUserIsNotTaken) {
  const Machine machine = {.mountinfo = kV1Mounts,
                           .self_cgroup = "3:freezer:/\n2:memory:/\n1:cpu,cpuacct:/\n"};
  EXPECT_FALSE(machine.choose().site);
}

TEST(ChooseCgroups, BesideV1AV2WithoutControllersTracksWhereNoSystemdOwnsIt) {
  const std::string unified = "/sys/fs/cgroup/unified";
  Machine machine = {.mountinfo = kV1Mounts + std::string("41 31 0:38 / ") + unified +
                                  " rw - cgroup2 cgroup2 rw\n",
                     .self_cgroup = "2:memory:/\n0::/\n",
                     .has_systemd = false,
                     .writable = {unified, unified + "/cgroup.procs", "/sys/fs/cgroup/memory"},
                     .files = {{unified + "/cgroup.controllers", "hugetlb\n"}}};
  EXPECT_EQ(machine.choose().site.track, (CgroupPlace{2, unified}));
  EXPECT_EQ(machine.choose().site.memory, (CgroupPlace{1, "/sys/fs/cgroup/memory"}));
  machine.has_systemd = true;
  EXPECT_FALSE(machine.choose().site.track);
}

TEST(ChooseCgroups, MountOfAPartOfTheHierarchyIsReadAsThatPart) {
  const std::string memory = "/sys/fs/cgroup/memory";
  const Machine machine = {
      .mountinfo = "35 31 0:32 /docker/4f " + memory + " rw - cgroup cgroup rw,memory\n",
      .self_cgroup = "2:memory:/docker/4f/inner\n",
      .writable = {memory + "/inner"}};
  EXPECT_EQ(machine.choose().site.memory, (CgroupPlace{1, memory + "/inner"}));
  Machine outside = machine;
  outside.self_cgroup = "2:memory:/elsewhere\n";
  EXPECT_FALSE(outside.choose().site);
}

TEST(ChooseCgroups, PersonMayForbidThemOrNameAFolder) {
  Machine machine = delegated_scope();
  machine.asked = "none";
  EXPECT_FALSE(machine.choose().site);
  machine.asked = "/sys/fs/cgroup/mine";
  machine.writable.insert({machine.asked, machine.asked + "/cgroup.procs"});
  machine.files[machine.asked + "/cgroup.subtree_control"] = "memory\n";
  const CgroupChoice choice = machine.choose();
  EXPECT_EQ(choice.site.memory, (CgroupPlace{2, machine.asked}));
  EXPECT_FALSE(choice.site.cpu);
  EXPECT_TRUE(choice.vacate.empty());
}

TEST(CgroupPlaceText, ComesBack) {
  const CgroupPlace place = {2, "/sys/fs/cgroup/a:b c"};
  EXPECT_EQ(cgroup_place_of(to_text(place)), place);
  EXPECT_FALSE(cgroup_place_of("3:/x"));
  EXPECT_FALSE(cgroup_place_of(""));
}

TEST(ForeseeCgroups, FindsForThisProcessWhatFindingWouldFind) {
  const CgroupSite foreseen = foresee_cgroups(::getpid());
  EXPECT_FALSE(foreseen.words.empty());
  EXPECT_EQ(foreseen.track, foresee_cgroups(::getpid()).track);
}

}  // namespace
}  // namespace pergpu::os
