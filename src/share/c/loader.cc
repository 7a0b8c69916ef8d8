// The C interface: loaders.  What is held is known here, too, so that a slot that is given back
// twice is reported; and the process, because a fork has none of the loader's threads.
#include "share/loader.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "os/clock.h"
#include "share/c/border.h"

using pergpu::Error;
using pergpu::ErrorKind;
using pergpu::Result;
using namespace pergpu::share;  // this file is of it; its names have to be global

struct pergpu_share_loader {
  std::unique_ptr<Loader> loader;
  pid_t process = 0;
  mutable std::mutex mutex = {};
  std::unordered_map<std::uint32_t, std::byte*> held = {};  // slots
};

static_assert(sizeof(pergpu_share_image) == 64);
static_assert(sizeof(pergpu_share_field) == 24);
static_assert(sizeof(pergpu_share_loader_options) == 80);
static_assert(sizeof(pergpu_share_loader_info) == 24);
static_assert(sizeof(pergpu_share_batch) == 32);

namespace {

constexpr std::chrono::hours kAges{24 * 365 * 100};  // clocks have no more than three times that
constexpr std::uint32_t kMostFields = 1 << 16;

Result<Type> type_of(std::uint32_t type) {
  switch (type) {
    case PERGPU_SHARE_UINT8:
      return Type::UInt8;
    case PERGPU_SHARE_FLOAT32:
      return Type::Float32;
    case PERGPU_SHARE_FLOAT16:
      return Type::Float16;
    case PERGPU_SHARE_BFLOAT16:
      return Type::BFloat16;
  }
  return invalid("image: there is no type " + std::to_string(type));
}

Result<ImageKernel> kernel_of(const pergpu_share_image* image) {
  Result<pergpu_share_image> read = read_sized(image, "image");
  if (!read) return std::move(read).error();
  Result<Type> type = type_of(read->type);
  Result<bool> crop = flag(read->random_crop, "image: random_crop");
  Result<bool> flip = flag(read->random_flip, "image: random_flip");
  if (!type) return std::move(type).error();
  if (!crop) return std::move(crop).error();
  if (!flip) return std::move(flip).error();
  if (read->reserved != 0) return invalid("image: reserved is not 0");
  ImageTransform transform;
  transform.height = read->height;
  transform.width = read->width;
  transform.channels = read->channels;
  transform.crop_height = read->crop_height;
  transform.crop_width = read->crop_width;
  transform.padding = read->padding;
  transform.random_crop = *crop;
  transform.random_flip = *flip;
  transform.type = *type;
  if (read->scale != 0 && *type == Type::UInt8) {
    return invalid("image: bytes can't be scaled; use float32, float16 or bfloat16");
  }
  if (read->scale != 0) transform.scale = read->scale;
  // First without them, so that it is known how many channels can be.
  if (Result<ImageKernel> fits = ImageKernel::make(transform); !fits) return fits;
  if (read->mean != nullptr) transform.mean.assign(read->mean, read->mean + read->channels);
  if (read->deviation != nullptr) {
    transform.deviation.assign(read->deviation, read->deviation + read->channels);
  }
  return ImageKernel::make(std::move(transform));
}

Result<std::vector<LoaderField>> fields_of(const pergpu_share_loader_options& options) {
  if (options.field_count == 0 || options.field_count > kMostFields) {
    return invalid("a loader has 1 to " + std::to_string(kMostFields) + " arrays, not " +
                   std::to_string(options.field_count));
  }
  if (options.fields == nullptr) return invalid("options: fields is NULL");
  std::vector<LoaderField> fields;
  for (std::uint32_t i = 0; i < options.field_count; ++i) {
    const pergpu_share_field& from = options.fields[i];
    if (from.data == nullptr) return invalid("array " + std::to_string(i) + " is NULL");
    LoaderField field;
    field.data = static_cast<const std::byte*>(from.data);
    field.row_bytes = from.row_bytes;
    if (from.image != nullptr) {
      Result<ImageKernel> kernel = kernel_of(from.image);
      if (!kernel) return std::move(kernel).error();
      field.kernel = std::move(*kernel);
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

Result<LoaderOptions> options_of(const pergpu_share_loader_options* from) {
  Result<pergpu_share_loader_options> read = read_sized(from, "options");
  if (!read) return std::move(read).error();
  Result<bool> drop_last = flag(read->drop_last, "drop_last");
  Result<bool> in_order = flag(read->in_order, "in_order");
  if (!drop_last) return std::move(drop_last).error();
  if (!in_order) return std::move(in_order).error();
  Result<bool> pinned = flag(read->pinned, "pinned");
  if (!pinned) return std::move(pinned).error();
  Result<std::vector<LoaderField>> fields = fields_of(*read);
  if (!fields) return std::move(fields).error();
  LoaderOptions options;
  options.fields = std::move(*fields);
  options.rows = read->rows;
  options.batch = read->batch;
  options.drop_last = *drop_last;
  options.shuffle = !*in_order;
  options.seed = read->seed;
  options.shard = read->shard;
  options.epoch = read->epoch;
  options.number = read->number;
  if (read->threads != 0) options.threads = read->threads;
  if (read->shards != 0) options.shards = read->shards;
  if (read->ahead != 0) options.ahead = read->ahead;
  options.pinned = *pinned;
  return options;
}

Result<void> check_process(const pergpu_share_loader& loader) {
  if (loader.process == ::getpid()) return {};
  return Error{ErrorKind::Unavailable, 0,
               "a loader can't be used after fork(): its threads are in process " +
                   std::to_string(loader.process)};
}

std::chrono::nanoseconds until(std::int64_t deadline) {
  if (deadline == PERGPU_SHARE_FOREVER) return kAges;
  const std::int64_t now = pergpu::os::awake_now_ns();
  return std::min<std::chrono::nanoseconds>(
      kAges, std::chrono::nanoseconds(deadline > now ? deadline - now : 0));
}

Error not_held(std::uint32_t slot) {
  return invalid("slot " + std::to_string(slot) + " is not held");
}

}  // namespace

std::int32_t pergpu_share_loader_open(const pergpu_share_loader_options* options,
                                      pergpu_share_loader** loader, pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(options, loader); !there) return there;
    Result<LoaderOptions> wanted = options_of(options);
    if (!wanted) return std::move(wanted).error();
    Result<std::unique_ptr<Loader>> opened = Loader::open(std::move(*wanted));
    if (!opened) return std::move(opened).error();
    auto made = std::make_unique<pergpu_share_loader>();
    made->loader = std::move(*opened);
    made->process = ::getpid();
    *loader = made.release();
    return {};
  });
}

