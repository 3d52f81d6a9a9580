#include "kill/victim.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <ctime>
#include <optional>
#include <random>
#include <stdexcept>

#include "kill/reports.hpp"
#include "kill/world.hpp"

namespace holdfast::test {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::array<const char*, act_count> act_names{"open", "commit", "close",  "snapshot",
                                                       "copy", "create", "remove", "change"};

/// XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN, which are one; 2: without writing the log.
constexpr unsigned long shut_down_request = _IOR('X', 125, std::uint32_t);
constexpr std::uint32_t shut_down_without_log = 2;

std::uint64_t nanoseconds_since(clock::time_point start) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - start).count());
}

/// Ends the process, or the file system under it, once.
class executioner {
public:
    executioner(victim_plan::ending how, const std::string& directory, const report_writer& reports)
        : how_(how), reports_(reports) {
        if (shuts_down()) {
            file_system_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (file_system_ < 0) {
                throw std::runtime_error("cannot open " + directory);
            }
        }
        sigevent event{};
        event.sigev_notify = shuts_down() ? SIGEV_THREAD : SIGEV_SIGNAL;
        if (shuts_down()) {
            event.sigev_value.sival_ptr = this;
            event.sigev_notify_function = [](sigval self) { static_cast<executioner*>(self.sival_ptr)->shut_down(); };
        } else {
            event.sigev_signo = SIGKILL;
        }
        if (::timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) {
            throw std::runtime_error("cannot make a timer");
        }
    }
    executioner(const executioner&) = delete;
    executioner& operator=(const executioner&) = delete;
    ~executioner() {
        ::timer_delete(timer_);
        if (file_system_ >= 0) {
            ::close(file_system_);
        }
    }

    void arm(std::uint64_t delay_ns) const {
        constexpr std::uint64_t second = 1'000'000'000;
        itimerspec when{};
        when.it_value.tv_sec = static_cast<time_t>(delay_ns / second);
        when.it_value.tv_nsec = static_cast<long>(delay_ns % second) + 1;
        ::timer_settime(timer_, 0, &when, nullptr);
    }

private:
    [[nodiscard]] bool shuts_down() const noexcept {
        return how_ == victim_plan::ending::lights_out || how_ == victim_plan::ending::dusk;
    }
    void shut_down() const noexcept {
        reports_.write({.what = event::lights_out});
        std::uint32_t mode = shut_down_without_log;
        if (::ioctl(file_system_, shut_down_request, &mode) != 0) {
            reports_.write({.what = event::problem}, "the file system cannot be shut down");
        }
        if (how_ == victim_plan::ending::lights_out) {
            ::kill(::getpid(), SIGKILL);
        }
    }

    victim_plan::ending how_;
    const report_writer& reports_;
    timer_t timer_{};
    int file_system_ = -1;
};

class victim {
public:
    victim(const victim_plan& plan, int fd)
        : plan_(plan), reports_(fd), source_(plan.seed), executioner_(plan.ends, directory_of(plan.heap), reports_) {
        limits_.shard_bytes = plan.shard_bytes;
        limits_.huge_blocks = plan.huge_blocks;
    }

    /// False where a check failed.
    bool run() {
        if (!open()) {
            return false;
        }
        while (true) {
            begin(act::change);
            change_world(*heap_, source_, limits_);
            if (!perform(next_act())) {
                return false;
            }
        }
    }

private:
    static std::string directory_of(const std::string& path) {
        const auto slash = path.rfind('/');
        return slash == std::string::npos ? "." : path.substr(0, slash);
    }

    /// The plan's act comes often, the others now and then.
    act next_act() {
        const std::uint64_t dice = source_() % 100;
        if (dice < 50) {
            return plan_.target == act::open || plan_.target == act::change ? act::commit : plan_.target;
        }
        return dice < 90   ? act::commit
               : dice < 94 ? act::close
               : dice < 96 ? act::snapshot
               : dice < 98 ? act::copy
               : dice < 99 ? act::create
                           : act::remove;
    }

    /// Every act passes here at its beginning: where the plan says so, this is the one that is cut off.
    void begin(act which) {
        started_ = clock::now();
        if (which == plan_.target && plan_.ends != victim_plan::ending::observer && passed_++ == plan_.after) {
            executioner_.arm(plan_.delay_ns);
        }
    }

    void tell(event what, std::uint64_t digest = 0) const {
        report record;
        record.what = what;
        record.digest = digest;
        record.duration_ns = nanoseconds_since(started_);
        record.sequence = heap_ && heap_->is_open() ? heap_->statistics().commit_sequence : 0;
        reports_.write(record);
    }

    bool tell_problems(const world_state& state) const {
        for (const std::string& problem : state.problems) {
            reports_.write({.what = event::problem}, problem);
        }
        return state.problems.empty();
    }

