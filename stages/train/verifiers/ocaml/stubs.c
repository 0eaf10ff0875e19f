/* What OCaml's standard library cannot ask of Linux. Each gives 0, or the errno, but for octavo_pread. */
#define _GNU_SOURCE
#include <caml/alloc.h>
#include <caml/fail.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STACK = 64 << 20, FIRST = 3, APART = 16, LAST = 1 << 20 };

static int limit(int what, rlim_t most) {
  struct rlimit both = {most, most};
  return setrlimit(what, &both);
}

/* Room for nesting: in machine code the type checker nests on this stack, and where it gives out must not move with the address layout.
   The kernel keeps 128 MiB free below it. */
static int more_stack(void) {
  struct rlimit both;
  if (getrlimit(RLIMIT_STACK, &both)) return -1;
  if (both.rlim_cur == RLIM_INFINITY || both.rlim_cur >= STACK) return 0;
  both.rlim_cur = both.rlim_max == RLIM_INFINITY || both.rlim_max > STACK ? STACK : both.rlim_max;
  return setrlimit(RLIMIT_STACK, &both);
}

/* No new privileges, no core dumps, files of so many bytes; end with the parent. */
value octavo_give_up(value bytes) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)) return Val_int(errno);
  if (limit(RLIMIT_CORE, 0) || limit(RLIMIT_FSIZE, Long_val(bytes)) || more_stack()) return Val_int(errno);
  return Val_int(0);
}

/* So many bytes of a file from an offset on, read now. */
value octavo_pread(value fd, value size, value offset) {
  CAMLparam3(fd, size, offset);
  CAMLlocal1(text);
  text = caml_alloc_string(Long_val(size));
  if (pread(Int_val(fd), Bytes_val(text), Long_val(size), Long_val(offset)) != Long_val(size)) caml_failwith("pread");
  CAMLreturn(text);
}

/* Keep these descriptors, as 3, 4, 5..., and /dev/null as 0, 1 and 2; close all others. CPU seconds (whole), bytes of address space. */
value octavo_confine(value null, value kept, value seconds, value bytes) {
  int count = 0, apart[FIRST];
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)) return Val_int(errno);
  for (value rest = kept; rest != Val_emptylist && count < FIRST; rest = Field(rest, 1), count++) /* on numbers that none of them has */
    if ((apart[count] = fcntl(Int_val(Field(rest, 0)), F_DUPFD, APART)) < 0) return Val_int(errno);
  for (int fd = 0; fd < FIRST; fd++)
    if (dup2(Int_val(null), fd) < 0) return Val_int(errno);
  for (int place = 0; place < count; place++)
    if (dup2(apart[place], FIRST + place) < 0) return Val_int(errno);
  if (syscall(436, (unsigned)(FIRST + count), ~0U, 0)) /* close_range; kernels before 5.9 do not have it */
    for (int fd = FIRST + count; fd < LAST; fd++) close(fd);
  if (limit(RLIMIT_NOFILE, FIRST + count) || limit(RLIMIT_CPU, Long_val(seconds)) || limit(RLIMIT_AS, Long_val(bytes))) return Val_int(errno);
  return Val_int(0);
}

/* Forbid files (and TCP, and signals to others, where the kernel can). Without landlock this does nothing; the filter still holds. */
value octavo_landlock(value unit) {
  (void)unit;
  static const int known[] = {0, 13, 14, 15, 15, 16};
  long version = syscall(444, NULL, (size_t)0, 1L);
  if (version <= 0) return Val_int(0);
  uint64_t rights[3] = {(1ULL << known[version > 5 ? 5 : version]) - 1, version >= 4 ? 3 : 0, version >= 6 ? 3 : 0};
  int rules = (int)syscall(444, rights, (size_t)(version < 4 ? 8 : version < 6 ? 16 : 24), 0L);
  if (rules < 0) return Val_int(errno);
  int failed = syscall(446, (long)rules, 0L) ? errno : 0;
  close(rules);
  return Val_int(failed);
}

/* Put this process behind a BPF program for good. */
value octavo_filter(value program) {
  size_t size = caml_string_length(program);
  struct sock_filter *code = malloc(size);
  if (!code) return Val_int(ENOMEM);
  memcpy(code, String_val(program), size);
  struct sock_fprog filter = {(unsigned short)(size / sizeof(struct sock_filter)), code};
  int failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) ? errno : 0;
  free(code);
  return Val_int(failed);
}
