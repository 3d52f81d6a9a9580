// The whole engine of durability `commit` on real files, with the power cut at every operation while space goes back to
// the file system (holes from free extents and slabs, a lower frontier, removed segments) and is used again, and while
// a copy of the heap reserves the space it lacks.
//
// Oracle: each image opens and shows the last commit that returned or the one in flight, with exactly its blocks and
// their content; all invariants and page checksums hold. The heap then grows, with new space that reads as zero, and
// closes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "heap/heap.hpp"
#include "segment/test_support.hpp"
#include "simulator/crash_explorer.hpp"
#include "simulator/storage/recording_storage.hpp"

namespace holdfast::simulator {

/// A program's blocks by number, with their content.
class known_blocks {
public:
    struct block {
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
        std::uint64_t seed = 0;  ///< 0: never written, reads as zero
    };
    void put(heap::engine& engine, unsigned number, std::uint64_t bytes);
    /// In space that was never written.
    void put_untouched(heap::engine& engine, unsigned number, std::uint64_t bytes);
    void rewrite(heap::engine& engine, unsigned number);
    void drop(heap::engine& engine, unsigned number);
    [[nodiscard]] const std::map<unsigned, block>& all() const noexcept { return blocks_; }
    /// What is wrong with the heap, or nothing: blocks, content, invariants.
    [[nodiscard]] std::string difference(heap::engine& engine, bool pages) const;

private:
    static void fill(heap::engine& engine, const block& filled);
    static std::uint64_t word_of(const block& of, std::uint64_t at) noexcept;
    std::map<unsigned, block> blocks_;
    std::uint64_t seeds_ = 0;
};

class space_explorer {
public:
    space_explorer(std::uint64_t segment_size, std::uint64_t decay_ns, const choice_limits& cuts);
    space_explorer(const space_explorer&) = delete;
    space_explorer& operator=(const space_explorer&) = delete;
    ~space_explorer() = default;

    void put(unsigned number, std::uint64_t bytes) { now_.put(*engine_, number, bytes); }
    void put_untouched(unsigned number, std::uint64_t bytes) { now_.put_untouched(*engine_, number, bytes); }
    void rewrite(unsigned number) { now_.rewrite(*engine_, number); }
    void drop(unsigned number) { now_.drop(*engine_, number); }
    void commit();
    /// What the body does is one transaction.
    void transact(const std::function<void()>& body);
    /// What the body does is taken back. It may stand within another.
    void give_up(const std::function<void()>& body);
    /// What the body does is a part of a transaction.
    void part(const std::function<void()>& body);
    void shrink();
    /// Closes, and opens as another process.
    void reopen();
    /// Closes, and opens files that seem copied: the space must be reserved again.
    void reopen_as_copy();
    void begin();

    [[nodiscard]] heap::engine& engine() noexcept { return *engine_; }
    [[nodiscard]] const std::string& wrong() const noexcept { return wrong_; }
    [[nodiscard]] std::uint64_t images() const noexcept { return images_; }

private:
    void changes_by(const std::function<void()>& change);
    void compare_live();
    void cut();
    [[nodiscard]] std::string look(const storage_image& left);
    [[nodiscard]] std::string judge(const std::string& heap) const;
    static std::string go_on(heap::engine& engine);

    segment::test_directory scratch_;
    recording_storage storage_;
    heap::engine_options options_;
    choice_limits cuts_;
    std::unique_ptr<heap::engine> engine_;
    known_blocks now_;
    std::vector<known_blocks> states_;  ///< what an image may hold: the last commit, or the one in flight
    hash_set seen_;
    std::string wrong_;
    std::uint64_t moments_ = 0;
    std::uint64_t images_ = 0;
};

struct space_scenario {
    std::string name;
    std::uint64_t segment_size;
    std::uint64_t decay_ns;
    std::function<void(space_explorer&)> run;
};
[[nodiscard]] const std::vector<space_scenario>& space_scenarios();
/// Of these.
[[nodiscard]] std::vector<space_scenario> transaction_scenarios();
/// In a sparse slab. None of them is the first block in its page.
void leave_three_of_a_slab(space_explorer& in);

}  // namespace holdfast::simulator
