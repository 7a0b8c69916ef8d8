// Batches come in order, each row once an epoch, from wherever one begins, and nothing that is held
// is filled anew.
#include "share/loader.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "share/permutation.h"

namespace pergpu::share {
namespace {

constexpr std::uint64_t kRows = 103;
constexpr auto kLong = std::chrono::seconds(30);

/// Row i of one array is i as 8 bytes, of the other one 13 bytes of i.
struct Arrays {
  std::vector<std::uint64_t> numbers;
  std::vector<std::uint8_t> bytes;

  Arrays() : numbers(kRows), bytes(kRows * 13) {
    std::iota(numbers.begin(), numbers.end(), 0u);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i / 13);
  }
  LoaderOptions options(std::uint32_t batch) const {
    LoaderOptions options;
    options.fields.resize(2);
    options.fields[0].data = reinterpret_cast<const std::byte*>(numbers.data());
    options.fields[0].row_bytes = 8;
    options.fields[1].data = reinterpret_cast<const std::byte*>(bytes.data());
    options.fields[1].row_bytes = 13;
    options.rows = kRows;
    options.batch = batch;
    return options;
  }
};

std::unique_ptr<Loader> opened(LoaderOptions options) {
  Result<std::unique_ptr<Loader>> loader = Loader::open(std::move(options));
  EXPECT_TRUE(loader) << loader.error().message;
  return std::move(*loader);
}

Loader::Batch next_of(Loader& loader) {
  Loader::Batch batch;
  Result<bool> next = loader.next(batch, kLong);
  EXPECT_TRUE(next && *next);
  return batch;
}

std::vector<std::uint64_t> numbers_in(const Loader& loader, const Loader::Batch& batch) {
  std::vector<std::uint64_t> numbers(batch.rows);
  std::memcpy(numbers.data(), batch.data + loader.offset_of(0), batch.rows * 8);
  for (std::uint32_t i = 0; i < batch.rows; ++i) {
    for (std::size_t byte = 0; byte < 13; ++byte) {
      EXPECT_EQ(std::to_integer<std::uint64_t>(batch.data[loader.offset_of(1) + i * 13 + byte]),
                numbers[i])
          << "the arrays of a batch belong together";
    }
  }
  return numbers;
}

/// All rows of so many batches.
std::vector<std::uint64_t> taken(Loader& loader, std::uint64_t batches) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < batches; ++i) {
    Loader::Batch batch = next_of(loader);
    EXPECT_EQ(batch.number, i % loader.batches());
    std::vector<std::uint64_t> some = numbers_in(loader, batch);
    all.insert(all.end(), some.begin(), some.end());
    loader.release(batch.slot);
  }
  return all;
}

TEST(Loader, BringsEachRowOnceAnEpochWhateverTheThreads) {
  Arrays arrays;
  std::vector<std::uint64_t> first;
  for (std::uint32_t threads : {1u, 2u, 5u}) {
    LoaderOptions options = arrays.options(10);
    options.threads = threads;
    options.seed = 5;
    std::unique_ptr<Loader> loader = opened(options);
    ASSERT_EQ(loader->batches(), 11u);
    std::vector<std::uint64_t> all = taken(*loader, 22);
    ASSERT_EQ(all.size(), 2 * kRows);
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      Permutation order(kRows, 5, epoch);
      for (std::uint64_t i = 0; i < kRows; ++i) ASSERT_EQ(all[epoch * kRows + i], order(i));
    }
  }
}

TEST(Loader, KeepsTheOrderWhereItIsNotToBeShuffled) {
  Arrays arrays;
  LoaderOptions options = arrays.options(7);
  options.shuffle = false;
  options.drop_last = true;
  std::unique_ptr<Loader> loader = opened(options);
  std::vector<std::uint64_t> all = taken(*loader, loader->batches());
  std::vector<std::uint64_t> expected(98);
  std::iota(expected.begin(), expected.end(), 0u);
  EXPECT_EQ(all, expected);
  EXPECT_EQ(numbers_in(*loader, next_of(*loader)).front(), 0u) << "the next epoch begins anew";
}

TEST(Loader, GoesOnWhereItWasTold) {
  Arrays arrays;
  std::vector<std::uint64_t> whole;
  {
    std::unique_ptr<Loader> loader = opened(arrays.options(10));
    whole = taken(*loader, 33);
  }
  for (std::uint64_t done = 0; done <= 22; ++done) {
    LoaderOptions options = arrays.options(10);
    options.epoch = done / 11;
    options.number = done % 11;
    std::unique_ptr<Loader> loader = opened(options);
    Loader::Batch batch = next_of(*loader);
    EXPECT_EQ(batch.epoch * 11 + batch.number, done);
    std::size_t at = done / 11 * kRows + done % 11 * 10;
    std::vector<std::uint64_t> rows = numbers_in(*loader, batch);
    EXPECT_TRUE(std::equal(rows.begin(), rows.end(), whole.begin() + static_cast<long>(at)));
  }
  LoaderOptions end = arrays.options(10);
  end.number = 11;  // the end of an epoch is the begin of the next one
  std::unique_ptr<Loader> loader = opened(end);
  EXPECT_EQ(next_of(*loader).epoch, 1u);
}