std::int32_t pergpu_share_loader_describe(const pergpu_share_loader* loader,
                                          pergpu_share_loader_info* info,
                                          pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(loader); !there) return there;
    if (Result<void> good = check_sized(info, "info"); !good) return good;
    pergpu_share_loader_info told = {};
    told.batches = loader->loader->batches();
    told.slot_bytes = loader->loader->slot_bytes();
    told.threads = loader->loader->options().threads;
    write_sized(info, told);
    return {};
  });
}

std::int32_t pergpu_share_loader_next(pergpu_share_loader* loader, std::int64_t deadline,
                                      pergpu_share_batch* batch, pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(loader); !there) return there;
    if (Result<void> good = check_sized(batch, "batch"); !good) return good;
    if (Result<void> ours = check_process(*loader); !ours) return ours;
    Loader::Batch next;
    pergpu_share_batch told = {};
    Result<bool> ready = loader->loader->next(next, until(deadline));
    if (!ready) return std::move(ready).error();
    told.outcome = *ready ? PERGPU_SHARE_READY : PERGPU_SHARE_TIMED_OUT;
    if (*ready) {
      std::lock_guard lock(loader->mutex);
      loader->held[next.slot] = next.data;
      told.slot = next.slot;
      told.rows = next.rows;
      told.epoch = next.epoch;
      told.number = next.number;
    }
    write_sized(batch, told);
    return {};
  });
}

std::int32_t pergpu_share_loader_data(const pergpu_share_loader* loader, std::uint32_t slot,
                                      std::uint32_t field, void** data, std::uint64_t* row_bytes,
                                      pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(loader, data, row_bytes); !there) return there;
    if (Result<void> ours = check_process(*loader); !ours) return ours;
    const LoaderOptions& options = loader->loader->options();
    if (field >= options.fields.size()) {
      return invalid("there is no array " + std::to_string(field) + ", there are " +
                     std::to_string(options.fields.size()));
    }
    std::lock_guard lock(loader->mutex);
    const auto batch = loader->held.find(slot);
    if (batch == loader->held.end()) return not_held(slot);
    *data = batch->second + loader->loader->offset_of(field);
    *row_bytes = options.fields[field].out_bytes();
    return {};
  });
}

std::int32_t pergpu_share_loader_release(pergpu_share_loader* loader, std::uint32_t slot,
                                         pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(loader); !there) return there;
    if (Result<void> ours = check_process(*loader); !ours) return ours;
    {
      std::lock_guard lock(loader->mutex);
      if (loader->held.erase(slot) == 0) return not_held(slot);
    }
    loader->loader->release(slot);
    return {};
  });
}

void pergpu_share_loader_free(pergpu_share_loader* loader) {
  // In a fork there are no threads to be waited for, and the mutex may be locked forever.
  if (loader == nullptr || loader->process != ::getpid()) return;
  quietly([&] { delete loader; });
}
