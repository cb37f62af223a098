/* A oneTBB flow graph beside overlays: a continue_node per task, used in every round anew.
 *
 * A node fires when it has a message from every task that it conflicts with. After round r a task sends to a later
 * one the message for round r, and to an earlier one that for round r + 1, if there will be one. So no message is
 * left over, and the graph is built once.
 *
 *   g++ -O3 -std=c++17 -o overlay_tbb overlay_tbb.cpp -ltbb
 */
#include "overlay.h"

#include <deque>
#include <memory>
#include <vector>

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

namespace {

using tbb::flow::continue_msg;
using Node = tbb::flow::continue_node<continue_msg>;

struct alignas(64) State {
    uint64_t round = 0;
    std::vector<Node *> earlier, later;
};

std::unique_ptr<tbb::global_control> threads;
std::unique_ptr<tbb::task_arena> arena;
uint64_t last; /* rounds of this run */

void run_flow(uint64_t rounds)
{
    /* The same graph in both calls. */
    static tbb::flow::graph *graph;
    static std::vector<State> states;
    static std::deque<Node> nodes;
    last = rounds;
    arena->execute([] {
        if (!graph) {
            graph = new tbb::flow::graph;
            states.resize(count);
            std::vector<uint32_t> place(count);
            for (uint32_t i = 0; i < count; i++) {
                place[tasks[i].number] = i;
                nodes.emplace_back(*graph, static_cast<int>(tasks[i].conflicts), [i](continue_msg) {
                    State &me = states[i];
                    const uint64_t round = me.round++;
                    body(&tasks[i], round);
                    for (Node *node : me.later)
                        node->try_put(continue_msg());
                    if (round + 1 < last)
                        for (Node *node : me.earlier)
                            node->try_put(continue_msg());
                    return continue_msg();
                });
            }
            for (uint32_t i = 0; i < count; i++) {
                if (!tasks[i].conflicts)
                    states[i].earlier.push_back(&nodes[i]); /* Without conflicts it goes round by itself. */
                for (uint32_t c = 0; c < tasks[i].conflicts; c++) {
                    const uint32_t other = place[tasks[i].conflict[c]];
                    (other < i ? states[i].earlier : states[i].later).push_back(&nodes[other]);
                }
            }
        }
        for (State &state : states)
            state.round = 0;
        /* For its first round a task waits for the earlier ones only. */
        for (uint32_t i = 0; i < count; i++)
            for (size_t m = tasks[i].conflicts ? states[i].later.size() : 1; m > 0; m--)
                nodes[i].try_put(continue_msg());
        graph->wait_for_all();
    });
}

} // namespace

static runner *prepare(const char *form, int workers)
{
    threads = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                    static_cast<size_t>(workers));
    arena = std::make_unique<tbb::task_arena>(workers);
    return strcmp(form, "flow") ? nullptr : run_flow;
}
