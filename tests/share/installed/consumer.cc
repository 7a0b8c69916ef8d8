// A program in C++ that knows the installed library only: takes numbers from the channel that is
// descriptor 100, and prints their sum.
#include <cstring>
#include <iostream>
#include <pergpu_share.hpp>

int main() try {
  pergpu_share::Channel channel = pergpu_share::Channel::adopt(100);
  pergpu_share::Consumer consumer = channel.consumer();
  std::uint64_t sum = 0;
  while (true) {
    pergpu_share::Taken taken = consumer.take(std::chrono::seconds(20));
    if (taken.outcome == pergpu_share::Outcome::Ended) break;
    if (!taken) {
      std::cerr << "take: " << name_of(taken.outcome) << "\n";
      return 1;
    }
    std::uint64_t number = 0;
    std::memcpy(&number, taken.item.bytes().data(), sizeof number);
    sum += number;
  }
  std::cout << "sum " << sum << std::endl;
} catch (const pergpu_share::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
