/* One-sided memory: writes, reads, sums, and refused calls. Without arguments members are threads,
 * also on several hosts that are groups of threads; with "processes" they are processes. Run by
 * tests/c/programs.rs. */
#include <stdint.h>

#include "expect.h"

#ifndef PUT_ROUNDS
#define PUT_ROUNDS 20
#endif

static syncline_rma *kept;           /* of a function that has returned */
static syncline_rma_memory *kept_memory;

/* Every member applies each operation to the next member, and checks the effect of the previous
 * member's. */
static int all_operations(syncline_member *me, void *argument) {
    size_t rank = syncline_member_rank(me), size = syncline_member_size(me);
    size_t right = (rank + 1) % size, left = (rank + size - 1) % size;
    syncline_rma *rma;
    syncline_rma_memory *memory, *counter;
    void *local;
    (void)argument;
    OK(syncline_member_rma(me, &rma));
    OK(syncline_rma_allocate(rma, 4096, &memory));
    OK(syncline_rma_allocate(rma, rank == 0 ? 64 : 0, &counter));
    EXPECT(syncline_rma_bytes(counter, 0) == 64 && (size == 1 || syncline_rma_bytes(counter, 1) == 0));
    EXPECT((uintptr_t)syncline_rma_address(memory, rank) % 128 == 0);
    OK(syncline_rma_allocate_local(rma, 4096, &local));
    EXPECT((uintptr_t)local % 128 == 0);
    unsigned char *bytes = local;

    for (size_t round = 0; round < PUT_ROUNDS; round++) {
        syncline_rma_handle handle = {{0}}, other = {{0}};
        bool done = false;
        unsigned char value = (unsigned char)(rank + round), theirs = (unsigned char)(left + round);
        memset(bytes, value, 4096);
        /* A blocking put, one by a handle, and one by the implicit handle. */
        OK(syncline_rma_put(rma, memory, right, 0, bytes, 100));
        OK(syncline_rma_start_put(rma, memory, right, 100, bytes, 28, &handle));
        OK(syncline_rma_start_put(rma, memory, right, 128, bytes, 8, NULL));
        OK(syncline_rma_wait(rma, &handle));
        OK(syncline_rma_wait(rma, NULL));
        /* A section: 3 bytes, 4 times 16 apart; 2 of those 200 apart. Here they are contiguous. */
        size_t counts[] = {3, 4, 2}, there[] = {16, 200}, here[] = {3, 12};
        OK(syncline_rma_put_strided(rma, memory, right, 512, there, bytes, here, counts, 2));
        OK(syncline_rma_start_put_strided(rma, memory, right, 1512, there, bytes, here, counts, 2, NULL));
        syncline_rma_segment list[] = {{1000, bytes, 5}, {1010, NULL, 0}, {1100, bytes + 8, 1}};
        OK(syncline_rma_start_put_list(rma, memory, right, list, 3, NULL));
        OK(syncline_rma_wait_all(rma));
        OK(syncline_rma_fence(rma, right));
        OK(syncline_rma_sync(rma));

        memset(bytes, 0, 4096);
        OK(syncline_rma_start_get(rma, memory, rank, 0, bytes, 136, &handle));
        OK(syncline_rma_start_get(rma, memory, right, 1000, bytes + 2000, 101, &other));
        OK(syncline_rma_start_get_strided(rma, memory, rank, 512, there, bytes + 512, there, counts, 2, NULL));
        while (!done) {
            OK(syncline_rma_test(rma, &handle, &done));
        }
        OK(syncline_rma_test(rma, NULL, &done));
        OK(syncline_rma_wait_all(rma));
        OK(syncline_rma_wait(rma, &other));
        for (size_t n = 0; n < 136; n++) {
            EXPECT(bytes[n] == theirs);
        }
        for (size_t n = 0; n < 3 * 16 + 200 + 3; n++) {
            size_t at = n % 200;
            EXPECT(bytes[512 + n] == (at % 16 < 3 && at < 64 ? theirs : 0));
        }
        /* The same section, which was put by the call that returns at once. */
        unsigned char section[24] = {0};
        OK(syncline_rma_get_strided(rma, memory, rank, 1512, there, section, here, counts, 2));
        for (size_t n = 0; n < sizeof section; n++) {
            EXPECT(section[n] == theirs);
        }
        EXPECT(bytes[2000] == value && bytes[2004] == value && bytes[2005] == 0 && bytes[2100] == value);
        unsigned char parts[6] = {0};
        syncline_rma_segment back[] = {{1000, parts, 2}, {1004, parts + 2, 2}, {1100, parts + 4, 1}};
        OK(syncline_rma_start_get_list(rma, memory, rank, back, 3, &handle));
        OK(syncline_rma_wait(rma, &handle));
        EXPECT(parts[0] == theirs && parts[4] == theirs);
        memset(parts, 0, sizeof parts);
        OK(syncline_rma_get_list(rma, memory, rank, back, 3));
        EXPECT(parts[0] == theirs && parts[1] == theirs && parts[2] == theirs && parts[3] == 0 && parts[4] == theirs);
        size_t column[] = {1, 4}, apart[] = {16}, beside[] = {1};
        OK(syncline_rma_get_strided(rma, memory, rank, 512, apart, parts, beside, column, 1));
        EXPECT(parts[0] == theirs && parts[3] == theirs && parts[4] == theirs);
        OK(syncline_rma_get(rma, memory, rank, 1000, parts, 1));

        /* Sums: every member adds to every other, in all types. */
        OK(syncline_rma_sync_start(rma));
        FAILS(syncline_rma_sync_start(rma), MISUSE, "a sync is started: syncline_rma_sync_wait comes first");
        FAILS(syncline_rma_sync(rma), MISUSE, "a sync is started: syncline_rma_sync_wait comes first");
        FAILS(syncline_rma_deallocate(rma, memory), MISUSE, "a sync is started: syncline_rma_sync_wait comes first");
        syncline_status waited;
        do {
            waited = syncline_rma_sync_wait_for(rma, 1000);
        } while (waited == SYNCLINE_STATUS_TIMED_OUT);
        EXPECT(waited == SYNCLINE_STATUS_OK);
        FAILS(syncline_rma_sync_wait_for(rma, 0), MISUSE, "no sync is started");
        const int32_t i32[2] = {1, 2}, two = 2;
        const int64_t i64[2] = {1, 2}, three = 3;
        const float f32[2] = {1, 2}, half = 0.5F, c32[4] = {1, 2, 3, 4}, i_32[2] = {0, 1};
        const double f64[2] = {1, 2}, quarter = 0.25, c64[4] = {1, 2, 3, 4}, i_64[2] = {0, 1};
        for (size_t to = 0; to < size; to++) {
            OK(syncline_rma_accumulate(rma, memory, to, 2048, SYNCLINE_RMA_NUMBER_I32, &two, i32, 8));
            OK(syncline_rma_start_accumulate(rma, memory, to, 2056, SYNCLINE_RMA_NUMBER_I64, &three, i64, 16, NULL));
            size_t rows[] = {4, 2}, far[] = {8}, near[] = {4};
            OK(syncline_rma_accumulate_strided(rma, memory, to, 2072, SYNCLINE_RMA_NUMBER_F32, &half, far, f32, near,
                                               rows, 1));
            syncline_rma_segment numbers[] = {{2088, (void *)f64, 8}, {2096, (void *)(f64 + 1), 8}};
            OK(syncline_rma_accumulate_list(rma, memory, to, SYNCLINE_RMA_NUMBER_F64, &quarter, numbers, 2));
            OK(syncline_rma_start_accumulate_strided(rma, memory, to, 2104, SYNCLINE_RMA_NUMBER_C32, i_32, NULL, c32,
                                                     NULL, (size_t[]){16}, 0, NULL));
            syncline_rma_segment complexes[] = {{2128, (void *)c64, 32}};
            OK(syncline_rma_start_accumulate_list(rma, memory, to, SYNCLINE_RMA_NUMBER_C64, i_64, complexes, 1, &handle));
            OK(syncline_rma_wait(rma, &handle));
        }
        OK(syncline_rma_fence_all(rma));
        OK(syncline_rma_sync_global(rma));
        struct {
            int32_t i32[2];
            int64_t i64[2];
            float f32[4];
            double f64[2];
            float c32[4], none[2];
            double c64[4];
        } sums;
        EXPECT(sizeof sums == 112);
        OK(syncline_rma_get(rma, memory, right, 2048, &sums, sizeof sums));
        double times = (double)(size * (round + 1));
        EXPECT(sums.i32[0] == 2 * times && sums.i32[1] == 4 * times);
        EXPECT(sums.i64[0] == 3 * times && sums.i64[1] == 6 * times);
        EXPECT(sums.f32[0] == times / 2 && sums.f32[1] == 0 && sums.f32[2] == times);
        EXPECT(sums.f64[0] == times / 4 && sums.f64[1] == times / 2);
        EXPECT(sums.c32[0] == -2 * times && sums.c32[1] == times && sums.c32[2] == -4 * times && sums.c32[3] == 3 * times);
        EXPECT(sums.c64[0] == -2 * times && sums.c64[1] == times && sums.c64[2] == -4 * times && sums.c64[3] == 3 * times);

        /* Words at rank 0. */
        int64_t before = -1, word;
        int32_t small;
        OK(syncline_rma_fetch_add_i64(rma, counter, 0, 0, 1, &before));
        EXPECT(before >= (int64_t)(round * size) && before < (int64_t)((round + 1) * size));
        OK(syncline_rma_fetch_add_i32(rma, counter, 0, 8, -1, &small));
        EXPECT(small <= 0);
        OK(syncline_rma_fence_all(rma));
        OK(syncline_rma_sync(rma));
        OK(syncline_rma_get(rma, counter, 0, 0, &word, 8));
        EXPECT(word == (int64_t)((round + 1) * size));
        if (rank == size - 1) {
            syncline_rma_pair found, old = {round, 2 * round}, new = {round + 1, 2 * round + 2};
            OK(syncline_rma_compare_swap_pair(rma, counter, 0, 16, new, old, &found));
            EXPECT(found.first == old.first && found.second == old.second);
            OK(syncline_rma_compare_swap_pair(rma, counter, 0, 16, old, new, &found));
            OK(syncline_rma_swap_pair(rma, counter, 0, 16, new, &found));
            EXPECT(found.first == new.first && found.second == new.second);
            OK(syncline_rma_swap_i64(rma, counter, 0, 32, 7, &before));
            OK(syncline_rma_compare_swap_i64(rma, counter, 0, 32, 7, 9, &before));
            EXPECT(before == 7);
            OK(syncline_rma_swap_i32(rma, counter, 0, 40, 5, &small));
            OK(syncline_rma_compare_swap_i32(rma, counter, 0, 40, 4, 1, &small));
            EXPECT(small == 5);
        }
        done = false;
        OK(syncline_rma_sync_start(rma));
        while (!done) {
            OK(syncline_rma_sync_done(rma, &done));
        }
        OK(syncline_rma_sync_done(rma, &done));
        EXPECT(done);
    }
    /* Within a host, the part of another member has an address. */
    for (size_t other = 0; other < size; other++) {
        size_t each = size / syncline_member_hosts(me);
        EXPECT((syncline_rma_address(memory, other) != NULL) == (other / each == syncline_member_host(me)));
    }
    OK(syncline_rma_sync(rma));
    OK(syncline_rma_deallocate(rma, counter));
    OK(syncline_rma_deallocate_local(rma, local));
    if (rank == 0) {
        kept = rma;
        kept_memory = memory;
    }
    return 0;
}

