// What an attempt took falls into seconds that count whole and seconds in which it was slowed,
// which count as the work that was done in them.
#include "job/schedule/cpu_share.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pergpu {
namespace {

constexpr double kBusy = 0.9;          // of the cores: nothing is left that a job could have
constexpr double kOwnShare = 0.5;      // of an equal share: as much as one takes that is slowed
constexpr double kEnoughToTell = 0.1;  // of an attempt

double mean(double core_s, double s) { return s > 0 ? core_s / s : 0; }

}  // namespace

bool Crowd::slows(double cores) const {
  if (machine_cores <= 0 || jobs == 0 || used_cores < kBusy * machine_cores) return false;
  return cores >= kOwnShare * machine_cores / static_cast<double>(jobs);
}

void CpuShare::add(double seconds, double cores, bool is_slowed) {
  (is_slowed ? slowed_s_ : free_s_) += seconds;
  (is_slowed ? slowed_core_s_ : free_core_s_) += seconds * cores;
}

double CpuShare::cores_wanted() const {
  const double most = std::max(mean(free_core_s_, free_s_), mean(slowed_core_s_, slowed_s_));
  const bool can_tell = free_s_ >= kEnoughToTell * slowed_s_;
  return can_tell ? most : std::max(most, 1.0);
}

double CpuShare::alone_s(double elapsed_s, double wanted) const {
  const double seen = free_s_ + slowed_s_;
  if (seen <= 0 || wanted <= 0) return elapsed_s;
  const double alone = free_s_ + std::min(slowed_core_s_ / wanted, slowed_s_);
  return std::min(elapsed_s * (alone / seen), elapsed_s);
}

std::vector<double> speeds(const std::vector<double>& wanted, double machine_cores) {
  std::vector<double> out(wanted.size(), 1);
  const double all = std::accumulate(wanted.begin(), wanted.end(), 0.0);
  if (machine_cores <= 0 || all <= machine_cores) return out;
  struct Thread {
    double wants;  // each of them
    double count;
    std::size_t job;
  };
  std::vector<Thread> threads;
  double count = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double of_job = std::max(std::ceil(wanted[i]), 1.0);
    threads.push_back({wanted[i] / of_job, of_job, i});
    count += of_job;
  }
  std::sort(threads.begin(), threads.end(),
            [](const Thread& a, const Thread& b) { return a.wants < b.wants; });
  double left = machine_cores;
  for (const Thread& one : threads) {
    const double got = std::min(one.wants, left / count);
    if (one.wants > 0) out[one.job] = got / one.wants;
    left -= got * one.count;
    count -= one.count;
  }
  return out;
}

}  // namespace pergpu
