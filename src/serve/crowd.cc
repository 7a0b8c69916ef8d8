// Half of them and not one: finding out who is who costs a look at all sockets of the machine.
#include "serve/crowd.h"

#include <algorithm>
#include <map>

namespace pergpu::serve {

std::vector<std::size_t> to_close(const std::vector<Guest>& guests, uid_t owner) {
  std::map<std::optional<uid_t>, std::vector<std::size_t>> users;
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < guests.size(); ++i) {
    if (guests[i].is_let_in) continue;
    (guests[i].uid == owner ? own : users[guests[i].uid]).push_back(i);
  }
  const auto largest = std::max_element(
      users.begin(), users.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::vector<std::size_t> chosen = largest == users.end() ? own : largest->second;
  chosen.resize((chosen.size() + 1) / 2);
  return chosen;
}

}  // namespace pergpu::serve
