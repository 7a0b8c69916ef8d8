// libpergpu_share: memory, channels and batches that processes of one machine share, for any
// language that can call C.  C99; `pkg-config --cflags --libs pergpu_share`.  What is promised
// about deaths and wake-ups: docs/share.md.  C++ has pergpu_share.hpp on top of this file.
//
// Errors.  A function that can fail returns a pergpu_share_code, PERGPU_SHARE_OK (0) when it did
// what it is for, and takes a pergpu_share_error last, which it fills when it returns anything
// else; NULL: no words are wanted.  Results are written on success only.  NULL where something is
// needed is PERGPU_SHARE_INVALID, never a crash.  Nothing throws, prints, or changes errno or a
// signal's handler.  How a wait ended is no error: it is an outcome.
//
// Ownership.  What _create, _adopt, _attach, _open and _map return is the caller's, who gives it to
// the _free of its type, once; NULL is fine there.  Parts do not need what they were made of: a
// mapping outlives its memory's handle, a producer its channel's.  Descriptors that a describe
// tells stay the library's: dup() them, send them to another process (SCM_RIGHTS), or let a child
// inherit them (they are close-on-exec).
//
// Threads.  Different handles never get in each other's way.  One handle of memory, a mapping or a
// channel may be used by many threads at once.  A producer or a consumer is used by one thread at a
// time, and so is pergpu_share_loader_next; pergpu_share_loader_release may be called by any.
// Nobody may use what somebody else is freeing.  A thread that is in here is not to be cancelled
// (pthread_cancel).
//
// fork().  A child sees the parent's handles of producers, consumers and loaders as stale: it may
// free them, and all else is PERGPU_SHARE_STALE or PERGPU_SHARE_UNAVAILABLE.
//
// Units.  Sizes are bytes.  A deadline is a moment of CLOCK_MONOTONIC in nanoseconds
// (pergpu_share_deadline), PERGPU_SHARE_FOREVER, or 0: do not wait.
//
// Later versions.  A struct that begins with struct_size is set to zero by the caller, who then
// writes its sizeof there; a library that knows more fields takes those as zero, one that knows
// fewer refuses any that is not zero.  The others never change.
#ifndef PERGPU_SHARE_H
#define PERGPU_SHARE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PERGPU_SHARE_API __attribute__((visibility("default")))

// The interface of this file.  A library of the same number has all of it (SONAME
// libpergpu_share.so.1).
#define PERGPU_SHARE_ABI 1
PERGPU_SHARE_API uint32_t pergpu_share_abi(void);
// Of pergpu, "0.2.0"; never freed.
PERGPU_SHARE_API const char* pergpu_share_version(void);

// ---- errors ----

typedef enum pergpu_share_code {
  PERGPU_SHARE_OK = 0,
  PERGPU_SHARE_NOT_FOUND = 1,    // the named thing does not exist
  PERGPU_SHARE_BUSY = 2,         // somebody else has it; may work later
  PERGPU_SHARE_INVALID = 3,      // the call itself is wrong
  PERGPU_SHARE_UNAVAILABLE = 4,  // the handle is of no use any more
  PERGPU_SHARE_CORRUPT = 5,      // shared memory holds what cannot be
  PERGPU_SHARE_DENIED = 6,       // permissions, or a seal
  PERGPU_SHARE_FULL = 7,         // not so much memory
  PERGPU_SHARE_IO = 8            // any other failure of the operating system
} pergpu_share_code;

// Never changes.  The caller's; filled by a call that fails, else left alone.
typedef struct pergpu_share_error {
  int32_t code;       // pergpu_share_code
  int32_t os_errno;   // 0: no system call was involved
  char message[504];  // names the object and the value; ends with a zero, is cut if it is too long
} pergpu_share_error;

// "invalid", …; "" for a number that is none.
PERGPU_SHARE_API const char* pergpu_share_code_name(int32_t code);

// ---- time ----

#define PERGPU_SHARE_FOREVER INT64_MAX

// So many nanoseconds from now; 0 for none or less, PERGPU_SHARE_FOREVER stays that.
PERGPU_SHARE_API int64_t pergpu_share_deadline(int64_t nanoseconds);

// ---- memory ----

