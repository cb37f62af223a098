/* Ordered locks without an overlay: two threads alternate strictly over one buffer, without a mutex
 * or a condition variable.
 *
 *     cc handles.c -lsyncline_c -pthread
 *
 * The producer writes a batch, the consumer reads it. Each posts its next request before it
 * releases the present grant, so the order of the first two posts is kept. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "syncline.h"

enum { BATCHES = 1000, LENGTH = 64 };

/* The data that the location `batch` orders. */
static int batch[LENGTH];

static void check(syncline_status status) {
    if (status != SYNCLINE_STATUS_OK) {
        fprintf(stderr, "%s\n", syncline_last_failure()->message);
        exit(1);
    }
}

static void *produce(void *argument) {
    syncline_handle *writer = argument;
    for (int n = 0; n < BATCHES; n++) {
        check(syncline_acquire(writer));
        for (int i = 0; i < LENGTH; i++) {
            batch[i] = n + i;
        }
        check(n + 1 < BATCHES ? syncline_next(writer) : syncline_release(writer));
    }
    return NULL;
}

static void *consume(void *argument) {
    static long long sum;
    syncline_handle *reader = argument;
    for (int n = 0; n < BATCHES; n++) {
        check(syncline_acquire(reader));
        for (int i = 0; i < LENGTH; i++) {
            sum += batch[i];
        }
        check(n + 1 < BATCHES ? syncline_next(reader) : syncline_release(reader));
    }
    return &sum;
}

int main(void) {
    syncline_location *location;
    syncline_handle *writer, *reader;
    check(syncline_location_new("batch", &location));
    check(syncline_writer_new(location, &writer));
    check(syncline_reader_new(location, &reader));

    /* The order of the posts decides, not the order in which the threads start. */
    check(syncline_post(writer));
    check(syncline_post(reader));

    /* The reader is second in the queue, so it would have to wait. */
    if (syncline_acquire_for(reader, 1000000) == SYNCLINE_STATUS_TIMED_OUT) {
        printf("%s\n", syncline_last_failure()->message);
    }

    pthread_t consumer, producer;
    void *sum;
    if (pthread_create(&consumer, NULL, consume, reader) || pthread_create(&producer, NULL, produce, writer)) {
        perror("pthread_create");
        return 1;
    }
    pthread_join(producer, NULL);
    pthread_join(consumer, &sum);

    long long expected = 0;
    for (int n = 0; n < BATCHES; n++) {
        for (int i = 0; i < LENGTH; i++) {
            expected += n + i;
        }
    }
    printf("sum %lld, expected %lld\n", *(long long *)sum, expected);

    check(syncline_handle_free(writer));
    check(syncline_handle_free(reader));
    syncline_location_free(location);
    return *(long long *)sum == expected ? 0 : 1;
}
