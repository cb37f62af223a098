// A body that throws an exception, which is not allowed. Run by tests/c/programs.rs.
#include <iostream>

#include "syncline.h"

static int body(void *, uint64_t, syncline_step *) {
    throw 7;
}

int main() {
    syncline_overlay *overlay = nullptr;
    syncline_overlay_new(&overlay);
    syncline_overlay_task(overlay, "t", nullptr, 0, nullptr, 0, body, nullptr, nullptr);
    syncline_overlay_check(overlay, SYNCLINE_INITIAL_PROGRAM);
    syncline_overlay_run(overlay, SYNCLINE_RUNNER_POOL, 1, 1, nullptr);
    std::cout << "not reached\n";
    return 0;
}
