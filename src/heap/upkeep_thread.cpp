#include "heap/upkeep_thread.hpp"

#include <pthread.h>

#include <ctime>

#include "base/interruption.hpp"

namespace holdfast::heap {

upkeep_thread::upkeep_thread(slab::slab_upkeep& of, std::uint64_t decay_ns) : of_(of) {
    const base::no_signals while_it_begins;  // the program's handlers run on its own threads
    thread_ = std::thread([this, decay_ns] {
        run(of_.alarm(), periods_for(decay_ns), ends_, [this] {
            of_.age_alone();
            return true;
        });
    });
}

upkeep_thread::~upkeep_thread() {
    ends_.store(1);
    base::wake_sleepers(ends_);
    of_.alarm().note_use();
    thread_.join();
}

void upkeep_thread::run(slab::upkeep_alarm& alarm, std::uint64_t periods, const base::atomic<std::uint32_t>& ends,
                        base::function_ref<bool()> give_back) noexcept {
    static_cast<void>(::pthread_setname_np(::pthread_self(), "holdfast-upkeep"));
    constexpr timespec pause{.tv_sec = 0, .tv_nsec = period};
    std::uint64_t left = periods;
    while (ends.load() == 0 && give_back()) {
        base::sleep_while(ends, 0, pause);
        left = alarm.take_use() ? periods : left - 1;
        if (left == 0) {
            alarm.sleep();
            left = periods;
        }
    }
}

}  // namespace holdfast::heap
