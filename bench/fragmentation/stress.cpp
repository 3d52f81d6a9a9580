#include "fragmentation/stress.hpp"

#include <chrono>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "support/random.hpp"

namespace bench {

namespace {

constexpr std::size_t page = 4096;

struct object {
    std::size_t number = 0;
    std::uint64_t bytes = 0;
};

/// The objects that exist, in the order in which they were made.
class population {
public:
    population(space_backend& backend, std::size_t limit) : backend_(backend) {
        for (std::size_t i = limit; i > 0; --i) {
            free_numbers_.push_back(i - 1);
        }
    }
    /// False where there is no space.
    bool make(std::uint64_t bytes) {
        if (free_numbers_.empty()) {
            throw std::logic_error("more objects than the file system has room for");
        }
        const object fresh{free_numbers_.back(), bytes};
        const auto start = std::chrono::steady_clock::now();
        const bool made = backend_.allocate(fresh.number, bytes);
        spent_ += std::chrono::steady_clock::now() - start;
        if (!made) {
            return false;
        }
        free_numbers_.pop_back();
        objects_.push_back(fresh);
        live_ += bytes;
        for (std::uint64_t at = 0; at < bytes; at += page) {
            const std::uint64_t mark = mark_of(fresh, at);
            std::memcpy(backend_.block(fresh.number) + at, &mark, sizeof mark);
        }
        return true;
    }
    void free_last() {
        release(objects_.back());
        objects_.pop_back();
    }
    /// Frees every other one until so many bytes are freed; from the front again where one pass is not enough.
    std::uint64_t free_every_other(std::uint64_t bytes) {
        const std::uint64_t before = live_;
        while (before - live_ < bytes && !objects_.empty()) {
            std::vector<object> kept;
            bool odd = false;
            for (const object& one : objects_) {
                if (odd && before - live_ < bytes) {
                    release(one);
                } else {
                    kept.push_back(one);
                }
                odd = !odd;
            }
            if (kept.size() == objects_.size()) {
                break;  // a single object
            }
            objects_ = std::move(kept);
        }
        return before - live_;
    }
    void examine() {
        for (const object& one : objects_) {
            const std::byte* const block = backend_.block(one.number);
            for (std::uint64_t at = 0; at < one.bytes; at += page) {
                std::uint64_t mark = 0;
                std::memcpy(&mark, block + at, sizeof mark);
                if (mark != mark_of(one, at)) {
                    throw std::logic_error(
                        fmt::format("object {} of {} bytes: byte {} was overwritten", one.number, one.bytes, at));
                }
            }
        }
    }
    [[nodiscard]] std::uint64_t live() const noexcept { return live_; }
    [[nodiscard]] std::size_t count() const noexcept { return objects_.size(); }
    /// Since the last call.
    [[nodiscard]] double take_milliseconds() {
        const double result = std::chrono::duration<double, std::milli>(spent_).count();
        spent_ = {};
        return result;
    }

private:
    static std::uint64_t mark_of(const object& of, std::uint64_t at) noexcept {
        return mix(of.number * 0x10001 + 1) ^ mix(of.bytes + at);
    }
    void release(const object& one) {
        const auto start = std::chrono::steady_clock::now();
        backend_.release(one.number);
        spent_ += std::chrono::steady_clock::now() - start;
        free_numbers_.push_back(one.number);
        live_ -= one.bytes;
    }

    space_backend& backend_;
    std::vector<object> objects_;
    std::vector<std::size_t> free_numbers_;
    std::uint64_t live_ = 0;
    std::chrono::steady_clock::duration spent_{};
};

class stress {
public:
    stress(space_backend& backend, const stress_plan& plan, const std::function<std::uint64_t()>& charged)
        : backend_(backend), plan_(plan), charged_(charged), all_(backend, stress_objects(plan)) {}

    std::vector<stress_step> run() {
        std::vector<stress_step> steps;
        for (std::uint64_t bytes = plan_.first_object_bytes;; bytes *= 2) {
            stress_step step;
            step.object_bytes = bytes;
            if (bytes != plan_.first_object_bytes) {
                if (bytes > all_.live() / 2) {
                    return steps;
                }
                step.freed_bytes = all_.free_every_other(all_.live() / 2);
                settle(step);
            }
            fill(step);
            settle(step);
            go_to_the_limit(step);
            settle(step);
            all_.examine();
            backend_.check();
            steps.push_back(step);
        }
    }

private:
    void settle(stress_step& step) { step.refused_commits += backend_.settle() ? 0U : 1U; }
    void fill(stress_step& step) {
        while (step.filled_again && all_.live() + step.object_bytes <= plan_.fill_bytes) {
            step.filled_again = all_.make(step.object_bytes);
            step.allocated += step.filled_again ? 1U : 0U;
        }
        step.milliseconds = all_.take_milliseconds();
        step.live_bytes = all_.live();
    }
    void go_to_the_limit(stress_step& step) {
        const std::size_t before = all_.count();
        while (all_.live() + step.object_bytes <= plan_.capacity && all_.make(step.object_bytes)) {
        }
        step.reached_bytes = all_.live();
        step.reached_objects = all_.count() - before;
        step.charged_bytes = charged_();
        while (all_.count() > before) {
            all_.free_last();
        }
        // It was full, and goes on.
        if (step.reached_objects != 0) {
            if (!all_.make(step.object_bytes)) {
                throw std::logic_error("an object that was freed after the heap was full cannot be allocated again");
            }
            all_.free_last();
        }
        static_cast<void>(all_.take_milliseconds());
    }

    space_backend& backend_;
    const stress_plan& plan_;
    const std::function<std::uint64_t()>& charged_;
    population all_;
};

}  // namespace

std::size_t stress_objects(const stress_plan& plan) noexcept {
    return static_cast<std::size_t>(plan.capacity / plan.first_object_bytes) + 1;
}

std::vector<stress_step> run_stress(space_backend& backend, const stress_plan& plan,
                                    const std::function<std::uint64_t()>& charged) {
    return stress(backend, plan, charged).run();
}

}  // namespace bench