// Memory that has a descriptor and no name, of a size that nobody changes; gone with its last
// descriptor and its last mapping, however processes end.
typedef struct pergpu_share_memory pergpu_share_memory;
// A part of memory, or of a file, in this process.
typedef struct pergpu_share_mapping pergpu_share_mapping;

typedef enum pergpu_share_pages {
  PERGPU_SHARE_PAGES_NORMAL = 0,
  PERGPU_SHARE_PAGES_HUGE = 1  // of the kernel's pool, where it has enough; else normal ones
} pergpu_share_pages;

typedef enum pergpu_share_view {
  PERGPU_SHARE_VIEW_PRIVATE = 0,    // writable; who writes a page has it for itself from then on
  PERGPU_SHARE_VIEW_READ_ONLY = 1,  // a write is a SIGSEGV
  PERGPU_SHARE_VIEW_SHARED = 2      // what is written all see; not of what is sealed
} pergpu_share_view;

typedef struct pergpu_share_memory_info {
  uint32_t struct_size;
  int32_t fd;      // the library's
  uint64_t size;   // may be more than was asked for, with huge pages
  int32_t sealed;  // 1: nobody can change the content, of whichever process; 0: somebody may
  uint32_t pages;  // pergpu_share_pages: what it is made of
} pergpu_share_memory_info;

// Zeroed memory, all of it reserved now.  `name` is for people (/proc/PID/maps).
// INVALID: `size` is 0 or beyond what a file can have.  FULL: there is not so much.
PERGPU_SHARE_API int32_t pergpu_share_memory_create(const char* name, uint64_t size, uint32_t pages,
                                                    pergpu_share_memory** memory,
                                                    pergpu_share_error* error);
// What another process made.  From success on the descriptor is the library's to close.
// INVALID: it is no memory of a fixed size.
PERGPU_SHARE_API int32_t pergpu_share_memory_adopt(int fd, pergpu_share_memory** memory,
                                                   pergpu_share_error* error);
PERGPU_SHARE_API int32_t pergpu_share_memory_describe(const pergpu_share_memory* memory,
                                                      pergpu_share_memory_info* info,
                                                      pergpu_share_error* error);
// Nobody changes the content any more; again is no error.  BUSY: somebody has it mapped as shared.
PERGPU_SHARE_API int32_t pergpu_share_memory_seal(pergpu_share_memory* memory,
                                                  pergpu_share_error* error);
// All of it.  DENIED: shared, of what is sealed.
PERGPU_SHARE_API int32_t pergpu_share_memory_map(const pergpu_share_memory* memory, uint32_t view,
                                                 pergpu_share_mapping** mapping,
                                                 pergpu_share_error* error);
PERGPU_SHARE_API void pergpu_share_memory_free(pergpu_share_memory* memory);

// A part of an ordinary file, from any byte on; the descriptor stays the caller's and may be
// closed. INVALID: not all of it is in the file.  Who shortens the file later takes the pages away:
// to read them is a SIGBUS.
PERGPU_SHARE_API int32_t pergpu_share_file_map(int fd, uint64_t offset, uint64_t size,
                                               uint32_t view, pergpu_share_mapping** mapping,
                                               pergpu_share_error* error);
// Where it begins, and its bytes; NULL and 0 of NULL.
PERGPU_SHARE_API void* pergpu_share_mapping_data(const pergpu_share_mapping* mapping);
PERGPU_SHARE_API uint64_t pergpu_share_mapping_size(const pergpu_share_mapping* mapping);
PERGPU_SHARE_API void pergpu_share_mapping_free(pergpu_share_mapping* mapping);

// ---- channels ----

// Slots that producers fill and consumers read in place.  Each item goes to one consumer.
typedef struct pergpu_share_channel pergpu_share_channel;
typedef struct pergpu_share_producer pergpu_share_producer;
typedef struct pergpu_share_consumer pergpu_share_consumer;

typedef struct pergpu_share_channel_options {
  uint32_t struct_size;
  uint32_t producers;       // how many there can be at once; 0: 1
  uint32_t consumers;       // 0: 1
  uint32_t slots_per_lane;  // each producer has so many for each consumer; 0: 4
  uint64_t slot_bytes;
  uint32_t page_aligned;  // 1: slots begin at pages, to be pinned for a GPU; 0: at 64 bytes
  uint32_t reserved;      // 0
  const char* name;       // for people; NULL: "channel"
} pergpu_share_channel_options;

