/* Delays each write to a regular file below one directory, by as long as is said at that moment.
 *
 * Preloaded into a broker, whatever language it is written in: the stall is in the system call, as
 * with a slow disk, and the thread that made the call is the one that waits. SLOW_WRITES_BELOW names
 * the directory (real path), SLOW_WRITES_CONTROL a file of two int64: the stall in microseconds,
 * which is read at each write, and the number of writes there, which is counted here.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    _Atomic int64_t stall_us;
    _Atomic int64_t writes;
};

static struct control *control;
static const char *below;
static size_t below_size;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SLOW_WRITES_CONTROL");
    const char *directory = getenv("SLOW_WRITES_BELOW");
    int fd;
    void *mapped;
    if (path == NULL || directory == NULL || (fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
        return;
    mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped == MAP_FAILED)
        return;
    below = directory;
    below_size = strlen(directory);
    control = mapped;
}

/* By descriptor: twice the inode that it had, and one more where that lies below. Names are looked up
 * once a file: they cost more than what else a write of the page cache does. */
static _Atomic uint64_t known[1 << 14];

static int is_named_below(int fd) {
    char link[64], target[PATH_MAX];
    ssize_t size;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, target, sizeof target);
    return size > (ssize_t)below_size && memcmp(target, below, below_size) == 0 &&
           target[below_size] == '/';
}

static int is_below(int fd) {
    struct stat about;
    uint64_t seen;
    if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        return 0;
    if (fd >= (int)(sizeof known / sizeof *known))
        return is_named_below(fd);
    seen = atomic_load(&known[fd]);
    if (seen >> 1 != (uint64_t)about.st_ino) {
        seen = (uint64_t)about.st_ino << 1 | (uint64_t)is_named_below(fd);
        atomic_store(&known[fd], seen);
    }
    return (int)(seen & 1);
}

static void stall(int fd) {
    int saved = errno;
    if (control != NULL && is_below(fd)) {
        int64_t us = atomic_load(&control->stall_us);
        atomic_fetch_add(&control->writes, 1);
        if (us > 0) {
            struct timespec left = {us / 1000000, us % 1000000 * 1000};
            while (nanosleep(&left, &left) != 0 && errno == EINTR)
                ;
        }
    }
    errno = saved;
}

#define SLOW(name, parameters, ...)                                                                \
    ssize_t name parameters {                                                                      \
        static ssize_t(*real) parameters;                                                          \
        if (real == NULL)                                                                          \
            real = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name);                                 \
        stall(fd);                                                                                 \
        return real(__VA_ARGS__);                                                                  \
    }

SLOW(write, (int fd, const void *data, size_t size), fd, data, size)
SLOW(writev, (int fd, const struct iovec *parts, int count), fd, parts, count)
SLOW(pwrite, (int fd, const void *data, size_t size, off_t at), fd, data, size, at)
SLOW(pwrite64, (int fd, const void *data, size_t size, off64_t at), fd, data, size, at)
SLOW(pwritev, (int fd, const struct iovec *parts, int count, off_t at), fd, parts, count, at)
SLOW(pwritev64, (int fd, const struct iovec *parts, int count, off64_t at), fd, parts, count, at)
SLOW(pwritev2, (int fd, const struct iovec *parts, int count, off_t at, int flags), fd, parts,
     count, at, flags)
SLOW(pwritev64v2, (int fd, const struct iovec *parts, int count, off64_t at, int flags), fd, parts,
     count, at, flags)
