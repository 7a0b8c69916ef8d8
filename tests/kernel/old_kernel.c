/* old_kernel VERSION COMMAND…: runs a command as on an older kernel (4.18, 5.4 or 5.10).  Calls that
 * it does not have fail with ENOSYS, and flags that it does not know with EINVAL, by a seccomp filter
 * that all processes below inherit.
 *
 * Files of /proc and /sys stay those of this kernel: cgroup.kill is there, too.  On 4.18 clone() with
 * CLONE_PIDFD fails here; a real one ignores the flag. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "not known here"
#endif

struct call {
  int number; /* the same on both architectures */
  int since;  /* 503: Linux 5.3 */
};

/* clone3 came with 5.3, but took a group (CLONE_INTO_CGROUP) from 5.7 on only.  What it is asked for
 * lies in memory, which a filter cannot read, so it is missing until then.  close_range came with
 * 5.9, its flag CLOSE_RANGE_CLOEXEC with 5.11. */
static const struct call calls[] = {
    {424 /* pidfd_send_signal */, 501}, {425 /* io_uring_setup */, 501},
    {426 /* io_uring_enter */, 501},    {427 /* io_uring_register */, 501},
    {428 /* open_tree */, 502},         {429 /* move_mount */, 502},
    {434 /* pidfd_open */, 503},        {435 /* clone3 */, 507},
    {436 /* close_range */, 509},       {437 /* openat2 */, 506},
    {438 /* pidfd_getfd */, 506},       {439 /* faccessat2 */, 508},
    {440 /* process_madvise */, 510},   {441 /* epoll_pwait2 */, 511},
    {442 /* mount_setattr */, 512},     {444 /* landlock_create_ruleset */, 513},
    {445 /* landlock_add_rule */, 513}, {446 /* landlock_restrict_self */, 513},
    {447 /* memfd_secret */, 514},      {448 /* process_mrelease */, 515},
    {449 /* futex_waitv */, 516},       {452 /* fchmodat2 */, 606},
    {454 /* futex_wake */, 607},        {455 /* futex_wait */, 607},
};

enum { most = 64 };
static struct sock_filter filter[most];
static unsigned short length;

static void add(struct sock_filter instruction) {
  if (length == most) abort();
  filter[length++] = instruction;
}

static void load(size_t offset) {
  add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

/* Goes on with the next `skip` instructions only if what was loaded is `value`. */
static void only_if(unsigned value, unsigned char skip) {
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip));
}

static void answer(unsigned what) { add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what)); }

static void build(int version) {
  const size_t first = offsetof(struct seccomp_data, args);
  load(offsetof(struct seccomp_data, arch));
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 1, 0));
  answer(SECCOMP_RET_ALLOW);
  load(offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) {
    if (version >= calls[i].since) continue;
    only_if((unsigned)calls[i].number, 1);
    answer(SECCOMP_RET_ERRNO | ENOSYS);
  }
  if (version >= 509 && version < 511) { /* close_range without its flag for exec */
    only_if(436, 4);
    load(first + 2 * sizeof(__u64));
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 1));
    answer(SECCOMP_RET_ERRNO | EINVAL);
    answer(SECCOMP_RET_ALLOW);
  }
  if (version < 502) { /* clone without CLONE_PIDFD */
    only_if(SYS_clone, 4);
    load(first);
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1000, 0, 1));
    answer(SECCOMP_RET_ERRNO | EINVAL);
    answer(SECCOMP_RET_ALLOW);
  }
  answer(SECCOMP_RET_ALLOW);
}

int main(int argc, char** argv) {
  int major = 0;
  int minor = 0;
  if (argc < 3 || sscanf(argv[1], "%d.%d", &major, &minor) != 2) {
    fprintf(stderr, "usage: %s 4.18|5.4|5.10 COMMAND…\n", argv[0]);
    return 2;
  }
  build(major * 100 + minor);
  struct sock_fprog program = {.len = length, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    fprintf(stderr, "%s: seccomp: %s\n", argv[0], strerror(errno));
    return 77;
  }
  execvp(argv[2], argv + 2);
  fprintf(stderr, "%s: %s: %s\n", argv[0], argv[2], strerror(errno));
  return 127;
}
