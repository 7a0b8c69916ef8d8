// The C interface, from within: whatever a caller hands over, nothing is thrown, read or written
// where it should not be.  The installed library is tested by test_installed_library.py.
#include <fcntl.h>
#include <pergpu_share.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "share/rig.h"

namespace pergpu::share {
namespace {

struct Failure : pergpu_share_error {
  Failure() : pergpu_share_error{} {}
};

pergpu_share_memory* make_memory(const char* words) {
  Failure error;
  pergpu_share_memory* memory = nullptr;
  EXPECT_EQ(pergpu_share_memory_create("test", 5000, 0, &memory, &error), 0) << error.message;
  pergpu_share_mapping* mapping = nullptr;
  EXPECT_EQ(pergpu_share_memory_map(memory, PERGPU_SHARE_VIEW_SHARED, &mapping, &error), 0);
  std::strcpy(static_cast<char*>(pergpu_share_mapping_data(mapping)), words);
  pergpu_share_mapping_free(mapping);
  return memory;
}

pergpu_share_memory_info info_of(const pergpu_share_memory* memory) {
  pergpu_share_memory_info info = {};
  info.struct_size = sizeof(info);
  EXPECT_EQ(pergpu_share_memory_describe(memory, &info, nullptr), 0);
  return info;
}

pergpu_share_channel* make_c_channel() {
  pergpu_share_channel_options options = {};
  options.struct_size = sizeof(options);
  options.slot_bytes = 64;
  options.slots_per_lane = 2;
  Failure error;
  pergpu_share_channel* channel = nullptr;
  EXPECT_EQ(pergpu_share_channel_create(&options, &channel, &error), 0) << error.message;
  return channel;
}

pergpu_share_acquired acquire(pergpu_share_producer* producer) {
  pergpu_share_acquired got = {};
  got.struct_size = sizeof(got);
  EXPECT_EQ(pergpu_share_producer_acquire(producer, soon(), &got, nullptr), 0);
  return got;
}

pergpu_share_taken take(pergpu_share_consumer* consumer) {
  pergpu_share_taken got = {};
  got.struct_size = sizeof(got);
  EXPECT_EQ(pergpu_share_consumer_take(consumer, soon(), &got, nullptr), 0);
  return got;
}

TEST(CApi, NullIsTold) {
  Failure error;
  const std::int32_t told[] = {
      pergpu_share_memory_create(nullptr, 1, 0, nullptr, &error),
      pergpu_share_memory_adopt(0, nullptr, &error),
      pergpu_share_memory_describe(nullptr, nullptr, &error),
      pergpu_share_memory_seal(nullptr, &error),
      pergpu_share_memory_map(nullptr, 0, nullptr, &error),
      pergpu_share_file_map(0, 0, 1, 0, nullptr, &error),
      pergpu_share_channel_create(nullptr, nullptr, &error),
      pergpu_share_channel_adopt(0, nullptr, &error),
      pergpu_share_channel_describe(nullptr, nullptr, &error),
      pergpu_share_channel_place(nullptr, 0, 0, nullptr, &error),
      pergpu_share_channel_complete(nullptr, &error),
      pergpu_share_producer_attach(nullptr, nullptr, &error),
      pergpu_share_producer_index(nullptr, nullptr, &error),
      pergpu_share_producer_acquire(nullptr, 0, nullptr, &error),
      pergpu_share_producer_publish(nullptr, nullptr, 0, &error),
      pergpu_share_producer_abandon(nullptr, nullptr, &error),
      pergpu_share_producer_close(nullptr, &error),
      pergpu_share_consumer_attach(nullptr, nullptr, &error),
      pergpu_share_consumer_index(nullptr, nullptr, &error),
      pergpu_share_consumer_take(nullptr, 0, nullptr, &error),
      pergpu_share_consumer_release(nullptr, nullptr, &error),
      pergpu_share_loader_open(nullptr, nullptr, &error),
      pergpu_share_loader_describe(nullptr, nullptr, &error),
      pergpu_share_loader_next(nullptr, 0, nullptr, &error),
      pergpu_share_loader_data(nullptr, 0, 0, nullptr, nullptr, &error),
      pergpu_share_loader_release(nullptr, 0, &error),
  };
  for (std::int32_t code : told) EXPECT_EQ(code, PERGPU_SHARE_INVALID);
  EXPECT_STREQ(error.message, "a required pointer is NULL");
  EXPECT_EQ(pergpu_share_mapping_data(nullptr), nullptr);
  EXPECT_EQ(pergpu_share_mapping_size(nullptr), 0u);
  pergpu_share_memory_free(nullptr);
  pergpu_share_mapping_free(nullptr);
  pergpu_share_channel_free(nullptr);
  pergpu_share_producer_free(nullptr);
  pergpu_share_consumer_free(nullptr);
  pergpu_share_loader_free(nullptr);
}

TEST(CApi, AnErrorNamesTheObjectAndErrnoStays) {
  Failure error;
  pergpu_share_memory* memory = nullptr;
  errno = 77;
  EXPECT_EQ(pergpu_share_memory_create("test", std::uint64_t{1} << 50, 0, &memory, &error),
            PERGPU_SHARE_FULL);
  EXPECT_EQ(errno, 77);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(error.code, PERGPU_SHARE_FULL);
  EXPECT_NE(std::string(error.message).find("1125899906842624 bytes"), std::string::npos)
      << error.message;
  EXPECT_EQ(pergpu_share_memory_create("test", 0, 0, &memory, nullptr), PERGPU_SHARE_INVALID);
  EXPECT_EQ(pergpu_share_memory_create("test", 1, 7, &memory, &error), PERGPU_SHARE_INVALID);
  EXPECT_STREQ(error.message, "there are no pages 7");
}

TEST(CApi, EveryNumberHasItsName) {
  EXPECT_STREQ(pergpu_share_code_name(PERGPU_SHARE_OK), "ok");
  EXPECT_STREQ(pergpu_share_code_name(PERGPU_SHARE_IO), "io");
  EXPECT_STREQ(pergpu_share_code_name(-1), "");
  EXPECT_STREQ(pergpu_share_code_name(9), "");
  EXPECT_STREQ(pergpu_share_outcome_name(PERGPU_SHARE_STALE), "stale");
  EXPECT_STREQ(pergpu_share_outcome_name(9), "");
}

TEST(CApi, ADeadlineIsNeverPastTheEnd) {
  EXPECT_EQ(pergpu_share_deadline(0), 0);
  EXPECT_EQ(pergpu_share_deadline(-5), 0);
  EXPECT_EQ(pergpu_share_deadline(PERGPU_SHARE_FOREVER), PERGPU_SHARE_FOREVER);
  EXPECT_EQ(pergpu_share_deadline(PERGPU_SHARE_FOREVER - 1), PERGPU_SHARE_FOREVER);
  std::int64_t before = os::awake_now_ns();
  EXPECT_GE(pergpu_share_deadline(kMs), before + kMs);
}

TEST(CApi, StructsOfOtherVersionsAreUnderstoodOrRefused) {
  struct Later {
    pergpu_share_channel_options options = {};
    std::uint64_t more = 0;
  } later;
  later.options.struct_size = sizeof(later);
  later.options.slot_bytes = 64;
  Failure error;
  pergpu_share_channel* channel = nullptr;
  ASSERT_EQ(pergpu_share_channel_create(&later.options, &channel, &error), 0) << error.message;
  pergpu_share_channel* refused = nullptr;
  later.more = 1;
  EXPECT_EQ(pergpu_share_channel_create(&later.options, &refused, &error), PERGPU_SHARE_INVALID);
  EXPECT_NE(std::string(error.message).find("a later version"), std::string::npos);
  for (std::uint32_t size : {0u, 4u, 39u, 5000u}) {
    later.options.struct_size = size;
    EXPECT_EQ(pergpu_share_channel_create(&later.options, &refused, &error), PERGPU_SHARE_INVALID);
  }
  EXPECT_EQ(refused, nullptr);

  struct {
    pergpu_share_channel_info info = {};
    std::uint64_t more = 5;
    std::uint64_t beyond = 6;
  } told;
  told.info.struct_size = sizeof(told.info) + sizeof(told.more);
  ASSERT_EQ(pergpu_share_channel_describe(channel, &told.info, &error), 0) << error.message;
  EXPECT_EQ(told.info.slot_bytes, 64u);
  EXPECT_EQ(told.info.slots_per_lane, 4u) << "0 is the default";
  EXPECT_EQ(told.more, 0u) << "a later field that is not known";
  EXPECT_EQ(told.beyond, 6u);
  told.info.struct_size = 8;
  EXPECT_EQ(pergpu_share_channel_describe(channel, &told.info, &error), PERGPU_SHARE_INVALID);
  pergpu_share_channel_free(channel);
}

TEST(CApi, MemoryIsSharedByItsDescriptorAndSealed) {
  pergpu_share_memory* memory = make_memory("words");
  pergpu_share_memory_info info = info_of(memory);
  EXPECT_EQ(info.size, 5000u);
  EXPECT_EQ(info.sealed, 0);
  Failure error;
  pergpu_share_memory* other = nullptr;
  int copy = ::fcntl(info.fd, F_DUPFD, 0);
  ASSERT_EQ(pergpu_share_memory_adopt(copy, &other, &error), 0) << error.message;
  EXPECT_EQ(::fcntl(copy, F_GETFD), FD_CLOEXEC);
  ASSERT_EQ(pergpu_share_memory_seal(memory, &error), 0) << error.message;
  pergpu_share_memory_free(memory);
  EXPECT_EQ(info_of(other).sealed, 1);
  pergpu_share_mapping* mapping = nullptr;
  EXPECT_EQ(pergpu_share_memory_map(other, PERGPU_SHARE_VIEW_SHARED, &mapping, &error),
            PERGPU_SHARE_DENIED);
  EXPECT_EQ(mapping, nullptr);
  ASSERT_EQ(pergpu_share_memory_map(other, PERGPU_SHARE_VIEW_READ_ONLY, &mapping, &error), 0);
  pergpu_share_memory_free(other);
  EXPECT_STREQ(static_cast<char*>(pergpu_share_mapping_data(mapping)), "words");
  EXPECT_EQ(pergpu_share_mapping_size(mapping), 5000u);
  pergpu_share_mapping_free(mapping);
}

TEST(CApi, ADescriptorThatIsRefusedStaysTheCallers) {
  int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  Failure error;
  pergpu_share_memory* memory = nullptr;
  pergpu_share_channel* channel = nullptr;
  EXPECT_EQ(pergpu_share_memory_adopt(null, &memory, &error), PERGPU_SHARE_INVALID);
  EXPECT_EQ(pergpu_share_channel_adopt(null, &channel, &error), PERGPU_SHARE_INVALID);
  EXPECT_GE(::fcntl(null, F_GETFD), 0);
  ::close(null);
  EXPECT_EQ(pergpu_share_memory_adopt(-1, &memory, &error), PERGPU_SHARE_INVALID);
  EXPECT_EQ(pergpu_share_channel_adopt(-1, &channel, &error), PERGPU_SHARE_INVALID);
  pergpu_share_memory* no_channel = make_memory("this is no channel");
  EXPECT_EQ(pergpu_share_channel_adopt(info_of(no_channel).fd, &channel, &error),
            PERGPU_SHARE_CORRUPT);
  EXPECT_EQ(info_of(no_channel).size, 5000u);
  EXPECT_GE(::fcntl(info_of(no_channel).fd, F_GETFD), 0);
  pergpu_share_memory_free(no_channel);
}

TEST(CApi, APartOfAFileIsMapped) {
  char path[] = "/tmp/pergpu_c_api_XXXXXX";
  int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  ::unlink(path);
  ASSERT_EQ(::write(fd, "0123456789", 10), 10);
  Failure error;
  pergpu_share_mapping* mapping = nullptr;
  EXPECT_EQ(pergpu_share_file_map(fd, 3, 8, PERGPU_SHARE_VIEW_READ_ONLY, &mapping, &error),
            PERGPU_SHARE_INVALID);
  ASSERT_EQ(pergpu_share_file_map(fd, 3, 7, PERGPU_SHARE_VIEW_READ_ONLY, &mapping, &error), 0);
  ::close(fd);
  EXPECT_EQ(std::memcmp(pergpu_share_mapping_data(mapping), "3456789", 7), 0);
  pergpu_share_mapping_free(mapping);
}

TEST(CApi, WhatGoesIntoAChannelComesOut) {
  pergpu_share_channel* channel = make_c_channel();
  Failure error;
  pergpu_share_producer* producer = nullptr;
  pergpu_share_consumer* consumer = nullptr;
  ASSERT_EQ(pergpu_share_producer_attach(channel, &producer, &error), 0) << error.message;
  ASSERT_EQ(pergpu_share_consumer_attach(channel, &consumer, &error), 0) << error.message;
  pergpu_share_producer* second = nullptr;
  EXPECT_EQ(pergpu_share_producer_attach(channel, &second, &error), PERGPU_SHARE_BUSY);
  for (std::uint64_t number = 1; number <= 5; ++number) {
    pergpu_share_acquired got = acquire(producer);
    ASSERT_EQ(got.outcome, PERGPU_SHARE_READY);
    ASSERT_EQ(got.slot.size, 64u);
    std::memcpy(got.slot.data, &number, 8);
    EXPECT_EQ(pergpu_share_producer_publish(producer, &got.slot, 65, &error), PERGPU_SHARE_INVALID);
    ASSERT_EQ(pergpu_share_producer_publish(producer, &got.slot, 8, &error), 0) << error.message;
    EXPECT_EQ(pergpu_share_producer_publish(producer, &got.slot, 8, &error), PERGPU_SHARE_INVALID);
    pergpu_share_place_info place = {};
    place.struct_size = sizeof(place);
    ASSERT_EQ(pergpu_share_channel_place(channel, PERGPU_SHARE_CONSUMERS, 0, &place, &error), 0);
    EXPECT_EQ(place.ready, 1u);
    EXPECT_EQ(place.alive, 1u);
    EXPECT_EQ(place.pid, static_cast<std::uint32_t>(::getpid()));
    pergpu_share_taken taken = take(consumer);
    ASSERT_EQ(taken.outcome, PERGPU_SHARE_READY);
    EXPECT_EQ(taken.item.sequence, number);
    EXPECT_EQ(taken.item.bytes, 8u);
    EXPECT_EQ(std::memcmp(taken.item.data, &number, 8), 0);
    ASSERT_EQ(pergpu_share_consumer_release(consumer, &taken.item, &error), 0) << error.message;
    EXPECT_EQ(pergpu_share_consumer_release(consumer, &taken.item, &error), PERGPU_SHARE_INVALID);
  }
  pergpu_share_acquired unused = acquire(producer);
  EXPECT_EQ(pergpu_share_producer_abandon(producer, &unused.slot, &error), 0);
  EXPECT_EQ(pergpu_share_producer_close(producer, &error), 0);
  EXPECT_EQ(acquire(producer).outcome, PERGPU_SHARE_ENDED);
  EXPECT_EQ(take(consumer).outcome, PERGPU_SHARE_ENDED);
  pergpu_share_channel_free(channel);  // its ends do not need it
  EXPECT_EQ(take(consumer).outcome, PERGPU_SHARE_ENDED);
  pergpu_share_producer_free(producer);
  pergpu_share_consumer_free(consumer);
}

TEST(CApi, PlacesAndFlagsThatAreNotThereAreRefused) {
  pergpu_share_channel* channel = make_c_channel();
  Failure error;
  pergpu_share_place_info place = {};
  place.struct_size = sizeof(place);
  EXPECT_EQ(pergpu_share_channel_place(channel, 0, 1, &place, &error), PERGPU_SHARE_INVALID);
  EXPECT_EQ(pergpu_share_channel_place(channel, 2, 0, &place, &error), PERGPU_SHARE_INVALID);
  ASSERT_EQ(pergpu_share_channel_complete(channel, &error), 0);
  pergpu_share_producer* producer = nullptr;
  EXPECT_EQ(pergpu_share_producer_attach(channel, &producer, &error), PERGPU_SHARE_INVALID);
  pergpu_share_channel_free(channel);
  pergpu_share_channel_options options = {};
  options.struct_size = sizeof(options);
  options.slot_bytes = 64;
  options.page_aligned = 2;
  EXPECT_EQ(pergpu_share_channel_create(&options, &channel, &error), PERGPU_SHARE_INVALID);
  EXPECT_STREQ(error.message, "page_aligned is 2: expected 0 or 1");
  options.page_aligned = 0;
  options.reserved = 1;
  EXPECT_EQ(pergpu_share_channel_create(&options, &channel, &error), PERGPU_SHARE_INVALID);
}

TEST(CApi, ADeathIsAnOutcome) {
  pergpu_share_channel* channel = make_c_channel();
  pergpu_share_consumer* consumer = nullptr;
  ASSERT_EQ(pergpu_share_consumer_attach(channel, &consumer, nullptr), 0);
  Forked other([&] {
    pergpu_share_producer* producer = nullptr;
    if (pergpu_share_producer_attach(channel, &producer, nullptr) != 0) return 1;
    pergpu_share_acquired got = acquire(producer);
    pergpu_share_producer_publish(producer, &got.slot, 8, nullptr);
    ::raise(SIGKILL);
    return 2;
  });
  pergpu_share_taken taken = take(consumer);
  ASSERT_EQ(taken.outcome, PERGPU_SHARE_READY);
  ASSERT_EQ(pergpu_share_consumer_release(consumer, &taken.item, nullptr), 0);
  taken = take(consumer);
  ASSERT_EQ(taken.outcome, PERGPU_SHARE_PEER_DIED);
  EXPECT_EQ(taken.peer.pid, static_cast<std::uint32_t>(other.pid()));
  EXPECT_EQ(taken.peer.last_sequence, 1u);
  pergpu_share_consumer_free(consumer);
  pergpu_share_channel_free(channel);
}

struct Rows {
  std::vector<std::uint32_t> values;
  pergpu_share_field field = {};
  pergpu_share_loader_options options = {};

