// Foreign processes are first-class: they are why a lane stays empty, so each is named.
#include "view/commands/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "view/model/lane_names.h"
#include "view/text/escape.h"
#include "view/text/quantity.h"
#include "view/text/table.h"

namespace pergpu::view {
namespace {

std::string used_by(const GpuSnapshot& gpu) {
  std::string text;
  for (const GpuHolder& holder : gpu.holders) {
    if (!text.empty()) text += ", ";
    text += holder_text(holder);
  }
  if (!gpu.why.empty()) text += text.empty() ? gpu.why : " (" + gpu.why + ")";
  return text;
}

std::string joined_or_dash(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ",") + text;
  return out.empty() ? "-" : out;
}

/// "97 %, 650 W, 71 °C, power-cap"; "-": not known.
std::string doing(const GpuSnapshot& gpu) {
  std::string text;
  const auto add = [&](const std::optional<double>& value, const char* unit) {
    if (value) text += fmt::format("{}{:.0f} {}", text.empty() ? "" : ", ", *value, unit);
  };
  add(gpu.busy_percent, "%");
  add(gpu.power_w, "W");
  add(gpu.temperature_c, "°C");
  for (const std::string& reason : gpu.throttle) text += (text.empty() ? "" : ", ") + reason;
  return text.empty() ? "-" : text;
}

/// How long it had no job since the coordinator began.
std::string idle(const LaneSnapshot& lane) {
  return lane.idle_s ? duration_text(*lane.idle_s) : "-";
}

std::string idle_of(const Devices& devices, const GpuSnapshot& gpu) {
  for (const LaneSnapshot& lane : devices.lanes) {
    if (lane.uuid == gpu.uuid) return idle(lane);
  }
  return "-";
}

/// "job 17", "jobs 17, 18 and 20": they have its lanes; their processes were not there yet.
std::string own_jobs(const Devices& devices, const GpuSnapshot& gpu) {
  std::vector<std::string> jobs;
  for (const LaneSnapshot& lane : devices.lanes) {
    if (lane.uuid == gpu.uuid && lane.job) jobs.push_back(std::to_string(*lane.job));
  }
  std::string text;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    text += i == 0 ? (jobs.size() > 1 ? "jobs " : "job ") : i + 1 == jobs.size() ? " and " : ", ";
    text += jobs[i];
  }
  return text;
}

/// Columns without a known value are left out.
std::string gpu_rows(const Devices& devices, const Style& style) {
  const std::vector<GpuSnapshot>& gpus = devices.gpus;
  const bool any_doing = std::any_of(gpus.begin(), gpus.end(),
                                     [](const GpuSnapshot& gpu) { return doing(gpu) != "-"; });
  const bool any_idle = std::any_of(gpus.begin(), gpus.end(), [&](const GpuSnapshot& gpu) {
    return idle_of(devices, gpu) != "-";
  });
  std::vector<Column> columns = {
      {.title = "GPU", .right = true},    {.title = "NAME", .least = 8},
      {.title = "UUID", .least = 12},     {.title = "STATE"},
      {.title = "MEMORY", .right = true}, {.title = "LANES"},
  };
  if (any_doing) columns.push_back({.title = "DOING"});
  if (any_idle) columns.push_back({.title = "IDLE", .right = true});
  columns.push_back({.title = "USED BY", .least = 16});
  std::vector<TableRow> rows;
  for (const GpuSnapshot& gpu : gpus) {
    TableRow row = {
        Cell{number_of(gpu), Tone::Plain},
        Cell{gpu.name, Tone::Plain},
        Cell{gpu.uuid, Tone::Plain},
        Cell{gpu.state, tone_of_state(gpu.state)},
        Cell{fmt::format("{} / {}", size_text(gpu.used_bytes), size_text(gpu.memory_bytes)),
             Tone::Plain},
        Cell{joined_or_dash(gpu.lanes), Tone::Plain},
    };
    if (any_doing) row.push_back(Cell{doing(gpu), Tone::Plain});
    if (any_idle) row.push_back(Cell{idle_of(devices, gpu), Tone::Plain});
    const std::string holders = used_by(gpu);
    row.push_back(Cell{holders.empty() ? own_jobs(devices, gpu) : holders, Tone::Plain});
    rows.push_back(std::move(row));
  }
  return render_table(columns, rows, style);
}

std::string lane_rows(const std::vector<LaneSnapshot>& lanes, const Style& style) {
  const std::vector<Column> columns = {
      {.title = "LANE"}, {.title = "STATE"}, {.title = "JOB"}, {.title = "WHY", .least = 16}};
  std::vector<TableRow> rows;
  for (const LaneSnapshot& lane : lanes) {
    if (!lane.uuid.empty()) continue;  // shown with its GPU
    rows.push_back({
        Cell{lane.name, Tone::Plain},
        Cell{lane.state, tone_of_state(lane.state)},
        Cell{lane.job ? std::to_string(*lane.job) : "-", Tone::Plain},
        Cell{lane.why, Tone::Plain},
    });
  }
  return rows.empty() ? std::string() : render_table(columns, rows, style);
}

}  // namespace

std::string holder_text(const GpuHolder& holder) {
  std::string text;
  if (holder.job) {
    text = fmt::format("job {}", *holder.job);
  } else if (!holder.user.empty() || !holder.command.empty()) {
    text = fmt::format("{}/{}", holder.user.empty() ? "?" : holder.user,
                       holder.command.empty() ? "?" : holder.command);
  } else if (holder.pid != 0) {
    text = fmt::format("pid {} (unknown holder)", holder.pid);
  } else {
    text = "unknown holder";
  }
  if (holder.memory_bytes) text += " " + size_text(*holder.memory_bytes);
  return text;
}

std::string gpus_table(const Devices& devices, const Style& style) {
  std::string out = devices.gpus.empty() ? "no GPUs\n" : gpu_rows(devices, style);
  if (!devices.trouble.empty()) out += fmt::format("{}\n", safe_line(devices.trouble));
  const std::string others = lane_rows(devices.lanes, style);
  if (!others.empty()) out += "\n" + others;
  if (devices.cpu_lanes > 0) out += fmt::format("CPU lanes: {}\n", devices.cpu_lanes);
  return out;
}

}  // namespace pergpu::view