/* A refused call changes nothing: correct calls continue to work. */
static int faults(syncline_member *me, void *argument) {
    size_t rank = syncline_member_rank(me), size = syncline_member_size(me), other = (rank + 1) % size;
    syncline_rma *rma, *second;
    syncline_rma_memory *memory, *elsewhere;
    syncline_rma_mutexes *no_mutexes;
    syncline_rma_handle handle = {{0}}, forged = {{~(uint64_t)0, 1, 2, 3}};
    void *buffer;
    bool done;
    int64_t word;
    char bytes[64] = {0};
    size_t counts[] = {4, 2}, overlapping[] = {2}, apart[] = {8};
    size_t groups[] = {4, 3, 2}, interleaved[] = {8, 12}, packed[] = {4, 12}, twice[] = {8, 16};
    double one = 1;
    char none[100];
    (void)argument;
    sprintf(none, "there is no rank 4096: the members are ranks 0 to %zu", size - 1);
    FAILS(syncline_member_rma(NULL, &rma), INVALID_ARGUMENT, "the member is NULL");
    FAILS(syncline_member_rma(me, NULL), INVALID_ARGUMENT, "rma is NULL");
    OK(syncline_member_rma(me, &rma));
    OK(syncline_member_rma(me, &second));
    FAILS(syncline_rma_allocate(NULL, 64, &memory), INVALID_ARGUMENT, "the rma is NULL");
    FAILS(syncline_rma_allocate(rma, 64, NULL), INVALID_ARGUMENT, "memory is NULL");
    EXPECT(syncline_rma_allocate(rma, SIZE_MAX / 4, &memory) == SYNCLINE_STATUS_NO_ROOM);
    EXPECT(syncline_rma_allocate(rma, SIZE_MAX, &memory) == SYNCLINE_STATUS_NO_ROOM);
    EXPECT(syncline_rma_allocate_for(rma, (size_t)1 << 46, SYNCLINE_FOREVER, &memory) == SYNCLINE_STATUS_NO_ROOM);
    EXPECT(syncline_rma_allocate_local(rma, SIZE_MAX, &buffer) == SYNCLINE_STATUS_NO_ROOM);
    EXPECT(syncline_rma_mutexes_new(rma, SIZE_MAX, &no_mutexes) == SYNCLINE_STATUS_NO_ROOM);
    OK(syncline_rma_allocate(rma, 64, &memory));
    OK(syncline_rma_allocate(second, 64, &elsewhere));

    FAILS(syncline_rma_put(NULL, memory, 0, 0, bytes, 8), INVALID_ARGUMENT, "the rma is NULL");
    FAILS(syncline_rma_put(rma, NULL, 0, 0, bytes, 8), INVALID_ARGUMENT, "the memory is NULL");
    FAILS(syncline_rma_put(rma, memory, 0, 0, NULL, 8), INVALID_ARGUMENT, "the buffer is NULL");
    OK(syncline_rma_put(rma, memory, 0, 64, NULL, 0));
    FAILS(syncline_rma_put(rma, memory, 4096, 0, bytes, 8), INVALID_ARGUMENT, none);
    FAILS(syncline_rma_put(rma, memory, 0, 60, bytes, 8), INVALID_ARGUMENT,
          "bytes 60 to 68 are not all among the 64 that rank 0 has in this allocation");
    FAILS(syncline_rma_get(rma, memory, 0, SIZE_MAX, bytes, 8), INVALID_ARGUMENT,
          "bytes 18446744073709551615 to 18446744073709551615 are not all among the 64 that rank 0 has in this allocation");
    FAILS(syncline_rma_put(rma, elsewhere, 0, 0, bytes, 8), MISUSE, "the memory belongs to another rma");
    FAILS(syncline_rma_deallocate(rma, elsewhere), MISUSE, "the memory belongs to another rma");
    FAILS(syncline_rma_put_strided(rma, memory, 0, 0, overlapping, bytes, apart, counts, 1), INVALID_ARGUMENT,
          "invalid argument: runs overlap: a stride of 2 elements is less than their extent of 4");
    FAILS(syncline_rma_get_strided(rma, memory, 0, 0, apart, bytes, overlapping, counts, 1), INVALID_ARGUMENT,
          "invalid argument: runs overlap: a stride of 2 elements is less than their extent of 4");
    /* Bytes 0, 8, 16 and 12, 20, 28, four each: none is written twice, though groups interleave. */
    OK(syncline_rma_put_strided(rma, memory, rank, 0, interleaved, bytes, packed, groups, 2));
    OK(syncline_rma_get_strided(rma, memory, rank, 0, packed, bytes, interleaved, groups, 2));
    FAILS(syncline_rma_put_strided(rma, memory, rank, 0, twice, bytes, packed, groups, 2),
          INVALID_ARGUMENT, "invalid argument: runs overlap: a stride of 16 elements is less than their extent of 20");
    FAILS(syncline_rma_put_strided(rma, memory, 0, 0, NULL, bytes, apart, counts, 1), INVALID_ARGUMENT, "there is NULL");
    FAILS(syncline_rma_put_strided(rma, memory, 0, 0, apart, bytes, apart, NULL, 1), INVALID_ARGUMENT, "counts is NULL");
    FAILS(syncline_rma_put_list(rma, memory, 0, NULL, 1), INVALID_ARGUMENT, "list is NULL");
    OK(syncline_rma_put_list(rma, memory, 0, NULL, 0));
    FAILS(syncline_rma_accumulate(rma, memory, 0, 0, 6, &one, bytes, 8), INVALID_ARGUMENT,
          "there is no syncline_rma_number 6");
    FAILS(syncline_rma_accumulate(rma, memory, 0, 0, SYNCLINE_RMA_NUMBER_F64, NULL, bytes, 8), INVALID_ARGUMENT,
          "factor is NULL");
    FAILS(syncline_rma_accumulate(rma, memory, 0, 4, SYNCLINE_RMA_NUMBER_F64, &one, bytes, 8), INVALID_ARGUMENT,
          "8 bytes at offset 4 are not whole, aligned elements of 8 bytes");
    FAILS(syncline_rma_fetch_add_i64(rma, memory, 0, 4, 1, &word), INVALID_ARGUMENT,
          "8 bytes at offset 4 are not whole, aligned elements of 8 bytes");
    FAILS(syncline_rma_fetch_add_i64(rma, memory, 0, 0, 1, NULL), INVALID_ARGUMENT, "before is NULL");
    FAILS(syncline_rma_wait(rma, &forged), MISUSE, "the handle is of another rma, or was never made zero");
    FAILS(syncline_rma_start_put(rma, memory, other, 0, bytes, 8, &forged), MISUSE,
          "the handle has an operation that was not waited for, or was never made zero");
    OK(syncline_rma_wait(rma, &handle));
    FAILS(syncline_rma_test(rma, &handle, NULL), INVALID_ARGUMENT, "done is NULL");
    OK(syncline_rma_test(rma, &handle, &done));
    EXPECT(done);
    if (syncline_member_hosts(me) > 1) {
        OK(syncline_rma_start_get(rma, memory, other, 0, bytes, 8, &handle));
        FAILS(syncline_rma_start_get(rma, memory, other, 0, bytes, 8, &handle), MISUSE,
              "the handle has an operation that was not waited for, or was never made zero");
        FAILS(syncline_rma_wait(second, &handle), MISUSE, "the handle is of another rma, or was never made zero");
        OK(syncline_rma_wait(rma, &handle));
        OK(syncline_rma_wait(rma, &handle));
        EXPECT(syncline_member_memory(me, 64, &buffer) == SYNCLINE_STATUS_INVALID_ARGUMENT);
    }
    EXPECT(syncline_rma_address(NULL, 0) == NULL && syncline_rma_bytes(NULL, 0) == SIZE_MAX);
    EXPECT(syncline_rma_address(memory, 4096) == NULL && syncline_rma_bytes(memory, 4096) == SIZE_MAX);
    FAILS(syncline_rma_fence(rma, 4096), INVALID_ARGUMENT, none);
    OK(syncline_rma_allocate_local(rma, 0, &buffer));
    FAILS(syncline_rma_deallocate_local(rma, bytes), MISUSE, "the buffer was freed, or is another rma's");
    OK(syncline_rma_deallocate_local(rma, buffer));
    FAILS(syncline_rma_deallocate_local(rma, buffer), MISUSE, "the buffer was freed, or is another rma's");
    OK(syncline_rma_deallocate_local(rma, NULL));
    OK(syncline_rma_allocate_local(rma, 100, &buffer)); /* freed with the rma */
    OK(syncline_rma_deallocate(rma, memory));
    FAILS(syncline_rma_deallocate(rma, memory), MISUSE, "the memory was freed");
    FAILS(syncline_rma_put(rma, memory, 0, 0, bytes, 8), MISUSE, "the memory was freed");
    EXPECT(syncline_rma_address(memory, rank) == NULL && syncline_rma_bytes(memory, rank) == SIZE_MAX);
    if (size == 2) {
        /* One member frees while the other allocates. */
        EXPECT((rank == 0 ? syncline_rma_deallocate(second, elsewhere) : syncline_rma_allocate(second, 8, &memory)) ==
               SYNCLINE_STATUS_MISUSE);
    }
    OK(syncline_rma_deallocate(second, elsewhere));
    OK(syncline_rma_sync(rma));
    return 0;
}