  explicit Rows(std::uint32_t count) : values(count) {
    std::iota(values.begin(), values.end(), 0u);
    field = {.data = values.data(), .row_bytes = 4, .image = nullptr};
    options.struct_size = sizeof(options);
    options.field_count = 1;
    options.fields = &field;
    options.rows = count;
    options.batch = 4;
    options.ahead = 2;
  }
};

pergpu_share_batch next(pergpu_share_loader* loader) {
  pergpu_share_batch batch = {};
  batch.struct_size = sizeof(batch);
  Failure error;
  EXPECT_EQ(pergpu_share_loader_next(loader, soon(), &batch, &error), 0) << error.message;
  return batch;
}

TEST(CApi, ALoaderBringsEachRowOnceAnEpoch) {
  Rows rows(10);
  Failure error;
  pergpu_share_loader* loader = nullptr;
  ASSERT_EQ(pergpu_share_loader_open(&rows.options, &loader, &error), 0) << error.message;
  pergpu_share_loader_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(pergpu_share_loader_describe(loader, &info, &error), 0);
  EXPECT_EQ(info.batches, 3u);
  EXPECT_EQ(info.threads, 1u);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<std::uint32_t> seen;
    for (std::uint64_t number = 0; number < info.batches; ++number) {
      pergpu_share_batch batch = next(loader);
      ASSERT_EQ(batch.outcome, PERGPU_SHARE_READY);
      EXPECT_EQ(batch.epoch, epoch);
      EXPECT_EQ(batch.number, number);
      void* data = nullptr;
      std::uint64_t row_bytes = 0;
      ASSERT_EQ(pergpu_share_loader_data(loader, batch.slot, 0, &data, &row_bytes, &error), 0);
      ASSERT_EQ(row_bytes, 4u);
      const auto* values = static_cast<std::uint32_t*>(data);
      seen.insert(seen.end(), values, values + batch.rows);
      ASSERT_EQ(pergpu_share_loader_release(loader, batch.slot, &error), 0);
      EXPECT_EQ(pergpu_share_loader_release(loader, batch.slot, &error), PERGPU_SHARE_INVALID);
    }
    EXPECT_FALSE(std::is_sorted(seen.begin(), seen.end()));
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, rows.values);
  }
  pergpu_share_loader_free(loader);
}

