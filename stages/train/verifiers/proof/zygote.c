/* The inside of the proof verifiers: preloaded into a proof checker that reads its standard input (coqtop, lean --stdin), it makes
   the checker load all it needs once, and then forks a process a job at the moment when the checker asks for more input.

   It talks on the descriptors that were the checker's 0 and 1, in frames: four bytes of length (little endian), then the content.
   Set-up: a text that the checker reads first ("" = none), then the system call filter of the jobs ("" = none). Answer when the
   checker has read that text: what it wrote so far. A job is two frames: "<id> <CPU seconds> <bytes of address space, 0 = free>
   <wall seconds>", then the text. Its answer is two frames: "<id> <status of wait> <why> <CPU seconds>" and what the job's process
   wrote, untrusted: "." behind its limits and its filter, then all that the checker said. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HOST_IN = 200, HOST_OUT = 201, SAID = 202, MOST = 4 << 20, STACK = 64 << 20, FEW = 64 };

static char *text;
static size_t length, given;
static int is_set_up, is_job;
static struct sock_fprog filter;

static ssize_t raw_read(int fd, void *to, size_t most) { return syscall(SYS_read, fd, to, most); }

static void read_exactly(void *to, size_t size) {
  for (size_t have = 0; have < size;) {
    ssize_t count = raw_read(HOST_IN, (char *)to + have, size - have);
    if (count == 0 || (count < 0 && errno != EINTR)) _exit(0);
    if (count > 0) have += (size_t)count;
  }
}

static char *read_frame(size_t *size) {
  uint32_t count;
  read_exactly(&count, 4);
  char *content = malloc((size_t)count + 1);
  if (!content) _exit(96);
  read_exactly(content, count);
  content[count] = 0;
  *size = count;
  return content;
}

static void write_frame(const void *content, size_t size) {
  uint32_t count = (uint32_t)size;
  const char *parts[] = {(const char *)&count, content};
  size_t sizes[] = {4, size};
  for (int part = 0; part < 2; part++)
    for (size_t done = 0; done < sizes[part];) {
      ssize_t wrote = write(HOST_OUT, parts[part] + done, sizes[part] - done);
      if (wrote < 0 && errno != EINTR) _exit(0);
      if (wrote > 0) done += (size_t)wrote;
    }
}

static int limit(int what, rlim_t most) {
  struct rlimit both = {most, most};
  return setrlimit(what, &both);
}

/* Room for nesting. Where exactly the usual 8 MiB give out, and in whose code, moves with the address layout of each process, and with
   it what the checker says; 64 MiB are more than any answer of a length that is let in can nest. The kernel keeps 128 MiB free. */
static int more_stack(void) {
  struct rlimit both;
  if (getrlimit(RLIMIT_STACK, &both)) return -1;
  if (both.rlim_cur == RLIM_INFINITY || both.rlim_cur >= STACK) return 0;
  both.rlim_cur = both.rlim_max == RLIM_INFINITY || both.rlim_max > STACK ? STACK : both.rlim_max;
  return setrlimit(RLIMIT_STACK, &both);
}

/* In the job's process: give up what it does not need, then go on as the checker. */
static void become_job(int writer, double cpu, size_t memory) {
  int nowhere = open("/dev/null", O_RDWR);
  dup2(nowhere, 0);
  dup2(writer, 1);
  dup2(writer, 2);
  if (nowhere > 2) close(nowhere);
  close(writer);
  close(HOST_IN);
  close(HOST_OUT);
  close(SAID);
  struct itimerval timer = {{0, 0}, {(time_t)cpu, (suseconds_t)((cpu - (double)(time_t)cpu) * 1e6)}};
  struct sigaction end = {.sa_handler = SIG_DFL};
  int bad = prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  bad |= limit(RLIMIT_CORE, 0) || limit(RLIMIT_FSIZE, 0) || limit(RLIMIT_CPU, (rlim_t)(cpu + 1.1));
  bad |= more_stack() || (memory && limit(RLIMIT_AS, memory));
  bad |= sigaction(SIGPROF, &end, NULL) || sigaction(SIGXCPU, &end, NULL) || setitimer(ITIMER_PROF, &timer, NULL);
  if (filter.len) bad |= prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
  if (bad || write(1, ".", 1) != 1) _exit(97);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* What a job's process writes until it ends, or until it is ended. */
static size_t watched(pid_t child, int reader, double wall, char *written, const char **why) {
  double until = now() + wall;
  size_t size = 0;
  struct pollfd one = {reader, POLLIN, 0};
  *why = "-";
  for (;;) {
    double left = until - now();
    if (size == MOST || left <= 0) {
      *why = size == MOST ? "output" : "wall";
      kill(child, SIGKILL);
      return size;
    }
    if (poll(&one, 1, (int)(left * 1e3) + 1) <= 0) continue;
    ssize_t count = raw_read(reader, written + size, MOST - size);
    if (count == 0 || (count < 0 && errno != EINTR)) return size;
    if (count > 0) size += (size_t)count;
  }
}

static unsigned long *space_overhead, usual_overhead;
static int slices;

/* The collector's own work writes a mark on every object that lives. A job that is done before FEW minor collections never needs it. */
static void begin_slice(void) {
  if (++slices == FEW) *space_overhead = usual_overhead;
}

static void postpone_collection(void) {
  void (**hook)(void) = (void (**)(void))dlsym(RTLD_DEFAULT, "caml_major_slice_begin_hook");
  space_overhead = (unsigned long *)dlsym(RTLD_DEFAULT, "caml_percent_free");
  if (!hook || *hook || !space_overhead) return;
  usual_overhead = *space_overhead;
  *space_overhead = 1000000;
  *hook = begin_slice;
}

/* A checker written in OCaml collects its garbage before the first fork, and moves together what is left: jobs write on copies of pages,
   and what they keep goes to a fresh place instead of a thousand holes. It waits for input now, where the runtime lets others run. */
static void compact(void) {
  void (*leave)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "caml_leave_blocking_section");
  void (*enter)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "caml_enter_blocking_section");
  long (*collect)(long) = (long (*)(long))dlsym(RTLD_DEFAULT, "caml_gc_compaction");
  if (!leave || !enter || !collect) return;
  leave();
  collect(1); /* unit */
  enter();
}

