// An exception that leaves the function of a worker terminates that worker and is the error of its
// task. Run by tests/c/programs.rs.
#include <cstdio>

#include "expect.h"

static int work(const void *, size_t, syncline_farm_result *, void *) { throw 7; }

int main() {
    syncline_farm_pool *pool;
    const syncline_farm_outcome *outcome;
    OK(syncline_farm_serve(work, nullptr));
    OK(syncline_farm_pool_new(1, nullptr, nullptr, nullptr, &pool));
    OK(syncline_farm_pool_submit(pool, "x", 1, 0, 0, nullptr));
    OK(syncline_farm_pool_next(pool, &outcome));
    EXPECT(outcome->status == SYNCLINE_STATUS_GONE);
    std::puts(outcome->error);
    syncline_farm_outcome_dispose(outcome);
    OK(syncline_farm_pool_finish(pool));
    OK(syncline_farm_pool_free(pool));
    return 0;
}
