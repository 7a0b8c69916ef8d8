// The C interface: memory, and what is mapped of it.
#include <fcntl.h>
#include <sys/mman.h>

#include <memory>
#include <optional>
#include <variant>

#include "os/fd.h"
#include "share/c/border.h"
#include "share/file_mapping.h"
#include "share/segment.h"

using pergpu::Error;
using pergpu::Result;
using namespace pergpu::share;  // this file is of it; its names have to be global

struct pergpu_share_memory {
  std::optional<Segment> segment = std::nullopt;
};
struct pergpu_share_mapping {
  std::variant<Mapping, FileMapping> pages;
};

static_assert(sizeof(pergpu_share_error) == 512);
static_assert(sizeof(pergpu_share_memory_info) == 24);

namespace {

Result<View> view_of(std::uint32_t view) {
  switch (view) {
    case PERGPU_SHARE_VIEW_PRIVATE:
      return View::Private;
    case PERGPU_SHARE_VIEW_READ_ONLY:
      return View::ReadOnly;
    case PERGPU_SHARE_VIEW_SHARED:
      return View::Shared;
  }
  return invalid("there is no view " + std::to_string(view));
}

Result<Pages> pages_of(std::uint32_t pages) {
  switch (pages) {
    case PERGPU_SHARE_PAGES_NORMAL:
      return Pages::Normal;
    case PERGPU_SHARE_PAGES_HUGE:
      return Pages::Huge;
  }
  return invalid("there are no pages " + std::to_string(pages));
}

/// A descriptor that stays the caller's unless it is taken from here.
struct Lent {
  pergpu::os::UniqueFd fd;
  ~Lent() { fd.release(); }
};

}  // namespace

std::int32_t pergpu_share_memory_create(const char* name, std::uint64_t size, std::uint32_t pages,
                                        pergpu_share_memory** memory, pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(name, memory); !there) return there;
    Result<Pages> kind = pages_of(pages);
    if (!kind) return std::move(kind).error();
    Result<Segment> segment = Segment::create(name, size, *kind);
    if (!segment) return std::move(segment).error();
    *memory = new pergpu_share_memory{std::move(*segment)};
    return {};
  });
}

std::int32_t pergpu_share_memory_adopt(int fd, pergpu_share_memory** memory,
                                       pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(memory); !there) return there;
    auto made = std::make_unique<pergpu_share_memory>();
    Lent lent{pergpu::os::UniqueFd(fd)};
    Result<Segment> segment = Segment::adopt(std::move(lent.fd));
    if (!segment) return std::move(segment).error();
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);  // the caller may have inherited it
    made->segment = std::move(*segment);
    *memory = made.release();
    return {};
  });
}

std::int32_t pergpu_share_memory_describe(const pergpu_share_memory* memory,
                                          pergpu_share_memory_info* info,
                                          pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(memory); !there) return there;
    if (Result<void> good = check_sized(info, "info"); !good) return good;
    const Segment& segment = *memory->segment;
    pergpu_share_memory_info told = {};
    told.fd = segment.fd();
    told.size = segment.size();
    told.sealed = segment.sealed() ? 1 : 0;
    told.pages =
        segment.pages() == Pages::Huge ? PERGPU_SHARE_PAGES_HUGE : PERGPU_SHARE_PAGES_NORMAL;
    write_sized(info, told);
    return {};
  });
}

std::int32_t pergpu_share_memory_seal(pergpu_share_memory* memory, pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(memory); !there) return there;
    return memory->segment->seal();
  });
}

std::int32_t pergpu_share_memory_map(const pergpu_share_memory* memory, std::uint32_t view,
                                     pergpu_share_mapping** mapping, pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(memory, mapping); !there) return there;
    Result<View> kind = view_of(view);
    if (!kind) return std::move(kind).error();
    Result<Mapping> mapped = memory->segment->map(*kind);
    if (!mapped) return std::move(mapped).error();
    *mapping = new pergpu_share_mapping{std::move(*mapped)};
    return {};
  });
}

void pergpu_share_memory_free(pergpu_share_memory* memory) {
  quietly([&] { delete memory; });
}

std::int32_t pergpu_share_file_map(int fd, std::uint64_t offset, std::uint64_t size,
                                   std::uint32_t view, pergpu_share_mapping** mapping,
                                   pergpu_share_error* error) {
  return guarded(error, [&]() -> Result<void> {
    if (Result<void> there = all_there(mapping); !there) return there;
    Result<View> kind = view_of(view);
    if (!kind) return std::move(kind).error();
    Result<FileMapping> mapped = FileMapping::map(fd, offset, size, *kind);
    if (!mapped) return std::move(mapped).error();
    *mapping = new pergpu_share_mapping{std::move(*mapped)};
    return {};
  });
}

void* pergpu_share_mapping_data(const pergpu_share_mapping* mapping) {
  if (mapping == nullptr) return nullptr;
  return std::visit([](const auto& pages) -> void* { return pages.data(); }, mapping->pages);
}

std::uint64_t pergpu_share_mapping_size(const pergpu_share_mapping* mapping) {
  if (mapping == nullptr) return 0;
  return std::visit([](const auto& pages) -> std::uint64_t { return pages.size(); },
                    mapping->pages);
}

void pergpu_share_mapping_free(pergpu_share_mapping* mapping) {
  quietly([&] { delete mapping; });
}
