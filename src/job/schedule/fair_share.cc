// Levels are brought up to date when a number of lanes changes.
#include "job/schedule/fair_share.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

namespace pergpu {

int thousandths_taken(const Demand& demand) {
  if (demand.share > 0) return demand.share;
  return kWholeGpu * (demand.pool == LaneId::Pool::Gpu ? std::max(1, demand.gpus) : 1);
}

double FairShare::Had::level_at(std::int64_t now_ns) const {
  const std::int64_t passed = std::max<std::int64_t>(now_ns - as_of_ns, 0);
  return level + rate * (static_cast<double>(passed) / 1e9);
}

void FairShare::take(SweepId sweep, const Demand& demand, std::int64_t now_ns) {
  if (demand.weight > 0) change(sweep, demand, thousandths_taken(demand), now_ns);
}

void FairShare::give_back(SweepId sweep, const Demand& demand, std::int64_t now_ns) {
  if (demand.weight > 0) change(sweep, demand, -thousandths_taken(demand), now_ns);
}

void FairShare::change(SweepId sweep, const Demand& demand, int thousandths, std::int64_t now_ns) {
  Had& had = had_[Party(sweep, demand)];
  had.level = had.level_at(now_ns);
  had.as_of_ns = now_ns;
  had.lanes += thousandths;
  assert(had.lanes >= 0);
  had.rate += static_cast<double>(thousandths) / kWholeGpu / demand.weight;
  if (had.lanes == 0) had.rate = 0;  // exactly
  had.is_here = true;
}

void FairShare::meet(const std::map<Party, Waiting>& waiting, std::int64_t now_ns) {
  enum Rank : int { AtWork, Waits, DoesNotCompete };
  const auto competes = [&](const Party& party) {
    const auto found = waiting.find(party);
    return found != waiting.end() && !found->second.is_barred;
  };
  const auto by_kind = [](const Party& a, const Party& b) {
    return std::tie(a.pool, a.priority) < std::tie(b.pool, b.priority);
  };
  std::map<Party, std::pair<Rank, double>, decltype(by_kind)> lowest(by_kind);
  for (auto& [party, had] : had_) {
    had.is_here = had.is_here && (had.lanes > 0 || waiting.contains(party));
    if (!had.is_here) continue;
    const Rank rank = !competes(party) ? DoesNotCompete : had.lanes > 0 ? AtWork : Waits;
    const std::pair its(rank, had.level_at(now_ns));
    const auto [found, is_first] = lowest.try_emplace(party, its);
    if (!is_first) found->second = std::min(found->second, its);
  }
  std::erase_if(had_, [&](const auto& entry) {
    const auto& [party, had] = entry;
    const auto found = lowest.find(party);
    return !had.is_here && (found == lowest.end() || had.level <= found->second.second);
  });
  for (const auto& [party, its] : waiting) {
    const auto found = lowest.find(party);
    const double level = found == lowest.end() ? 0 : found->second.second;
    had_.try_emplace(party, Had{.level = level, .as_of_ns = now_ns}).first->second.is_here = true;
  }
  for (auto& [party, had] : had_) {
    const bool did = std::exchange(had.competes, competes(party));
    const auto found = lowest.find(party);
    if (had.competes || found == lowest.end() || found->second.first == DoesNotCompete) continue;
    const double level = had.level_at(now_ns);
    if (did) had.behind = std::min(level - found->second.second, 0.0);
    had.level = std::max(level, found->second.second + had.behind);
    had.as_of_ns = now_ns;
  }
}

int FairShare::lanes(const Party& party) const {
  const auto found = had_.find(party);
  return found == had_.end() ? 0 : found->second.lanes;
}

double FairShare::level(const Party& party, std::int64_t now_ns) const {
  const auto found = had_.find(party);
  return found == had_.end() ? 0 : found->second.level_at(now_ns);
}

FairShare FairShare::history(std::int64_t now_ns) const {
  FairShare out;
  for (const auto& [party, had] : had_) {
    out.had_[party] = {.level = had.level_at(now_ns), .is_here = had.is_here};
  }
  return out;
}

}  // namespace pergpu