TEST(CApi, ALoaderTellsMistakes) {
  Rows rows(10);
  rows.options.in_order = 1;
  Failure error;
  pergpu_share_loader* loader = nullptr;
  ASSERT_EQ(pergpu_share_loader_open(&rows.options, &loader, &error), 0) << error.message;
  void* data = nullptr;
  std::uint64_t row_bytes = 0;
  EXPECT_EQ(pergpu_share_loader_data(loader, 0, 0, &data, &row_bytes, &error), PERGPU_SHARE_INVALID)
      << "nobody has it";
  EXPECT_EQ(pergpu_share_loader_data(loader, 0, 1, &data, &row_bytes, &error),
            PERGPU_SHARE_INVALID);
  EXPECT_EQ(pergpu_share_loader_release(loader, 0, &error), PERGPU_SHARE_INVALID)
      << "nobody has it";
  EXPECT_EQ(pergpu_share_loader_release(loader, 2, &error), PERGPU_SHARE_INVALID);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(next(loader).outcome, PERGPU_SHARE_READY) << "kept ones keep nobody waiting";
  }
  Forked child([&] {
    pergpu_share_batch batch = {};
    batch.struct_size = sizeof(batch);
    std::int32_t code = pergpu_share_loader_next(loader, 0, &batch, nullptr);
    if (pergpu_share_loader_data(loader, 0, 0, &data, &row_bytes, nullptr) != code) return 1;
    if (pergpu_share_loader_release(loader, 0, nullptr) != code) return 2;
    pergpu_share_loader_free(loader);
    return code;
  });
  EXPECT_EQ(child.wait(), PERGPU_SHARE_UNAVAILABLE);
  pergpu_share_loader_free(loader);

  pergpu_share_image image = {};
  image.struct_size = sizeof(image);
  image.height = image.width = 2;
  image.channels = 1;
  rows.field.image = &image;
  image.scale = 0.5f;
  EXPECT_EQ(pergpu_share_loader_open(&rows.options, &loader, &error), PERGPU_SHARE_INVALID)
      << "bytes with a scale";
  image.type = 9;
  EXPECT_EQ(pergpu_share_loader_open(&rows.options, &loader, &error), PERGPU_SHARE_INVALID);
  rows.field.data = nullptr;
  EXPECT_EQ(pergpu_share_loader_open(&rows.options, &loader, &error), PERGPU_SHARE_INVALID);
  rows.options.fields = nullptr;
  EXPECT_EQ(pergpu_share_loader_open(&rows.options, &loader, &error), PERGPU_SHARE_INVALID);
}

