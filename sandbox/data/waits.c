/* Waits that libfaketime 0.9.10 leaves out or spoils. Preloaded before it, so that a program under a shifted clock waits
   as long as it asks for. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* glibc's own ends by the host's clock what librdkafka counts by the shifted one. libfaketime's pthread form converts. */
int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until)
{
    int error = pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until);
    return error == 0 ? thrd_success : error == ETIMEDOUT ? thrd_timedout : thrd_error;
}

/* libfaketime shifts the end also of the monotonic clock, which it was told to leave alone; Python sleeps by that. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *request, struct timespec *left)
{
    return syscall(SYS_clock_nanosleep, clock, flags, request, left) == 0 ? 0 : errno;
}
