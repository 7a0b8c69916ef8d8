// That a coordinator is gone is sent as a gap; the watch starts another one and asks again.
//
// Numbers of events begin with the microseconds since boot: a stream has fewer events than its time
// has microseconds, so that a new feed begins behind the one before.
#include "cli/web/web_feed.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "os/clock.h"

namespace pergpu::cli {

WebFeed::WebFeed(os::Loop& loop, Client& client, std::string name, const nlohmann::json& request,
                 std::function<void()> on_change)
    : topic_(std::move(name), static_cast<std::uint64_t>(os::boot_now_ns() / 1'000)),
      on_change_(std::move(on_change)),
      watch_(loop, client, request,
             {.on_event =
                  [this](const nlohmann::json& event) {
                    topic_.take(event);
                    if (on_event) on_event(event);
                    on_change_();
                  },
              .on_gap =
                  [this](const std::string& words) {
                    topic_.gap(words);
                    on_change_();
                  },
              .on_failed =
                  [this](const Error& why) {
                    failure_ = why.message;
                    on_change_();
                  }}) {}

}  // namespace pergpu::cli
