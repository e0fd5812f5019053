/* A disk that fails: put before the C library (LD_PRELOAD), this lets calls fail that concern files
   below a directory named "store", as long as there is the file that $FAULT_SWITCH names. That
   file holds the number of the error. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static ssize_t (*real_read)(int, void *, size_t);
static int (*real_open)(const char *, int, ...);

__attribute__((constructor)) static void find(void) {
    real_read = dlsym(RTLD_NEXT, "read");
    real_open = dlsym(RTLD_NEXT, "open");
}

/* The error, or 0. */
static int fault(void) {
    const char *name = getenv("FAULT_SWITCH");
    int file = name && real_open ? real_open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return 0;
    char text[16] = {0};
    ssize_t length = real_read(file, text, sizeof text - 1);
    close(file);
    return length > 0 ? atoi(text) : 0;
}

static int concerns(const char *path) {
    return strstr(path, "/store/") && !strstr(path, "/LOG");
}

static int fails(int file) {
    char link[32], path[4096];
    int saved = errno, error = fault();
    if (error) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        ssize_t length = readlink(link, path, sizeof path - 1);
        path[length > 0 ? length : 0] = 0;
        error = concerns(path) ? error : 0;
    }
    errno = error ? error : saved;
    return error;
}

static int refuses(const char *path) {
    int saved = errno, error = concerns(path) ? fault() : 0;
    errno = error ? error : saved;
    return error;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define TRANSFER(name, buffer, offset)                                                             \
    ssize_t name(int file, buffer bytes, size_t length, offset at) {                               \
        return fails(file) ? -1 : REAL(name)(file, bytes, length, at);                             \
    }
TRANSFER(pread, void *, off_t)
TRANSFER(pread64, void *, off64_t)
TRANSFER(pwrite, const void *, off_t)
TRANSFER(pwrite64, const void *, off64_t)

ssize_t read(int file, void *bytes, size_t length) {
    return fails(file) ? -1 : real_read(file, bytes, length);
}
ssize_t write(int file, const void *bytes, size_t length) {
    return fails(file) ? -1 : REAL(write)(file, bytes, length);
}
int fsync(int file) { return fails(file) ? -1 : REAL(fsync)(file); }
int fdatasync(int file) { return fails(file) ? -1 : REAL(fdatasync)(file); }

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                    \
        va_end(more);                                                                              \
        return refuses(path) ? -1 : REAL(name)(path, flags, mode);                                 \
    }
OPEN(open)
OPEN(open64)
