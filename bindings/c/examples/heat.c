/* An overlay: heat in a plate, by Gauss-Seidel in blocks, compared with the plain double loop.
 *
 *     cc heat.c -lsyncline_c
 *
 * Each block of the plate is a location. Its task writes it and reads the neighbours' edges. With
 * SYNCLINE_INITIAL_WAVE the blocks are updated in the order of the double loop, so the results are
 * equal bit for bit, whichever threads run them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syncline.h"

enum { SIDE = 66, BLOCKS = 4, BLOCK = (SIDE - 2) / BLOCKS, ITERATIONS = 50 };

typedef double plate[SIDE][SIDE];

static plate by_loop, by_blocks;

static void check(syncline_status status) {
    if (status != SYNCLINE_STATUS_OK) {
        fprintf(stderr, "%s\n", syncline_last_failure()->message);
        exit(1);
    }
}

/* Sets the plate to 0, and its upper edge to 100. */
static void set_up(plate p) {
    memset(p, 0, sizeof(plate));
    for (int j = 0; j < SIDE; j++) {
        p[0][j] = 100.0;
    }
}

/* One iteration over a part of the plate. Returns the greatest change. */
static double relax(plate p, int top, int left, int rows, int cols) {
    double change = 0.0;
    for (int i = top; i < top + rows; i++) {
        for (int j = left; j < left + cols; j++) {
            double new = (p[i - 1][j] + p[i][j - 1] + p[i][j + 1] + p[i + 1][j]) / 4.0;
            change = fmax(change, fabs(new - p[i][j]));
            p[i][j] = new;
        }
    }
    return change;
}

struct block {
    int top, left;
};

/* The body of all tasks. */
static int relax_block(void *user, uint64_t iteration, syncline_step *step) {
    const struct block *block = user;
    (void)iteration;
    check(syncline_step_report(step, relax(by_blocks, block->top, block->left, BLOCK, BLOCK)));
    return 0;
}

static int differences(void) {
    return memcmp(by_loop, by_blocks, sizeof(plate)) != 0;
}

int main(void) {
    syncline_location *location[BLOCKS][BLOCKS];
    struct block block[BLOCKS][BLOCKS];
    syncline_overlay *overlay;

    for (int i = 0; i < BLOCKS; i++) {
        for (int j = 0; j < BLOCKS; j++) {
            char name[32];
            snprintf(name, sizeof name, "block %d %d", i, j);
            check(syncline_location_new(name, &location[i][j]));
        }
    }
    check(syncline_overlay_new(&overlay));
    for (int i = 0; i < BLOCKS; i++) {
        for (int j = 0; j < BLOCKS; j++) {
            syncline_location *neighbours[4];
            size_t count = 0;
            char name[32];
            if (i > 0) neighbours[count++] = location[i - 1][j];
            if (j > 0) neighbours[count++] = location[i][j - 1];
            if (j + 1 < BLOCKS) neighbours[count++] = location[i][j + 1];
            if (i + 1 < BLOCKS) neighbours[count++] = location[i + 1][j];
            block[i][j] = (struct block){1 + i * BLOCK, 1 + j * BLOCK};
            snprintf(name, sizeof name, "relax %d %d", i, j);
            check(syncline_overlay_task(overlay, name, neighbours, count, &location[i][j], 1, relax_block,
                                        &block[i][j], NULL));
        }
    }
    check(syncline_overlay_check(overlay, SYNCLINE_INITIAL_WAVE));

    set_up(by_loop);
    set_up(by_blocks);
    int wrong = 0;

    for (int n = 0; n < ITERATIONS; n++) {
        relax(by_loop, 1, 1, SIDE - 2, SIDE - 2);
    }
    syncline_report *report;
    check(syncline_overlay_run(overlay, SYNCLINE_RUNNER_POOL, 2, ITERATIONS, &report));
    wrong += differences();
    printf("%llu steps, %llu iterations: %s\n", (unsigned long long)report->steps,
           (unsigned long long)report->iterations, differences() ? "DIFFERENT" : "the bits of the loop");
    syncline_report_dispose(report);

    /* The run continues with one thread per block until no point changes by more than a hundredth.
     */
    check(syncline_overlay_run_until(overlay, SYNCLINE_RUNNER_THREADS, 0, 0.01, 10000, &report));
    for (uint64_t n = 0; n < report->iterations; n++) {
        double change = relax(by_loop, 1, 1, SIDE - 2, SIDE - 2);
        wrong += change != report->residuals[n];
        wrong += (change <= 0.01) != (n >= report->converged_at);
    }
    wrong += differences() + !report->converged;
    printf("converged: %s, residuals those of the loop: %s\n", report->converged ? "yes" : "no",
           wrong ? "NO" : "yes");
    syncline_report_dispose(report);

    check(syncline_overlay_free(overlay));
    for (int i = 0; i < BLOCKS; i++) {
        for (int j = 0; j < BLOCKS; j++) {
            syncline_location_free(location[i][j]);
        }
    }
    return wrong != 0;
}
