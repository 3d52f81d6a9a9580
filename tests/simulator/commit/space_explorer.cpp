#include "simulator/commit/space_explorer.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "heap/registry.hpp"

namespace holdfast::simulator {

namespace {

using base::page_size;
using heap::engine;
using segment::must;

constexpr std::uint64_t step_of_content = 512;
constexpr std::uint64_t mebibyte = base::mebibyte;
constexpr std::uint64_t small_segment = segment::minimum_segment_size;
constexpr std::uint64_t large_segment = 2 * small_segment;
constexpr std::uint64_t never = extent::decay_curve::never;

std::uint64_t word_at(const engine& of, std::uint64_t offset) {
    std::uint64_t word = 0;
    std::memcpy(&word, of.files().view().base() + offset, sizeof word);
    return word;
}

}  // namespace

// --- blocks ---------------------------------------------------------------------------------------------------------

std::uint64_t known_blocks::word_of(const block& of, std::uint64_t at) noexcept {
    return of.seed == 0 ? 0 : mix(of.seed, at) | 1U;
}

void known_blocks::fill(engine& in, const block& filled) {
    std::byte* const begin = in.files().view().base() + filled.offset;
    for (std::uint64_t at = 0; at + 8 <= filled.bytes; at += step_of_content) {
        const std::uint64_t word = word_of(filled, at);
        std::memcpy(begin + at, &word, sizeof word);
    }
}

void known_blocks::put_untouched(engine& in, unsigned number, std::uint64_t bytes) {
    void* const memory = in.allocate(bytes, 16);
    if (memory == nullptr) {
        throw std::runtime_error(engine::last_failure().message());
    }
    blocks_[number] = {in.files().view().offset(memory).value, bytes, 0};
}

void known_blocks::put(engine& in, unsigned number, std::uint64_t bytes) {
    put_untouched(in, number, bytes);
    rewrite(in, number);
}

void known_blocks::rewrite(engine& in, unsigned number) {
    blocks_.at(number).seed = ++seeds_;
    fill(in, blocks_.at(number));
}

void known_blocks::drop(engine& in, unsigned number) {
    must(in.deallocate(in.files().view().base() + blocks_.at(number).offset));
    blocks_.erase(number);
}

std::string known_blocks::difference(engine& in, bool pages) const {
    if (const std::vector<std::string> problems = in.check(pages); !problems.empty()) {
        return problems.front();
    }
    std::vector<std::uint64_t> expected;
    for (const auto& [number, one] : blocks_) {
        expected.push_back(one.offset);
        if (one.offset + one.bytes > base::to_bytes(in.files().frontier())) {
            return fmt::format("block {} lies beyond the end", number);
        }
        for (std::uint64_t at = 0; at + 8 <= one.bytes; at += step_of_content) {
            if (word_at(in, one.offset + at) != word_of(one, at)) {
                return fmt::format("block {} has other content at {:#x}", number, at);
            }
        }
    }
    std::vector<std::uint64_t> found;
    in.blocks().inspect().for_each_block(
        [&](base::heap_offset offset, std::uint64_t, std::uint32_t) { found.push_back(offset.value); });
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    return found == expected ? std::string{} : fmt::format("{} blocks, expected {}", found.size(), expected.size());
}

// --- the explorer ----------------------------------------------------------------------------------------------------

space_explorer::space_explorer(std::uint64_t segment_size, std::uint64_t decay_ns, const choice_limits& cuts)
    : storage_((std::filesystem::create_directory(scratch_.path("live")), scratch_.path("live")), 512), cuts_(cuts) {
    options_.files.segment_size = segment_size;
    options_.files.mapping.reservation = base::gibibyte;
    options_.decay_ns = decay_ns;
    options_.storage = &storage_;
    engine_ = must(heap::engine::create(scratch_.path("live/heap"), options_));
    states_.push_back(now_);
}

void space_explorer::begin() {
    storage_.set_observer([this] { cut(); });
}

void space_explorer::changes_by(const std::function<void()>& change) {
    states_.push_back(now_);
    change();
    states_ = {now_};
    cut();
    compare_live();
}

void space_explorer::compare_live() {
    if (std::string here = now_.difference(*engine_, false); !here.empty() && wrong_.empty()) {
        wrong_ = "in the process that goes on: " + here;
    }
}

void space_explorer::commit() {
    changes_by([this] { must(engine_->commit()); });
}

void space_explorer::transact(const std::function<void()>& body) {
    must(engine_->undo().begin());
    body();
    changes_by([this] { must(engine_->undo().commit()); });
}

void space_explorer::part(const std::function<void()>& body) {
    must(engine_->undo().begin());
    body();
    engine_->undo().keep();
    compare_live();
}

void space_explorer::give_up(const std::function<void()>& body) {
    const known_blocks before = now_;
    must(engine_->undo().begin());
    body();
    engine_->undo().roll_back();
    now_ = before;
    cut();
    compare_live();
}

void space_explorer::shrink() {
    changes_by([this] { must(engine_->shrink(0, [](const heap::shrink_report&) {})); });
}

void space_explorer::reopen() {
    changes_by([this] {
        must(engine_->close(true));
        cut();
        engine_.reset();
        engine_ = must(heap::engine::open(scratch_.path("live/heap"), persist::access_mode::read_write, options_));
    });
}

void space_explorer::reopen_as_copy() {
    storage_.become_a_copy();
    const std::uint64_t identity = must(storage_.file_identity(scratch_.path("live/heap/superblock")));
    if (engine_->files().superblock().file_identity == identity && wrong_.empty()) {
        wrong_ = "the files are not said to be a copy";
    }
    reopen();
    if (engine_->files().superblock().file_identity != identity && wrong_.empty()) {
        wrong_ = "the copy has not reserved its space";
    }
}

void space_explorer::cut() {
    if (!wrong_.empty()) {
        return;
    }
    const std::uint64_t state = mix(states_.size(), states_.front().all().size());
    storage_.for_each_crash_image(cuts_, ++moments_, [&](const storage_image& left) {
        if (seen_.insert(mix(left.hash(), state))) {
            wrong_ = look(left);
        }
        return wrong_.empty();
    });
}

std::string space_explorer::look(const storage_image& left) {
    ++images_;
    const std::string target = scratch_.path("image");
    std::filesystem::create_directory(target);
    must(storage_.materialise(left, target));
    std::string wrong;
    const bool is_open = engine_ != nullptr;  // false while it opens; a copy writes then
    if (is_open) {
        heap::unregister_engine(*engine_);  // a process cannot have two heaps with one key
    }
    try {
        wrong = judge(target + "/heap");
    } catch (const std::exception& thrown) {
        wrong = thrown.what();
    }
    if (is_open) {
        must(heap::register_engine(*engine_));
    }
    std::filesystem::remove_all(target);
    return wrong.empty() ? wrong : wrong + "\n  cut at " + storage_.position();
}

std::string space_explorer::judge(const std::string& heap) const {
    heap::engine_options options = options_;
    options.storage = &persist::posix_storage();
    const auto opened = must(heap::engine::open(heap, persist::access_mode::read_write, options));
    std::string wrong;
    for (const known_blocks& one : states_) {
        wrong = one.difference(*opened, true);
        if (wrong.empty()) {
            return images_ % 4 == 0 ? go_on(*opened) : std::string{};
        }
    }
    return wrong;
}

/// The recovered heap grows, commits and closes.
std::string space_explorer::go_on(heap::engine& in) {
    const std::uint64_t end = base::to_bytes(in.files().frontier());
    const std::uint64_t bytes = in.files().view().shape().segment_size + end;  // larger than any free extent
    const void* const block = in.allocate(bytes, 16);
    if (block == nullptr) {
        return heap::engine::last_failure().message();
    }
    const std::uint64_t begin = in.files().view().offset(block).value;
    const auto written = [&] {
        for (std::uint64_t offset = std::max(begin, end); offset < begin + bytes; offset += page_size) {
            if (word_at(in, offset) != 0) {
                return fmt::format("new space, never written, holds something at {:#x}", offset);
            }
        }
        return std::string{};
    };
    std::string wrong = written();
    must(in.commit());
    wrong = wrong.empty() ? written() : wrong;
    const std::vector<std::string> problems = in.check(true);
    must(in.close(true));
    return wrong.empty() && !problems.empty() ? "afterwards: " + problems.front() : wrong;
}

// --- scenarios ------------------------------------------------------------------------------------------------------

namespace {

void free_two_of_six(space_explorer& in) {
    for (unsigned i = 0; i < 6; ++i) {
        in.put(i, 40'000);
    }
    in.commit();
    in.begin();
    in.drop(1);
    in.drop(3);
}

/// Pages that look blank and are not.
std::vector<space_scenario> scenarios_of_known_pages() {
    return {
        {"freed pages keep their sums, and are used again", small_segment, never,
         [](space_explorer& in) {
             free_two_of_six(in);
             in.commit();
             in.put(1, 40'000);
             in.rewrite(0);
             in.commit();
         }},
        {"blocks that were never written are, at last", small_segment, never,
         [](space_explorer& in) {
             in.put(0, 100'000);
             in.commit();
             in.reopen();
             in.put_untouched(1, 100'000);  // in space that was free at the last commit
             in.commit();
             in.begin();
             in.rewrite(1);
             in.rewrite(0);
             in.commit();
         }},
    };
}

std::vector<space_scenario> scenarios_of_one_kind() {
    return {
        {"freed pages become holes, and are used again", small_segment, 0,
         [](space_explorer& in) {
             free_two_of_six(in);
             in.rewrite(0);
             in.commit();
             in.put(1, 40'000);
             in.put(7, 20'000);
             in.commit();
             in.drop(1);
             in.commit();
             in.reopen();
             in.put(1, 30'000);
             in.commit();
         }},
        {"segments at the end go, and come again", small_segment, never,
         [](space_explorer& in) {
             in.put(0, 100'000);
             in.put(1, 3 * mebibyte);
             in.put(2, 20'000);
             in.commit();
             in.begin();
             in.drop(1);
             in.drop(2);
             in.shrink();
             in.put(3, 3 * mebibyte);
             in.commit();
         }},
        {"the heap ends within a segment, and grows there again", large_segment, never,
         [](space_explorer& in) {
             in.put(0, 100'000);
             in.put(1, 3 * mebibyte);
             in.commit();
             in.begin();
             in.drop(1);
             in.shrink();
             in.put(2, 2 * mebibyte);
             in.commit();
             in.drop(2);
             in.shrink();
             in.reopen();
             in.put(3, 40'000);
             in.commit();
         }},
    };
}

std::vector<space_scenario> scenarios_of_several_kinds() {
    return {
        {"space that no commit has seen goes with what one has", small_segment, never,
         [](space_explorer& in) {
             in.put(0, 100'000);
             in.put(1, 2 * mebibyte);
             in.commit();
             in.begin();
             in.put(2, 2 * mebibyte);
             in.drop(2);
             in.drop(1);
             in.shrink();
             in.rewrite(0);
             in.commit();
         }},
        {"two commits that shrink, without another between", large_segment, 0,
         [](space_explorer& in) {
             in.put(0, 30'000);
             in.put(1, 5 * mebibyte);
             in.put(2, 30'000);
             in.put(3, 2 * mebibyte);
             in.commit();
             in.begin();
             in.drop(3);
             in.shrink();
             in.drop(2);
             in.drop(1);
             in.shrink();
             in.reopen();
         }},
    };
}

/// The first writer of a copy reserves the space that it lacks.
std::vector<space_scenario> scenarios_of_copies() {
    return {
        {"a copy is opened, goes on, and is copied", small_segment, 0,
         [](space_explorer& in) {
             free_two_of_six(in);
             in.commit();
             in.reopen_as_copy();
             in.rewrite(0);
             in.put(1, 40'000);
             in.commit();
             in.drop(2);
             in.reopen_as_copy();
             in.reopen();
         }},
        {"a copy of several segments is opened, and becomes shorter", small_segment, never,
         [](space_explorer& in) {
             in.put(0, 100'000);
             in.put(1, 3 * mebibyte);
             in.put_untouched(2, 20'000);
             in.commit();
             in.begin();
             in.reopen_as_copy();
             in.drop(1);
             in.shrink();
             in.reopen_as_copy();
             in.put(3, 3 * mebibyte);
             in.commit();
         }},
    };
}

}  // namespace

void leave_three_of_a_slab(space_explorer& in) {
    constexpr unsigned blocks_of_slab = 64;
    for (unsigned i = 0; i < blocks_of_slab; ++i) {
        in.put(i, 1'000);
    }
    in.commit();
    in.begin();
    for (unsigned i = 0; i < blocks_of_slab; ++i) {
        if (i != 2 && i != 30 && i != 61) {
            in.drop(i);
        }
    }
    in.shrink();
}

namespace {

std::vector<space_scenario> scenarios_of_sparse_slabs() {
    return {
        {"a sparse slab has holes, and is allocated from again", small_segment, never,
         [](space_explorer& in) {
             leave_three_of_a_slab(in);
             in.rewrite(2);
             in.commit();
             for (unsigned i = 100; i < 120; ++i) {
                 in.put(i, 1'000);
             }
             in.commit();
             in.drop(105);
             in.drop(30);
             in.shrink();
             in.reopen();
             in.put(121, 1'000);
             in.commit();
         }},
        {"a sparse slab has holes, and is morphed", small_segment, never,
         [](space_explorer& in) {
             leave_three_of_a_slab(in);
             for (unsigned i = 100; i < 110; ++i) {
                 in.put(i, 2'000);
             }
             in.commit();
             for (unsigned i = 100; i < 109; ++i) {
                 in.drop(i);
             }
             in.shrink();
             in.drop(61);
             in.reopen();
         }},
        {"a sparse slab has holes, and becomes a block of pages", small_segment, never,
         [](space_explorer& in) {
             leave_three_of_a_slab(in);
             in.drop(2);
             in.drop(30);
             in.commit();
             in.drop(61);
             in.commit();
             in.put(200, 60'000);
             in.commit();
         }},
    };
}

}  // namespace

const std::vector<space_scenario>& space_scenarios() {
    static const std::vector<space_scenario> all = [] {
        std::vector<space_scenario> together = scenarios_of_one_kind();
        for (const auto& more : {scenarios_of_known_pages(), scenarios_of_several_kinds(), scenarios_of_copies(),
                                 scenarios_of_sparse_slabs(), transaction_scenarios()}) {
            together.insert(together.end(), more.begin(), more.end());
        }
        return together;
    }();
    return all;
}

}  // namespace holdfast::simulator
