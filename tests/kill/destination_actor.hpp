// Random calls on a heap of the kill tests with destinations; each is reported before it begins and after it returned.
#pragma once

#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <holdfast/manager.hpp>

#include "kill/destination_model.hpp"

namespace holdfast::test::destinations {

struct shared_sets {
    std::vector<holdings>& sets;
    std::array<std::mutex, set_count> locks;
};

class actor {
public:
    /// `shrinks`: sometimes calls shrink(), which commits in durability `commit`.
    actor(manager& heap, shared_sets& world, shared_region& region, std::uint64_t seed, bool shrinks = true);

    /// False if all logs are full. Throws if a call fails or has the wrong effect.
    bool step();
    void cancel_all();

private:
    std::uint64_t below(std::uint64_t limit) { return source_() % limit; }
    [[nodiscard]] std::byte* address(std::uint64_t offset) const noexcept { return base_ + offset; }
    [[nodiscard]] ptr<void>& word(std::uint64_t offset) const noexcept {
        return *reinterpret_cast<ptr<void>*>(base_ + offset);
    }
    [[nodiscard]] std::uint64_t offset_of(const void* block) const noexcept {
        return static_cast<std::uint64_t>(static_cast<const std::byte*>(block) - base_);
    }
    std::uint64_t random_size();
    std::uint32_t random_type();
    void act();
    bool choose_empty(std::size_t most, call_record& into);
    bool choose_taken(std::size_t most, bool leaves_only, call_record& into);

    call_record& report(const call_record& intended);
    void returned(const call_record& made);

    void allocate();
    void allocate_batch();
    void free();
    void free_batch();
    void reallocate();
    void publish();
    void make_node();
    void write();
    void move();
    void finish_move();
    void change_object();
    void reserve();
    void expect(bool right, const char* what) const;

    manager& heap_;
    std::byte* base_;
    shared_sets& world_;
    shared_region& region_;
    std::mt19937_64 source_;
    bool shrinks_;
    holdings* set_ = nullptr;  ///< its lock is held
    set_log* log_ = nullptr;
    struct reserved_block {
        void* memory;
        block is;
    };
    std::vector<reserved_block> reserved_;
};

struct worker_plan {
    std::string heap;
    std::uint64_t seed = 0;
    open_options options;
    std::uint64_t calls = 0;      ///< of each thread, before a clean close; 0: endless
    bool open_and_close = false;  ///< only opens and closes, endlessly
};

/// The process that is killed. Returns an exit status if it is not.
int run_worker(const worker_plan& plan, std::vector<holdings>& sets, shared_region& region);

}  // namespace holdfast::test::destinations
