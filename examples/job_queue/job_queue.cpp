// A queue of jobs that survives kill -9: no job is lost, and each result counts once.
//
//     job_queue HEAP add NUMBER...    appends jobs
//     job_queue HEAP work             does them all: a job is the number of steps that Collatz's sequence takes to 1
//     job_queue HEAP status           prints "waiting W, done D, sum S"
//
// Each change is one transaction in durability `atomic`: when commit has returned, it is there after a kill, and a kill
// before leaves none of it. (On the page cache. After a loss of power on an ordinary disk, use durability `commit`.)
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

namespace {

struct job {
    holdfast::ptr<job> next;
    std::uint64_t number = 0;
};
struct job_queue {
    holdfast::ptr<job> first;
    holdfast::ptr<job> last;
    std::uint64_t waiting = 0;
    std::uint64_t done = 0;
    std::uint64_t sum = 0;
};

holdfast::open_options durable() {
    holdfast::open_options options;
    options.durability = holdfast::durability::atomic;
    options.accept_process_crash_only = true;
    return options;
}

void add(holdfast::manager& heap, job_queue& queue, std::uint64_t number) {
    heap.transact([&](holdfast::transaction& tx) {
        job_queue& changed = tx.open(queue);  // a copy: the queue changes when the transaction ends
        job* const fresh = tx.make<job>();
        fresh->number = number;
        if (changed.last == nullptr) {
            changed.first = fresh;
        } else {
            tx.open(changed.last).next = fresh;
        }
        changed.last = fresh;
        ++changed.waiting;
    });
}

std::uint64_t work_on(std::uint64_t number) {
    std::uint64_t steps = 0;
    for (; number > 1; ++steps) {
        number = number % 2 == 0 ? number / 2 : 3 * number + 1;
    }
    return steps;
}

/// Takes the first job out of the queue and enters its result, both at once.
void finish(holdfast::manager& heap, job_queue& queue, std::uint64_t result) {
    heap.transact([&](holdfast::transaction& tx) {
        job_queue& changed = tx.open(queue);
        job* const finished = changed.first.get();
        changed.first = finished->next;
        if (changed.first == nullptr) {
            changed.last = nullptr;
        }
        tx.destroy(finished);
        --changed.waiting;
        ++changed.done;
        changed.sum += result;
    });
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view command = argc > 2 ? argv[2] : "";
    try {
        if (command == "add" || command == "work" || command == "status") {
            holdfast::manager heap(holdfast::open_or_create, argv[1], durable());
            job_queue& queue = *heap.find_or_construct<job_queue>("jobs")();
            for (int i = 3; i < argc && command == "add"; ++i) {
                add(heap, queue, std::strtoull(argv[i], nullptr, 10));
            }
            while (command == "work" && queue.first != nullptr) {
                finish(heap, queue, work_on(queue.first->number));  // a kill in work_on() leaves the job in the queue
            }
            if (command == "status") {
                std::printf("waiting %llu, done %llu, sum %llu\n", static_cast<unsigned long long>(queue.waiting),
                            static_cast<unsigned long long>(queue.done), static_cast<unsigned long long>(queue.sum));
            }
            return 0;
        }
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "job_queue: %s\n", failure.what());
        return 1;
    }
    std::fprintf(stderr, "usage: job_queue HEAP add NUMBER... | work | status\n");
    return 2;
}