/* One member leaves before the sync, and gets are in flight when the others return. */
static int one_is_gone(syncline_member *me, void *argument) {
    size_t rank = syncline_member_rank(me), size = syncline_member_size(me);
    syncline_rma *rma;
    syncline_rma_memory *memory;
    static char bytes[4][100000];
    syncline_rma_handle handle = {{0}};
    (void)argument;
    OK(syncline_member_rma(me, &rma));
    OK(syncline_rma_allocate(rma, 100000, &memory));
    OK(syncline_rma_start_get(rma, memory, (rank + 1) % size, 0, bytes[rank], 100000, &handle));
    OK(syncline_rma_start_get(rma, memory, (rank + 1) % size, 0, bytes[rank], 10, NULL));
    if (rank == 1) {
        return 0;
    }
    EXPECT(syncline_rma_sync(rma) == SYNCLINE_STATUS_GONE);
    return 0;
}

/* Rank 1 returns while it holds a mutex of rank 0. */
static int with_the_mutex(syncline_member *me, void *argument) {
    syncline_rma *rma;
    syncline_rma_mutexes *mutexes;
    (void)argument;
    OK(syncline_member_rma(me, &rma));
    OK(syncline_rma_mutexes_new(rma, 2, &mutexes));
    if (syncline_member_rank(me) == 1) {
        OK(syncline_rma_lock(rma, mutexes, 0, 1));
    }
    return 0;
}