TEST(CApi, ImagesAreNormalised) {
  Rows rows(4);  // each of four bytes: an image of 2 x 2
  const float mean = 1.0f;
  const float deviation = 2.0f;
  pergpu_share_image image = {};
  image.struct_size = sizeof(image);
  image.height = image.width = 2;
  image.channels = 1;
  image.type = PERGPU_SHARE_FLOAT32;
  image.scale = 1.0f;
  image.mean = &mean;
  image.deviation = &deviation;
  rows.field.image = &image;
  rows.options.in_order = 1;
  Failure error;
  pergpu_share_loader* loader = nullptr;
  ASSERT_EQ(pergpu_share_loader_open(&rows.options, &loader, &error), 0) << error.message;
  pergpu_share_batch batch = next(loader);
  void* data = nullptr;
  std::uint64_t row_bytes = 0;
  ASSERT_EQ(pergpu_share_loader_data(loader, batch.slot, 0, &data, &row_bytes, &error), 0);
  ASSERT_EQ(row_bytes, 16u);
  const auto* bytes = reinterpret_cast<const unsigned char*>(rows.values.data());
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(static_cast<float*>(data)[i], (static_cast<float>(bytes[i]) - 1.0f) / 2.0f);
  }
  pergpu_share_loader_free(loader);
}

}  // namespace
}  // namespace pergpu::share