/* Answer jobs. Returns only in a job's process, with its text. */
static void serve(void) {
  compact();
  postpone_collection();
  char *written = malloc(MOST);
  fflush(NULL);
  off_t size = lseek(SAID, 0, SEEK_END);
  if (!written || size < 0 || size > MOST || pread(SAID, written, (size_t)size, 0) != size) _exit(96);
  write_frame(written, (size_t)size);
  for (;;) {
    size_t header_size;
    char *header = read_frame(&header_size);
    long id, memory;
    double cpu, wall;
    if (sscanf(header, "%ld %lf %ld %lf", &id, &cpu, &memory, &wall) != 4) _exit(96);
    free(header);
    text = read_frame(&length);
    given = 0;
    int ends[2];
    if (pipe(ends)) _exit(96);
    pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      become_job(ends[1], cpu, (size_t)memory);
      is_job = 1;
      return;
    }
    close(ends[1]);
    int status = 97 << 8;
    struct rusage used = {0};
    const char *why = "fork";
    size_t count = 0;
    if (child > 0) {
      count = watched(child, ends[0], wall, written, &why);
      while (wait4(child, &status, 0, &used) < 0 && errno == EINTR) continue;
    }
    close(ends[0]);
    free(text);
    double seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    char answer[128];
    int answer_size = snprintf(answer, sizeof answer, "%ld %d %s %.4f", id, status, why, seconds);
    write_frame(answer, (size_t)answer_size);
    write_frame(written, count);
  }
}

/* The checker asks for input: the text that comes first, then, in a process of its own, a job's text, then the end. */
static size_t supply(void *to, size_t most) {
  if (given == length && !is_job) {
    if (!is_set_up) {
      size_t size;
      is_set_up = 1;
      text = read_frame(&length);
      char *program = read_frame(&size);
      filter.len = (unsigned short)(size / sizeof(struct sock_filter));
      filter.filter = (struct sock_filter *)program;
    }
    if (given == length) serve();
  }
  size_t count = length - given < most ? length - given : most;
  memcpy(to, text + given, count);
  given += count;
  return count;
}

__attribute__((constructor)) static void take_over(void) {
  unsetenv("LD_PRELOAD");
  int said = memfd_create("said", MFD_CLOEXEC), nowhere = open("/dev/null", O_RDONLY);
  if (said < 0 || nowhere < 0 || dup3(0, HOST_IN, O_CLOEXEC) < 0 || dup3(1, HOST_OUT, O_CLOEXEC) < 0) _exit(96);
  if (dup3(said, SAID, O_CLOEXEC) < 0 || dup2(said, 1) < 0 || dup2(said, 2) < 0 || dup2(nowhere, 0) < 0) _exit(96);
  if (nowhere > 2) close(nowhere);
  if (said > 2) close(said);
}

ssize_t read(int fd, void *to, size_t most) { return fd == 0 ? (ssize_t)supply(to, most) : raw_read(fd, to, most); }

size_t fread(void *to, size_t size, size_t count, FILE *stream) {
  static size_t (*next)(void *, size_t, size_t, FILE *);
  size_t supplied = stream == stdin && size ? supply(to, size * count) / size : 0;
  if (supplied) return supplied; /* at the end of the text the true stdin, which is empty, notes that it is at its end */
  if (!next) next = (size_t (*)(void *, size_t, size_t, FILE *))dlsym(RTLD_NEXT, "fread");
  return next(to, size, count, stream);
}

/* OCaml's threads library would take its master lock anew in a fork, and wait for itself; there is one thread, and it holds on. */
int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *handle) {
  (void)before, (void)parent, (void)child, (void)handle;
  return 0;
}

/* And its locks must not check who owns them: the thread's number is another one in the fork. */
int pthread_mutexattr_settype(void *attributes, int type) {
  (void)attributes, (void)type;
  return 0;
}
