// C++: a pipeline of stages, with smart pointers that free the library's objects.
//
//     c++ pipeline.cpp -lsyncline_c
//
// Stage s adds its number to the result of stage s - 1 in the same round. A buffer between two
// stages is a location; several rounds are in flight at once, one per stage.
#include <array>
#include <cstdint>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "syncline.h"

namespace {

void check(syncline_status status) {
    if (status != SYNCLINE_STATUS_OK) {
        throw std::runtime_error(syncline_last_failure()->message);
    }
}

struct Free {
    void operator()(syncline_location *location) const { syncline_location_free(location); }
    void operator()(syncline_overlay *overlay) const { syncline_overlay_free(overlay); }
};
template <typename T> using Owned = std::unique_ptr<T, Free>;

Owned<syncline_location> location(const std::string &name) {
    syncline_location *made = nullptr;
    check(syncline_location_new(name.c_str(), &made));
    return Owned<syncline_location>(made);
}

struct Stage {
    const std::uint64_t *in;
    std::uint64_t *out;
    std::uint64_t number;
};

// No exception may leave the body of a task.
extern "C" int add(void *user, std::uint64_t round, syncline_step *) noexcept {
    const Stage &stage = *static_cast<Stage *>(user);
    *stage.out = (stage.in ? *stage.in : round) + stage.number;
    return 0;
}

} // namespace

int main() try {
    constexpr std::size_t stages = 5;
    constexpr std::uint64_t rounds = 1000;
    std::array<std::uint64_t, stages> buffers{};
    std::vector<Owned<syncline_location>> locations;
    std::vector<Stage> bodies;
    for (std::size_t s = 0; s < stages; s++) {
        locations.push_back(location("buffer " + std::to_string(s)));
        bodies.push_back({s > 0 ? &buffers[s - 1] : nullptr, &buffers[s], s});
    }
    syncline_overlay *made = nullptr;
    check(syncline_overlay_new(&made));
    const Owned<syncline_overlay> overlay(made);
    for (std::size_t s = 0; s < stages; s++) {
        syncline_location *read = s > 0 ? locations[s - 1].get() : nullptr;
        syncline_location *write = locations[s].get();
        check(syncline_overlay_task(overlay.get(), ("stage " + std::to_string(s)).c_str(), &read, s > 0, &write, 1,
                                    add, &bodies[s], nullptr));
    }
    check(syncline_overlay_check(overlay.get(), SYNCLINE_INITIAL_PROGRAM));
    check(syncline_overlay_run(overlay.get(), SYNCLINE_RUNNER_POOL, 2, rounds, nullptr));
    const std::uint64_t expected = rounds - 1 + stages * (stages - 1) / 2;
    std::cout << "last: " << buffers.back() << ", expected " << expected << '\n';
    return buffers.back() == expected ? 0 : 1;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