    open_options options() {
        open_options wanted;
        wanted.segment_size = plan_.segment_size;
        wanted.commit_on_close = false;
        if (source_() % 3 == 0) {
            wanted.decay = std::chrono::milliseconds(0);  // every commit gives back what is free
        }
        if (source_() % 2 == 0) {
            // Not where the kernel puts it: the heap must not care.
            constexpr std::uintptr_t low = 0x2000'0000'0000;
            constexpr std::uintptr_t granularity = 2U << 20U;
            wanted.base_address = reinterpret_cast<void*>(low + source_() % (std::uintptr_t{1} << 22U) * granularity);
        }
        return wanted;
    }

    bool open() {
        tell(event::opening);
        begin(act::open);
        heap_.emplace(open_or_create, plan_.heap, options());
        const std::uint64_t duration = nanoseconds_since(started_);
        const world_state state = examine_and_check(*heap_);
        if (!tell_problems(state)) {
            return false;
        }
        report record;
        record.what = event::opened;
        record.digest = state.digest;
        record.duration_ns = duration;
        record.sequence = heap_->statistics().commit_sequence;
        reports_.write(record);
        make_world(*heap_);
        return true;
    }

    bool perform(act which) {
        switch (which) {
            case act::close: return close() && open();
            case act::snapshot: make_second_heap(which); return true;
            case act::copy:
            case act::create:
            case act::remove: {
                if (!close()) {
                    return false;
                }
                make_second_heap(which);
                return open();
            }
            default: return commit();
        }
    }

    bool commit() {
        const world_state state = examine(*heap_);
        if (!tell_problems(state)) {
            return false;
        }
        tell(event::about_to_commit, state.digest);
        begin(act::commit);
        switch (source_() % 5) {
            case 0: heap_->shrink(); break;  // a commit, and all that is free goes
            case 1:
            case 2: {
                const ticket taken = heap_->commit_later();
                change_world(*heap_, source_, limits_);  // no part of it
                heap_->sync(taken);
                break;
            }
            default: heap_->commit();
        }
        tell(event::committed, state.digest);
        return true;
    }

    bool close() {
        const world_state state = examine_and_check(*heap_);
        if (!tell_problems(state)) {
            return false;
        }
        tell(event::closing, state.digest);
        begin(act::close);
        heap_->close(true);
        tell(event::closed, state.digest);
        digest_ = state.digest;
        return true;
    }

    void make_second_heap(act how) {
        if (how == act::snapshot) {
            digest_ = examine(*heap_).digest;
            tell(event::about_to_commit, digest_);
        }
        tell(event::making, how == act::create ? empty_digest : digest_);
        begin(how == act::remove ? act::copy : how);
        if (how == act::snapshot) {
            heap_->snapshot(plan_.second_heap);
        } else if (how == act::create) {
            manager made(create_only, plan_.second_heap, options());
        } else {
            manager::copy(plan_.heap, plan_.second_heap);
        }
        tell(event::made);
        if (how == act::snapshot) {
            tell(event::committed, digest_);
        }
        tell(event::removing);
        begin(act::remove);
        manager::remove(plan_.second_heap);
        tell(event::removed);
    }

    const victim_plan& plan_;
    report_writer reports_;
    random source_;
    executioner executioner_;
    world_limits limits_;
    std::optional<manager> heap_;
    clock::time_point started_ = clock::now();
    std::uint64_t passed_ = 0;
    std::uint64_t digest_ = 0;  ///< of the last commit
};

}  // namespace

const char* name_of(act which) noexcept { return act_names.at(static_cast<std::size_t>(which)); }

std::vector<std::string> victim_plan::arguments() const {
    return {heap,
            second_heap,
            std::to_string(seed),
            std::to_string(static_cast<unsigned>(target)),
            std::to_string(after),
            std::to_string(delay_ns),
            std::to_string(static_cast<unsigned>(ends)),
            std::to_string(segment_size),
            std::to_string(shard_bytes),
            std::to_string(huge_blocks ? 1 : 0)};
}

victim_plan victim_plan::parse(const std::vector<std::string>& arguments) {
    victim_plan plan;
    plan.heap = arguments.at(0);
    plan.second_heap = arguments.at(1);
    plan.seed = std::stoull(arguments.at(2));
    plan.target = static_cast<act>(std::stoul(arguments.at(3)));
    plan.after = std::stoull(arguments.at(4));
    plan.delay_ns = std::stoull(arguments.at(5));
    plan.ends = static_cast<ending>(std::stoul(arguments.at(6)));
    plan.segment_size = std::stoull(arguments.at(7));
    plan.shard_bytes = std::stoull(arguments.at(8));
    plan.huge_blocks = arguments.at(9) != "0";
    return plan;
}

int run_victim(const victim_plan& plan, int fd) {
    const report_writer reports(fd);
    try {
        return victim(plan, fd).run() ? 0 : 1;
    } catch (const std::exception& failure) {
        reports.write({.what = event::failed}, failure.what());
        return 2;
    }
}

}  // namespace holdfast::test