static int both(syncline_member *me, void *argument) {
    int code = all_operations(me, argument) + faults(me, argument);
    if (syncline_member_rank(me) == 0) {
        puts("all data arrived, between processes");
    }
    return code;
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "processes") == 0) {
        const syncline_shape processes = {3, 1, 1 << 24, 0};
        OK(syncline_team_run(&processes, both, NULL));
        return 0;
    }
    const syncline_shape shapes[] = {
        {.threads = 1}, {.threads = 3}, {.hosts = 2}, {.hosts = 3}, {.threads = 2, .hosts = 2}, {.processes = 2, .hosts = 2}};
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        OK(syncline_team_run(&shapes[n], all_operations, NULL));
        char byte;
        FAILS(syncline_rma_put(kept, kept_memory, 0, 0, &byte, 1), MISUSE, "the function of the member has returned");
        FAILS(syncline_rma_sync(kept), MISUSE, "the function of the member has returned");
        EXPECT(syncline_rma_address(kept_memory, 0) == NULL);
    }
    const syncline_shape one = {.threads = 1}, two = {.threads = 2}, hosts = {.hosts = 2, .memory = 1 << 22};
    OK(syncline_team_run(&one, faults, NULL));
    OK(syncline_team_run(&two, faults, NULL));
    OK(syncline_team_run(&hosts, faults, NULL));
    FAILS(syncline_team_run(&two, with_the_mutex, NULL), MISUSE, "rank 1 returned while it held mutex 1 of rank 0");
    OK(syncline_team_run(&two, one_is_gone, NULL));
    OK(syncline_team_run(&hosts, one_is_gone, NULL));
    puts("all data arrived");
    return 0;
}