typedef struct pergpu_share_channel_info {
  uint32_t struct_size;
  int32_t fd;  // the library's; what pergpu_share_channel_adopt takes, in another process
  uint32_t producers;
  uint32_t consumers;
  uint32_t slots_per_lane;
  uint32_t page_aligned;
  uint64_t slot_bytes;
  uint64_t total_bytes;  // of memory
  uint32_t complete;     // 1: no producer will come any more
  uint32_t reserved;
} pergpu_share_channel_info;

typedef enum pergpu_share_side {
  PERGPU_SHARE_PRODUCERS = 0,
  PERGPU_SHARE_CONSUMERS = 1
} pergpu_share_side;

// A place for a producer or a consumer, as it is at this moment.
typedef struct pergpu_share_place_info {
  uint32_t struct_size;
  uint32_t pid;       // of who has or had it; 0: nobody yet
  uint32_t alive;     // 1: attached, and its process runs
  uint32_t sleeping;  // 1: waits for something to do
  uint64_t sequence;  // of a producer: the last number given; of a consumer: items taken
  uint32_t ready;     // items that wait there, of a producer all that it sent
  uint32_t lost;      // items that were in the hands of consumers that died
} pergpu_share_place_info;

typedef enum pergpu_share_outcome {
  PERGPU_SHARE_READY = 0,
  PERGPU_SHARE_TIMED_OUT = 1,
  PERGPU_SHARE_INTERRUPTED = 2,  // by a signal; nothing else happened
  PERGPU_SHARE_ENDED = 3,        // nothing is left and nothing can come; or this producer is closed
  PERGPU_SHARE_PEER_DIED = 4,    // told once a death, after what it had published was taken
  PERGPU_SHARE_PEER_LEFT = 5,    // without closing; told once, too
  PERGPU_SHARE_BAD_MEMORY =
      6,                  // shared memory holds what cannot be; this end is of no use any more
  PERGPU_SHARE_STALE = 7  // another process has the place, it was detached, or we are a fork
} pergpu_share_outcome;

// "ready", …; "" for a number that is none.
PERGPU_SHARE_API const char* pergpu_share_outcome_name(int32_t outcome);

// Never changes.  A slot to be filled, until it is published or abandoned.
typedef struct pergpu_share_slot {
  void* data;
  uint64_t size;
  uint32_t index;
  uint32_t epoch;  // of the producer that has it
} pergpu_share_slot;

// Never changes.  A slot to be read, until it is released; nobody writes to it.
typedef struct pergpu_share_item {
  const void* data;
  uint64_t bytes;
  uint64_t sequence;  // counts from 1 per producer; one may be left out by a death
  uint32_t producer;
  uint32_t slot;
  uint32_t epoch;  // of the consumer that has it
  uint32_t reserved;
} pergpu_share_item;

// Never changes.  Who died or left.
typedef struct pergpu_share_peer {
  uint32_t index;
  uint32_t pid;
  uint64_t last_sequence;  // a producer's: the last that came here; 0: none
  uint32_t lost;           // a consumer's: items of ours that it held
  uint32_t reserved;
} pergpu_share_peer;

typedef struct pergpu_share_acquired {
  uint32_t struct_size;
  int32_t outcome;         // pergpu_share_outcome
  pergpu_share_slot slot;  // READY
  pergpu_share_peer peer;  // PEER_DIED, PEER_LEFT: a consumer
  const char* why;         // BAD_MEMORY, STALE: for people, never freed; else ""
} pergpu_share_acquired;

typedef struct pergpu_share_taken {
  uint32_t struct_size;
  int32_t outcome;
  pergpu_share_item item;  // READY
  pergpu_share_peer peer;  // PEER_DIED, PEER_LEFT: a producer
  const char* why;
} pergpu_share_taken;

// INVALID: impossible options.  FULL: not so much memory.
PERGPU_SHARE_API int32_t pergpu_share_channel_create(const pergpu_share_channel_options* options,
                                                     pergpu_share_channel** channel,
                                                     pergpu_share_error* error);
// One that another process made.  From success on the descriptor is the library's to close.
// INVALID: it is no memory of a fixed size.  CORRUPT: it holds something else.
PERGPU_SHARE_API int32_t pergpu_share_channel_adopt(int fd, pergpu_share_channel** channel,
                                                    pergpu_share_error* error);
