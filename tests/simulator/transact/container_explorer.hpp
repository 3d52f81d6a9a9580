// Random programs of transactions over containers by the public interface, with the power cut at every operation, and
// an abort at every allocation.
//
// Oracle: an image recovers to what a transaction left that is not older than the last that is durable, with exactly
// its blocks: none lost, none leaked. Images are recovered in memory, and the first of all that recover to the same
// bytes is opened as a program does: its containers are compared with those of the standard library, all invariants
// and page checksums are checked, and one in four goes on with another transaction.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "heap/heap.hpp"
#include "segment/test_support.hpp"
#include "simulator/crash_explorer.hpp"
#include "simulator/storage/recording_storage.hpp"
#include "simulator/transact/container_world.hpp"

namespace holdfast::simulator {

struct container_counts {
    std::uint64_t images = 0;  ///< different ones; each is recovered
    std::uint64_t opened = 0;  ///< of these
    std::uint64_t aborts = 0;
    std::uint64_t transactions = 0;
};

class container_explorer {
public:
    /// `atom_size`: as simulated_storage.
    container_explorer(std::uint64_t seed, std::uint64_t atom_size, const choice_limits& cuts);
    container_explorer(const container_explorer&) = delete;
    container_explorer& operator=(const container_explorer&) = delete;
    ~container_explorer();

    /// Ends where something is wrong.
    void run(unsigned transactions);
    [[nodiscard]] const std::string& wrong() const noexcept { return wrong_; }
    [[nodiscard]] const container_counts& counts() const noexcept { return counts_; }

private:
    /// After a transaction.
    struct version {
        container_model content;
        std::uint64_t blocks = 0;
        std::uint64_t bytes = 0;
        [[nodiscard]] bool operator==(const version&) const = default;
    };
    struct recovered {
        std::uint64_t contents = 0;  ///< a hash
        std::string wrong;
    };

    [[nodiscard]] std::unique_ptr<manager> manage(heap::engine* opened) const;
    void open(bool creates);
    void reopen();
    void run_one();
    void store(const container_program& program) const;
    void run_body(const container_program& program) const;
    void abort_everywhere(const container_program& program);
    void abort(const container_program& program, std::uint64_t allocation);
    void expect_live(const char* when);
    [[nodiscard]] version live() const;
    void add(version next);
    void returned();
    void cut();
    void visit(const storage_image& left);
    [[nodiscard]] recovered recover(const storage_image& left) const;
    [[nodiscard]] std::string look(const storage_image& left, std::uint64_t& number);
    [[nodiscard]] std::string judge(const std::string& path, std::uint64_t& number);
    [[nodiscard]] std::string go_on(manager& heap) const;
    void note(const std::string& wrong);

    segment::test_directory scratch_;
    recording_storage storage_;
    heap::engine_options options_;
    std::uint64_t atom_size_;
    choice_limits cuts_;
    std::mt19937_64 random_;
    std::unique_ptr<manager> heap_;
    std::deque<version> versions_;                            ///< from the last that is durable
    std::uint64_t first_ = 0;                                 ///< number of the first of them
    std::unordered_map<std::uint64_t, std::uint64_t> known_;  ///< numbers of versions by what recovery left
    hash_set seen_;
    hash_set images_;
    container_counts counts_;
    std::string wrong_;
    std::uint64_t moments_ = 0;
};

}  // namespace holdfast::simulator