TEST(Loader, ShardsShareAnEpochWithoutOverlap) {
  Arrays arrays;
  std::vector<std::uint64_t> all;
  for (std::uint32_t shard = 0; shard < 3; ++shard) {
    LoaderOptions options = arrays.options(8);
    options.shards = 3;
    options.shard = shard;
    std::unique_ptr<Loader> loader = opened(options);
    std::vector<std::uint64_t> some = taken(*loader, loader->batches());
    all.insert(all.end(), some.begin(), some.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<std::uint64_t> expected(kRows);
  std::iota(expected.begin(), expected.end(), 0u);
  EXPECT_EQ(all, expected);
}

TEST(Loader, DoesNotTouchWhatIsHeldHoweverMuchThatIs) {
  Arrays arrays;
  LoaderOptions options = arrays.options(10);
  options.ahead = 3;
  options.threads = 2;
  std::unique_ptr<Loader> loader = opened(options);
  std::vector<Loader::Batch> held;
  std::vector<std::vector<std::uint64_t>> before;
  for (int i = 0; i < 40; ++i) {
    held.push_back(next_of(*loader));
    before.push_back(numbers_in(*loader, held.back()));
    loader->release(next_of(*loader).slot);
  }
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(numbers_in(*loader, held[i]), before[i]);
    loader->release(held[i].slot);
    loader->release(held[i].slot);  // what is not held stays as it is
  }
  loader->release(9999);
  Loader::Batch batch = next_of(*loader);
  EXPECT_EQ(batch.epoch * 11 + batch.number, 80u);
}

TEST(Loader, FillsTheSlotsAnewThatComeBack) {
  Arrays arrays;
  LoaderOptions options = arrays.options(10);
  options.ahead = 2;
  std::unique_ptr<Loader> loader = opened(options);
  std::set<std::byte*> places;
  for (int i = 0; i < 100; ++i) {
    Loader::Batch batch = next_of(*loader);
    places.insert(batch.data);
    loader->release(batch.slot);
  }
  EXPECT_LE(places.size(), 3u);
}

TEST(Loader, GoesToAnyPlaceWhileItsThreadsWork) {
  Arrays arrays;
  LoaderOptions options = arrays.options(10);
  options.threads = 3;
  options.ahead = 4;
  std::unique_ptr<Loader> loader = opened(options);
  Loader::Batch held = next_of(*loader);
  std::vector<std::uint64_t> before = numbers_in(*loader, held);
  for (std::uint64_t i = 0; i < 200; ++i) {
    std::uint64_t epoch = i % 7;
    std::uint64_t number = i % 11;
    ASSERT_TRUE(loader->seek(epoch, number));
    Permutation order(kRows, 0, epoch);
    Loader::Batch batch = next_of(*loader);
    ASSERT_EQ(batch.epoch, epoch);
    ASSERT_EQ(batch.number, number);
    ASSERT_EQ(numbers_in(*loader, batch).front(), order(number * 10));
    loader->release(batch.slot);
  }
  EXPECT_EQ(numbers_in(*loader, held), before);
  EXPECT_EQ(loader->seek(0, 12).error().kind, ErrorKind::Invalid);
  EXPECT_EQ(loader->seek(~std::uint64_t{0}, 0).error().kind, ErrorKind::Invalid);
}

TEST(Loader, WhatIsHeldStaysWhenItIsStopped) {
  Arrays arrays;
  LoaderOptions options = arrays.options(10);
  options.threads = 2;
  std::unique_ptr<Loader> loader = opened(options);
  Loader::Batch held = next_of(*loader);
  std::vector<std::uint64_t> before = numbers_in(*loader, held);
  loader->stop();
  loader->stop();
  EXPECT_EQ(numbers_in(*loader, held), before);
  Loader::Batch none;
  EXPECT_EQ(loader->next(none, kLong).error().message, "the loader was closed");
  loader->release(held.slot);
}

TEST(Loader, WhoWaitsWhileItIsStoppedIsToldSo) {
  std::vector<std::uint8_t> slow(1 << 20);
  for (int i = 0; i < 20; ++i) {
    LoaderOptions options;
    options.fields.resize(1);
    options.fields[0].data = reinterpret_cast<const std::byte*>(slow.data());
    options.fields[0].row_bytes = slow.size();
    options.rows = 1;
    options.batch = 1;
    std::unique_ptr<Loader> loader = opened(options);
    std::thread waiting([&] {
      Loader::Batch batch;
      while (loader->next(batch, kLong)) loader->release(batch.slot);
    });
    loader->wait(kLong);
    loader->stop();
    waiting.join();
  }
}

TEST(Loader, AForkedProcessSeesWhatWasHeldAndCanEnd) {
  Arrays arrays;
  LoaderOptions options = arrays.options(10);
  options.threads = 2;
  std::unique_ptr<Loader> loader = opened(options);
  Loader::Batch held = next_of(*loader);
  std::vector<std::uint64_t> before = numbers_in(*loader, held);
  int filled_anew[2];
  ASSERT_EQ(::pipe(filled_anew), 0);
  pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    bool read = ::read(filled_anew[0], &byte, 1) == 1;
    bool same = numbers_in(*loader, held) == before;
    loader.reset();
    ::_exit(read && same ? 0 : 1);
  }
  loader->release(held.slot);
  for (int i = 0; i < 20; ++i) loader->release(next_of(*loader).slot);
  ASSERT_EQ(::write(filled_anew[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::close(filled_anew[0]);
  ::close(filled_anew[1]);
}

TEST(Loader, TurnsImagesAnotherWayInEachEpochAndTheSameWayEachTime) {
  std::vector<std::uint8_t> images(kRows * 12);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<std::uint8_t>(i % 251);
  ImageTransform transform;
  transform.height = 3;
  transform.width = 4;
  transform.channels = 1;
  transform.random_flip = true;
  LoaderOptions options;
  options.fields.resize(1);
  options.fields[0].data = reinterpret_cast<const std::byte*>(images.data());
  options.fields[0].row_bytes = 12;
  options.fields[0].kernel = *ImageKernel::make(transform);
  options.rows = kRows;
  options.batch = kRows;
  options.shuffle = false;
  std::vector<std::vector<std::byte>> epochs;
  for (int again = 0; again < 2; ++again) {
    options.threads = 1 + static_cast<std::uint32_t>(again);
    std::unique_ptr<Loader> loader = opened(options);
    for (int epoch = 0; epoch < 2; ++epoch) {
      Loader::Batch batch = next_of(*loader);
      const std::byte* begin = batch.data;
      epochs.emplace_back(begin, begin + kRows * 12 * 4);
      loader->release(batch.slot);
    }
  }
  EXPECT_EQ(epochs[0], epochs[2]);
  EXPECT_EQ(epochs[1], epochs[3]);
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(Loader, ABatchMayBeFarLargerThanTheData) {
  const std::byte nothing = {};
  LoaderOptions options;
  options.fields.resize(1);
  options.fields[0].data = &nothing;
  options.rows = 3;
  options.batch = 0xffffffff;
  std::unique_ptr<Loader> loader = opened(std::move(options));
  EXPECT_EQ(next_of(*loader).rows, 3u);
}

TEST(Loader, EndsInTheMiddleOfItsWork) {
  Arrays arrays;
  for (int i = 0; i < 100; ++i) {
    LoaderOptions options = arrays.options(10);
    options.threads = 3;
    std::unique_ptr<Loader> loader = opened(options);
    for (int batch = 0; batch < i % 4; ++batch) next_of(*loader);
  }
}

TEST(Loader, WhatDoesNotFitIsRefusedWithTheNumbers) {
  Arrays arrays;
  auto words = [](LoaderOptions options) {
    Result<std::unique_ptr<Loader>> loader = Loader::open(std::move(options));
    return loader ? std::string("opened") : loader.error().message;
  };
  EXPECT_EQ(words({}), "a loader needs at least one array");
  LoaderOptions late = arrays.options(10);
  late.number = 12;
  EXPECT_EQ(words(late), "an epoch has 11 batches, so there is no batch 12");
  LoaderOptions few = arrays.options(200);
  few.drop_last = true;
  EXPECT_EQ(words(few), "an epoch of 103 rows is smaller than a batch of 200");
  LoaderOptions shard = arrays.options(10);
  shard.shard = 1;
  EXPECT_EQ(words(shard), "shard 1 isn't less than the number of shards, 1");
  LoaderOptions large = arrays.options(1u << 31);
  large.fields[0].row_bytes = std::size_t{1} << 46;
  EXPECT_NE(words(large).find("is too large"), std::string::npos);
  LoaderOptions none = arrays.options(10);
  none.batch = 0;
  EXPECT_EQ(words(none), "a batch needs at least one row");
  LoaderOptions threads = arrays.options(10);
  threads.threads = 0;
  EXPECT_EQ(words(threads), "a loader can have 1 to 1024 threads, not 0");
  LoaderOptions ahead = arrays.options(10);
  ahead.ahead = 0;
  EXPECT_EQ(words(ahead), "a loader can prepare 1 to 65536 batches ahead, not 0");
  LoaderOptions much = arrays.options(1u << 31);
  much.ahead = 1 << 15;
  EXPECT_NE(words(much).find("are free"), std::string::npos);
  LoaderOptions image = arrays.options(10);
  ImageTransform transform;
  transform.height = transform.width = transform.channels = 2;
  image.fields[1].kernel = *ImageKernel::make(transform);
  EXPECT_EQ(words(image), "an image has 8 bytes, but a row of its array has 13");
}

}  // namespace
}  // namespace pergpu::share
