// Runs a scenario, cuts the power at every operation, recovers every image and checks it. Recoveries are cut as well,
// as deep as asked.
//
// A device is a simulated_storage. State n of a scenario is what its n-th change leaves. The scenario reports when a
// change begins and when it has returned: an image may hold no state older than the last that returned, and none newer
// than the last that began. Equal images that allow the same states are checked once.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/choices.hpp"
#include "simulator/storage/sparse_content.hpp"

namespace holdfast::simulator {

struct expectation {
    std::uint64_t oldest = 0;
    std::uint64_t newest = 0;
    [[nodiscard]] bool allows(std::uint64_t state) const noexcept { return oldest <= state && state <= newest; }
};

struct explore_options {
    /// For the scenario, for recoveries from its crashes, and for recoveries from their crashes.
    std::array<choice_limits, 3> cuts{choice_limits{}, choice_limits{64, 16, 16, 16}, choice_limits{16, 4, 4, 4}};
    unsigned recovery_depth = 2;  ///< recoveries in a row that are cut; at most 2
    std::uint64_t seed = 1;
    std::size_t violations_wanted = 1;                ///< stop after this many
    std::uint64_t images_wanted = ~std::uint64_t{0};  ///< stop after this many
    /// The most new images below one crash of the scenario. The rest appears below other crashes, whose recoveries are
    /// similar: images that were seen before do not count.
    std::uint64_t images_below_one = ~std::uint64_t{0};
};

/// Open addressing, 8 bytes a hash.
class hash_set {
public:
    /// False if it was present.
    bool insert(std::uint64_t hash) {
        if (2 * (used_ + 1) > slots_.size()) {
            grow();
        }
        return put(hash | 1U);
    }
    [[nodiscard]] bool contains(std::uint64_t hash) const {
        if (slots_.empty()) {
            return false;
        }
        hash |= 1U;
        for (std::size_t at = mix(hash) & (slots_.size() - 1); slots_[at] != 0; at = (at + 1) & (slots_.size() - 1)) {
            if (slots_[at] == hash) {
                return true;
            }
        }
        return false;
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return used_; }
    hash_set& operator+=(const hash_set& other) {
        for (const std::uint64_t hash : other.slots_) {
            if (hash != 0) {
                insert(hash);
            }
        }
        return *this;
    }

private:
    bool put(std::uint64_t hash) {
        std::size_t at = mix(hash) & (slots_.size() - 1);
        for (; slots_[at] != 0; at = (at + 1) & (slots_.size() - 1)) {
            if (slots_[at] == hash) {
                return false;
            }
        }
        slots_[at] = hash;
        ++used_;
        return true;
    }
    void grow() {
        std::vector<std::uint64_t> old(slots_.empty() ? 1024 : 2 * slots_.size());
        old.swap(slots_);
        used_ = 0;
        for (const std::uint64_t hash : old) {
            if (hash != 0) {
                put(hash);
            }
        }
    }

    std::vector<std::uint64_t> slots_;
    std::size_t used_ = 0;
};

struct explore_report {
    hash_set contents;             ///< hashes of the images that were recovered and checked
    std::uint64_t trials = 0;      ///< recoveries checked; an image counts again if it allows other states
    std::uint64_t duplicates = 0;  ///< equal to one checked before, with the same states allowed
    std::uint64_t cuts = 0;
    std::vector<std::string> violations;

    /// Distinct ones, over all reports added up.
    [[nodiscard]] std::uint64_t images() const noexcept { return contents.size(); }

    explore_report& operator+=(const explore_report& other) {
        contents += other.contents;
        trials += other.trials;
        duplicates += other.duplicates;
        cuts += other.cuts;
        violations.insert(violations.end(), other.violations.begin(), other.violations.end());
        return *this;
    }
};

template <class Device>
class crash_explorer {
public:
    using image = typename Device::image;

    class timeline {
    public:
        /// The device comes with changes that may be lost: cuts begin here, and show these states.
        void starts(expectation expected) {
            explorer_.expected_ = expected;
            device_.set_observer([this] { explorer_.cut(device_, explorer_.expected_, 0); });
            explorer_.cut(device_, expected, 0);
        }
        void begins(std::uint64_t state) {
            explorer_.expected_.newest = state;
            explorer_.cut(device_, explorer_.expected_, 0);
        }
        /// The change has returned: nothing older may be found from now on.
        void returned(std::uint64_t state) {
            explorer_.expected_ = {state, state};
            explorer_.cut(device_, explorer_.expected_, 0);
        }

    private:
        friend class crash_explorer;
        timeline(crash_explorer& explorer, Device& device) : explorer_(explorer), device_(device) {}
        crash_explorer& explorer_;
        Device& device_;
    };