PERGPU_SHARE_API int32_t pergpu_share_channel_describe(const pergpu_share_channel* channel,
                                                       pergpu_share_channel_info* info,
                                                       pergpu_share_error* error);
// `side`: pergpu_share_side.  INVALID: no such place.
PERGPU_SHARE_API int32_t pergpu_share_channel_place(const pergpu_share_channel* channel,
                                                    uint32_t side, uint32_t index,
                                                    pergpu_share_place_info* info,
                                                    pergpu_share_error* error);
// No producer will come any more: consumers wait for none in a place that is vacant, or that
// somebody left or died in.
PERGPU_SHARE_API int32_t pergpu_share_channel_complete(const pergpu_share_channel* channel,
                                                       pergpu_share_error* error);
PERGPU_SHARE_API void pergpu_share_channel_free(pergpu_share_channel* channel);

// The first place that nobody living has.  BUSY: there is none.  INVALID: the channel is complete.
PERGPU_SHARE_API int32_t pergpu_share_producer_attach(const pergpu_share_channel* channel,
                                                      pergpu_share_producer** producer,
                                                      pergpu_share_error* error);
PERGPU_SHARE_API int32_t pergpu_share_producer_index(const pergpu_share_producer* producer,
                                                     uint32_t* index, pergpu_share_error* error);
// A slot to be filled; several may be held.
PERGPU_SHARE_API int32_t pergpu_share_producer_acquire(pergpu_share_producer* producer,
                                                       int64_t deadline,
                                                       pergpu_share_acquired* acquired,
                                                       pergpu_share_error* error);
// The first `bytes` of it are an item.  INVALID: not a slot that this producer holds, or too much.
PERGPU_SHARE_API int32_t pergpu_share_producer_publish(pergpu_share_producer* producer,
                                                       const pergpu_share_slot* slot,
                                                       uint64_t bytes, pergpu_share_error* error);
// Nothing becomes of it.
PERGPU_SHARE_API int32_t pergpu_share_producer_abandon(pergpu_share_producer* producer,
                                                       const pergpu_share_slot* slot,
                                                       pergpu_share_error* error);
// Nothing more will come from here; consumers end when all producers have closed.  Again is no
// error.
PERGPU_SHARE_API int32_t pergpu_share_producer_close(pergpu_share_producer* producer,
                                                     pergpu_share_error* error);
// Leaves.  Without pergpu_share_producer_close consumers are told PEER_LEFT and wait for another.
PERGPU_SHARE_API void pergpu_share_producer_free(pergpu_share_producer* producer);

// BUSY: no place.
PERGPU_SHARE_API int32_t pergpu_share_consumer_attach(const pergpu_share_channel* channel,
                                                      pergpu_share_consumer** consumer,
                                                      pergpu_share_error* error);
PERGPU_SHARE_API int32_t pergpu_share_consumer_index(const pergpu_share_consumer* consumer,
                                                     uint32_t* index, pergpu_share_error* error);
// An item; several may be held.
PERGPU_SHARE_API int32_t pergpu_share_consumer_take(pergpu_share_consumer* consumer,
                                                    int64_t deadline, pergpu_share_taken* taken,
                                                    pergpu_share_error* error);
// In any order.  INVALID: not an item that this consumer holds.
PERGPU_SHARE_API int32_t pergpu_share_consumer_release(pergpu_share_consumer* consumer,
                                                       const pergpu_share_item* item,
                                                       pergpu_share_error* error);
// Releases what is held, and leaves.
PERGPU_SHARE_API void pergpu_share_consumer_free(pergpu_share_consumer* consumer);

// ---- loaders ----

// Batches of rows of arrays, gathered by threads ahead of who wants them, into slots, memory of
// this process, that are used again; who keeps batches keeps their slots, and others are made.  The
// order follows from seed and epoch: a loader begins at any batch.
typedef struct pergpu_share_loader pergpu_share_loader;

typedef enum pergpu_share_type {
  PERGPU_SHARE_UINT8 = 0,
  PERGPU_SHARE_FLOAT32 = 1,
  PERGPU_SHARE_FLOAT16 = 2,
  PERGPU_SHARE_BFLOAT16 = 3
} pergpu_share_type;

