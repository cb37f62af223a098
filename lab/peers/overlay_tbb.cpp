/* The oneTBB peer of overlays: a flow graph with a continue_node per task, reused in every round.
 *
 * A node fires when it has a message from every task that it conflicts with. After round r a task
 * sends the message for round r to each later task, and the message for round r + 1, if there is
 * such a round, to each earlier task. So no message is left over, and the graph is built once.
 *
 * An observer pins each thread when it enters the arena for the first time. All threads have
 * entered it before the first round.
 *
 *   g++ -O3 -std=c++17 -o overlay_tbb overlay_tbb.cpp -ltbb
 */
#include "overlay.h"

#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/task_scheduler_observer.h>

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

/* The processors of the process, and the state of the pinning. */
std::vector<int> processors;
std::atomic<unsigned> others{0};
std::atomic<bool> all_pinned{true};

void pin(unsigned worker)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (!processors.empty())
        CPU_SET(processors[worker % processors.size()], &set);
    if (sched_setaffinity(0, sizeof set, &set) || !is_pinned())
        all_pinned = false;
}

/* Worker 0 is the main thread; the others get the next numbers, regardless of their slots in the
 * arena. */
class Observer : public tbb::task_scheduler_observer {
public:
    explicit Observer(tbb::task_arena &watched) : tbb::task_scheduler_observer(watched) { observe(true); }

    void on_scheduler_entry(bool is_worker) override
    {
        static thread_local bool done = false;
        if (is_worker && !done)
            pin(++others);
        done = true;
    }
};

std::unique_ptr<Observer> observer;

/* Starts all threads: a task for each, none of which ends before all have begun, or before a
 * timeout. */
void gather(int workers)
{
    arena->execute([workers] {
        std::atomic<int> here{0};
        tbb::task_group group;
        for (int i = 0; i < workers; i++)
            group.run([&here, workers] {
                here++;
                for (const double start = now(); here < workers && now() - start < 0.1;)
                    std::this_thread::yield();
            });
        group.wait();
    });
}

void run_flow(uint64_t rounds)
{
    /* Both calls use the same graph. */
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
                    states[i].earlier.push_back(&nodes[i]); /* It triggers itself. */
                for (uint32_t c = 0; c < tasks[i].conflicts; c++) {
                    const uint32_t other = place[tasks[i].conflict[c]];
                    (other < i ? states[i].earlier : states[i].later).push_back(&nodes[other]);
                }
            }
        }
        for (State &state : states)
            state.round = 0;
        /* For its first round a task waits only for earlier tasks. */
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
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set))
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &set))
                processors.push_back(cpu);
    observer = std::make_unique<Observer>(*arena);
    gather(workers);
    /* Last: new threads may at first run only where their creator may. */
    pin(0);
    return strcmp(form, "flow") ? nullptr : run_flow;
}

static int pinned(void)
{
    return all_pinned;
}