    class trial {
    public:
        [[nodiscard]] Device& device() noexcept { return device_; }
        [[nodiscard]] const expectation& expected() const noexcept { return expected_; }
        /// Recovery has returned and shows this state. A crash right after it must show the same state.
        void recovered(std::uint64_t state) {
            device_.set_observer({});
            now_ = {state, state};
            cut();
        }
        /// Goes on as a scenario does. True: with cuts; false: recoveries of this depth are not cut.
        bool go_on() {
            if (depth_ == explorer_.options_.recovery_depth) {
                device_.run_in_peace();
                return false;
            }
            device_.set_observer([this] { cut(); });
            return true;
        }
        void begins(std::uint64_t state) {
            now_.newest = state;
            cut();
        }
        void returned(std::uint64_t state) {
            now_ = {state, state};
            cut();
        }
        void run_in_peace() {
            device_.set_observer({});
            device_.run_in_peace();
            in_peace_ = true;
        }

    private:
        friend class crash_explorer;
        trial(crash_explorer& explorer, Device& device, expectation expected, unsigned depth)
            : explorer_(explorer), device_(device), expected_(expected), now_(expected), depth_(depth) {}
        void cut() {
            if (depth_ < explorer_.options_.recovery_depth && !in_peace_) {
                explorer_.cut(device_, now_, depth_ + 1);
            }
        }
        crash_explorer& explorer_;
        Device& device_;
        expectation expected_;
        expectation now_;  ///< what a crash may leave now
        unsigned depth_;
        bool in_peace_ = false;
    };

    /// Runs on a device. Returns what went wrong, or nothing.
    using scenario = std::function<std::string(Device&, timeline&)>;
    /// Recovers, calls trial::recovered(), checks the result and goes on with it. Returns what is wrong, or nothing.
    using checker = std::function<std::string(trial&)>;

    explicit crash_explorer(explore_options options) : options_(options), visited_(options.recovery_depth + 1) {}

    /// Starts in state 0: what `device` holds durably.
    explore_report run(Device& device, const scenario& program, const checker& check) {
        report_ = {};
        check_ = &check;
        expected_ = {};
        stopped_ = false;
        timeline marks{*this, device};
        device.set_observer([&] { cut(device, expected_, 0); });
        if (std::string wrong = program(device, marks); !wrong.empty()) {
            report_.violations.push_back("the scenario itself: " + wrong);
        }
        cut(device, expected_, 0);
        device.set_observer({});
        return report_;
    }

private:
    void cut(Device& device, expectation expected, unsigned depth) {
        if (stopped_ || (depth > 0 && images_below_ >= options_.images_below_one)) {
            return;
        }
        ++report_.cuts;
        const auto& limits = options_.cuts.at(depth);
        path_.push_back(&device);
        device.for_each_crash_image(limits, mix(options_.seed, report_.cuts), [&](const image& left) {
            visit(device, left, expected, depth);
            return !stopped_ && (depth == 0 || images_below_ < options_.images_below_one);
        });
        path_.pop_back();
    }

    void visit(Device& before, const image& left, expectation expected, unsigned depth) {
        const std::uint64_t content = left.hash();
        const std::uint64_t key = mix(mix(content, expected.oldest), expected.newest);
        const unsigned deeper = options_.recovery_depth - depth;
        for (unsigned level = deeper; level < visited_.size(); ++level) {
            if (level != deeper && visited_[level].contains(key)) {
                ++report_.duplicates;
                return;
            }
        }
        if (!visited_[deeper].insert(key)) {
            ++report_.duplicates;
            return;
        }
        ++report_.trials;
        report_.contents.insert(content);
        images_below_ = depth == 0 ? 0 : images_below_ + 1;
        auto device = before.restarted(left);
        trial one{*this, *device, expected, depth};
        if (deeper > 0) {
            device->set_observer([&] { one.cut(); });
        }
        std::string wrong = (*check_)(one);
        device->set_observer({});
        if (!wrong.empty()) {
            fail(std::move(wrong), expected);
        }
        stopped_ = stopped_ || report_.images() >= options_.images_wanted;
    }

    void fail(std::string wrong, expectation expected) {
        for (std::size_t i = path_.size(); i-- > 0;) {
            wrong += i == 0 ? "\n  in the scenario, cut at " : "\n  in a recovery, cut at ";
            wrong += path_[i]->position();
        }
        wrong += "\n  states allowed: " + std::to_string(expected.oldest) + " to " + std::to_string(expected.newest);
        report_.violations.push_back(std::move(wrong));
        stopped_ = report_.violations.size() >= options_.violations_wanted;
    }

    explore_options options_;
    std::vector<hash_set> visited_;  ///< by the number of recoveries in a row that would still be cut
    explore_report report_;
    const checker* check_ = nullptr;
    expectation expected_;
    std::vector<const Device*> path_;
    std::uint64_t images_below_ = 0;  ///< new images below the present crash of the scenario
    bool stopped_ = false;
};

}  // namespace holdfast::simulator
