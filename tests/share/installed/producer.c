// A program in C that knows the installed library only: makes a channel, starts the program that is
// named by its argument with the channel as descriptor 100, and sends it the numbers 1 to 1000.
// Prints what became of it; exit status 0: all went well.
#include <pergpu_share.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pergpu_share_error error;

static void need(int32_t code) {
  if (code == PERGPU_SHARE_OK) return;
  fprintf(stderr, "%s: %s\n", pergpu_share_code_name(code), error.message);
  exit(1);
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  pergpu_share_channel_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.slot_bytes = sizeof(uint64_t);
  pergpu_share_channel* channel = NULL;
  need(pergpu_share_channel_create(&options, &channel, &error));
  pergpu_share_channel_info info;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  need(pergpu_share_channel_describe(channel, &info, &error));

  pid_t child = fork();
  if (child == 0) {
    if (dup2(info.fd, 100) != 100) _exit(126);  // open beyond exec, as all that dup2() makes
    execl(arguments[1], arguments[1], (char*)NULL);
    _exit(127);
  }
  pergpu_share_producer* producer = NULL;
  need(pergpu_share_producer_attach(channel, &producer, &error));
  pergpu_share_channel_free(channel);
  for (uint64_t number = 1; number <= 1000; ++number) {
    pergpu_share_acquired got;
    memset(&got, 0, sizeof got);
    got.struct_size = sizeof got;
    need(pergpu_share_producer_acquire(producer, pergpu_share_deadline(INT64_C(20000000000)), &got,
                                       &error));
    if (got.outcome != PERGPU_SHARE_READY) {
      fprintf(stderr, "acquire: %s\n", pergpu_share_outcome_name(got.outcome));
      return 1;
    }
    memcpy(got.slot.data, &number, sizeof number);
    need(pergpu_share_producer_publish(producer, &got.slot, sizeof number, &error));
  }
  need(pergpu_share_producer_close(producer, &error));
  pergpu_share_producer_free(producer);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) return 1;
  printf("pergpu %s, interface %u: sent 1000\n", pergpu_share_version(), pergpu_share_abi());
  return 0;
}