// Rows are images of height × width × channels bytes, and become channels × rows × columns values.
typedef struct pergpu_share_image {
  uint32_t struct_size;
  uint32_t height;
  uint32_t width;
  uint32_t channels;
  uint32_t crop_height;  // of the result; 0: as the image
  uint32_t crop_width;
  uint32_t padding;      // zero pixels that are thought around the image before it is cropped
  uint32_t random_crop;  // 1: anywhere; 0: from the middle
  uint32_t random_flip;  // 1: left and right are exchanged in half of the images
  uint32_t type;         // pergpu_share_type, of the result; with UINT8 nothing below is given
  float scale;           // of a byte, before the mean is taken off; 0: 1 / 255
  uint32_t reserved;
  const float* mean;       // `channels` of them, in units of the result; NULL: 0
  const float* deviation;  // NULL: 1
} pergpu_share_image;

// Never changes.  One of the arrays.
typedef struct pergpu_share_field {
  const void* data;  // stays the caller's, and has to be there until the loader is freed
  uint64_t row_bytes;
  const pergpu_share_image* image;  // NULL: rows are copied.  Read by _open only
} pergpu_share_field;

typedef struct pergpu_share_loader_options {
  uint32_t struct_size;
  uint32_t field_count;
  const pergpu_share_field* fields;  // read by _open only
  uint64_t rows;                     // of each array
  uint32_t batch;                    // rows
  uint32_t drop_last;  // 1: the rest of an epoch is left out if it is less than a batch
  uint32_t in_order;   // 1: no shuffling
  uint32_t threads;    // 0: 1
  uint64_t seed;
  uint32_t shard;   // takes each row of the order whose place is `shard` modulo `shards`
  uint32_t shards;  // 0: 1
  uint64_t epoch;   // where it begins
  uint64_t number;  // of the batch in the epoch
  uint32_t ahead;   // batches that are prepared beside those that are held; 0: 2
  uint32_t pinned;  // 1: slots are pinned for GPUs, by the CUDA runtime that is there
} pergpu_share_loader_options;

typedef struct pergpu_share_loader_info {
  uint32_t struct_size;
  uint32_t threads;
  uint64_t batches;     // of an epoch
  uint64_t slot_bytes;  // what a batch takes
} pergpu_share_loader_info;

// To go on after it, open with its epoch and number + 1.
typedef struct pergpu_share_batch {
  uint32_t struct_size;
  int32_t outcome;  // READY or TIMED_OUT; what follows is of a READY one
  uint32_t slot;
  uint32_t rows;
  uint64_t epoch;
  uint64_t number;  // in its epoch, from 0
} pergpu_share_batch;

// INVALID: the options do not fit each other.  FULL: not so much memory.  UNAVAILABLE: there is no
// CUDA runtime to pin with.
PERGPU_SHARE_API int32_t pergpu_share_loader_open(const pergpu_share_loader_options* options,
                                                  pergpu_share_loader** loader,
                                                  pergpu_share_error* error);
PERGPU_SHARE_API int32_t pergpu_share_loader_describe(const pergpu_share_loader* loader,
                                                      pergpu_share_loader_info* info,
                                                      pergpu_share_error* error);
// The next batch in order, over the ends of epochs; held until it is released.  Signals do not end
// the wait.
// FULL: so much is held that there is no memory for another; it may be tried again.
// UNAVAILABLE: in a fork, which has no threads, or there can be none.
PERGPU_SHARE_API int32_t pergpu_share_loader_next(pergpu_share_loader* loader, int64_t deadline,
                                                  pergpu_share_batch* batch,
                                                  pergpu_share_error* error);
// Where an array's rows of a batch lie, one after the other, at a multiple of 64 bytes.
// INVALID: the slot is not held, or there is no such field.  UNAVAILABLE: in a fork.
PERGPU_SHARE_API int32_t pergpu_share_loader_data(const pergpu_share_loader* loader, uint32_t slot,
                                                  uint32_t field, void** data, uint64_t* row_bytes,
                                                  pergpu_share_error* error);
// The slot may be filled anew.  INVALID: it is not held.
PERGPU_SHARE_API int32_t pergpu_share_loader_release(pergpu_share_loader* loader, uint32_t slot,
                                                     pergpu_share_error* error);
// Its threads end first.
PERGPU_SHARE_API void pergpu_share_loader_free(pergpu_share_loader* loader);

#ifdef __cplusplus
}
#endif

#endif  // PERGPU_SHARE_H
