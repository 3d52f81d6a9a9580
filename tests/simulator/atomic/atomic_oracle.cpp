#include "simulator/atomic/atomic_oracle.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "simulator/atomic/atomic_heap.hpp"
#include "simulator/storage/sparse_content.hpp"

namespace holdfast::simulator {

namespace {

// The format, written independently of src/.
constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t pages_of_granule = 16;
constexpr unsigned kind_used = 2;
constexpr unsigned kind_slab = 3;
constexpr std::uint64_t words_of_half = 64;
constexpr std::uint64_t distance_mask = (std::uint64_t{1} << 48U) - 1;
constexpr std::uint64_t distance_bias = std::uint64_t{1} << 47U;

std::uint64_t page_entry_at(std::uint64_t page) noexcept {
    return heap_metadata_at + heap_shape.page_entries_at() + page * 8;
}

std::string describe(const block_extent& block) {
    return fmt::format("{:#x}+{} of type {}", block.offset, block.bytes, block.type);
}

std::string describe(const std::vector<block_extent>& blocks) {
    std::string text;
    for (const block_extent& one : blocks) {
        text += (text.empty() ? "" : " ") + describe(one);
    }
    return text.empty() ? "none" : text;
}

/// The blocks with bits in one half of the bitmap; in the whole bitmap if a half is too small.
void add_blocks(const tracked_memory& memory, std::uint64_t granule, std::uint64_t block_size, bool upper,
                std::vector<block_extent>& found) {
    const std::uint64_t blocks = pages_of_granule * page_bytes / block_size;
    const std::uint64_t type = memory.at(heap_metadata_at + granule * 64 + 16);
    for (std::uint64_t word = 0; word < (blocks + 63) / 64; ++word) {
        const std::uint64_t place = word + (upper ? words_of_half : 0);
        std::uint64_t bits = memory.at(heap_metadata_at + heap_shape.bitmaps_at() + granule * 1024 + place * 8);
        for (; bits != 0; bits &= bits - 1) {
            const std::uint64_t index = word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
            found.push_back({granule * pages_of_granule * page_bytes + index * block_size, block_size, type});
        }
    }
}

}  // namespace

std::vector<block_extent> blocks_in(const tracked_memory& memory, std::uint64_t frontier_pages) {
    std::vector<block_extent> found;
    for (std::uint64_t page = 0; page < frontier_pages; ++page) {
        const std::uint64_t entry = memory.at(page_entry_at(page));
        const auto kind = static_cast<unsigned>(entry >> 40U & 0xf);
        if (kind == kind_used) {
            found.push_back({page * page_bytes, (entry & ((std::uint64_t{1} << 40U) - 1)) * page_bytes, entry >> 44U});
        }
        if (kind != kind_slab) {
            continue;
        }
        const std::uint64_t granule = page / pages_of_granule;
        const std::uint64_t block_size = memory.at(heap_metadata_at + granule * 64) & 0xffffffff;
        const std::uint64_t type = memory.at(heap_metadata_at + granule * 64 + 16);
        if (block_size == 0) {
            found.push_back({page * page_bytes, 0, type});  // equals no model
            continue;
        }
        const std::uint64_t flags = memory.at(heap_metadata_at + granule * 64 + 8);
        const std::uint64_t old_size = flags >> 16U & 0xffff;
        const bool upper = (flags & 1U) != 0;
        const std::size_t first = found.size();
        if (old_size == block_size) {  // about to be morphed
            add_blocks(memory, granule, block_size, !upper, found);
        } else {
            add_blocks(memory, granule, block_size, upper, found);
            if (old_size != 0) {
                add_blocks(memory, granule, old_size, !upper, found);
            }
        }
        std::sort(found.begin() + static_cast<std::ptrdiff_t>(first), found.end());
    }
    return found;
}

std::uint64_t target_in(const tracked_memory& memory, std::uint64_t destination) {
    const std::uint64_t distance = memory.at(destination) & distance_mask;
    return distance == 0 ? 0 : destination + distance - distance_bias;
}

// --- the model ------------------------------------------------------------------------------------------------------

bool heap_model::known_destination::allows(std::uint64_t target) const {
    return std::find(targets.begin(), targets.end(), target) != targets.end();
}

heap_model::known_destination* heap_model::find(std::uint64_t offset) {
    const auto found = std::find_if(destinations_.begin(), destinations_.end(),
                                    [offset](const known_destination& one) { return one.offset == offset; });
    return found == destinations_.end() ? nullptr : &*found;
}

const heap_model::known_destination* heap_model::find(std::uint64_t offset) const {
    return const_cast<heap_model*>(this)->find(offset);
}

void heap_model::add_destination(std::uint64_t offset, std::uint64_t target) {
    std::erase_if(data_, [offset](const data_word& one) { return one.offset == offset; });
    destinations_.push_back({offset, {target}});
}

bool heap_model::is_destination(std::uint64_t offset) const { return find(offset) != nullptr; }

std::uint64_t heap_model::target_of(std::uint64_t destination) const {
    const auto* const found = find(destination);
    return found == nullptr ? 0 : found->targets.back();
}

bool heap_model::has_block(std::uint64_t offset) const { return bytes_of(offset) != 0; }

std::uint64_t heap_model::bytes_of(std::uint64_t block) const {
    for (const block_extent& one : blocks_) {
        if (one.offset == block) {
            return one.bytes;
        }
    }
    return 0;
}

std::uint64_t heap_model::type_of(std::uint64_t block) const {
    const auto found =
        std::find_if(blocks_.begin(), blocks_.end(), [block](const block_extent& one) { return one.offset == block; });
    return found == blocks_.end() ? 0 : found->type;
}

std::vector<data_word> heap_model::content_of(std::uint64_t block) const {
    std::vector<data_word> content;
    for (const data_word& one : data_) {
        if (one.offset - block < bytes_of(block)) {
            content.push_back({one.offset - block, one.value});
        }
    }
    return content;
}

void heap_model::forget(std::uint64_t begin, std::uint64_t end) {
    const auto within = [begin, end](const auto& one) { return one.offset >= begin && one.offset < end; };
    std::erase_if(destinations_, within);
    std::erase_if(data_, within);
}

void heap_model::set_data(const data_word& word) {
    forget(word.offset, word.offset + 1);
    data_.push_back(word);
}

void heap_model::begin(unsigned thread, std::vector<pending_change> changes) {
    in_flight_.at(thread) = std::move(changes);
}

void heap_model::failed(unsigned thread) { in_flight_.at(thread).clear(); }

void heap_model::keep_first(unsigned thread, std::size_t count) { in_flight_.at(thread).resize(count); }

void heap_model::apply(const pending_change& change, std::uint64_t allocated) {
    if (change.freed != no_offset) {
        forget(change.freed, change.freed + bytes_of(change.freed));
        std::erase_if(blocks_, [&change](const block_extent& one) { return one.offset == change.freed; });
    }
    if (change.allocated_bytes != 0) {
        const block_extent made{allocated, change.allocated_bytes, change.type};
        blocks_.insert(std::lower_bound(blocks_.begin(), blocks_.end(), made), made);
        for (const data_word& word : change.content) {
            data_.push_back({allocated + word.offset, word.value});
        }
    }
    for (const data_word& word : change.words) {
        set_data(word);
    }
    if (auto* const word = find(change.destination); word != nullptr) {
        word->targets = {change.allocated_bytes != 0 ? allocated : 0};
    }
}

/// A call in flight that frees the block has done so: the block belongs to another already.
void heap_model::finish_free_of(std::uint64_t block, unsigned by) {
    for (unsigned thread = 0; thread < model_threads; ++thread) {
        for (pending_change& change : in_flight_.at(thread)) {
            const bool is_group = !change.words.empty();
            if (thread != by && change.freed == block && (change.allocated_bytes == 0 || is_group) && !change.done) {
                apply(change, change.target);
                change.done = true;
            }
        }
    }
}

void heap_model::returned(unsigned thread, const std::vector<std::uint64_t>& allocated) {
    const std::vector<pending_change> changes = std::move(in_flight_.at(thread));
    in_flight_.at(thread).clear();
    for (std::size_t i = 0; i < changes.size(); ++i) {
        const std::uint64_t block = i < allocated.size() ? allocated[i] : no_offset;
        if (changes[i].allocated_bytes != 0) {
            finish_free_of(block, thread);
        }
        if (!changes[i].done) {
            apply(changes[i], block);
        }
    }
}

void heap_model::died(unsigned thread) {
    auto& dead = in_flight_.at(model_threads - 1);
    dead.insert(dead.end(), in_flight_.at(thread).begin(), in_flight_.at(thread).end());
    in_flight_.at(thread).clear();
}

void heap_model::stored(std::uint64_t destination, std::uint64_t target) {
    if (auto* const word = find(destination); word != nullptr) {
        word->targets.push_back(target);
    }
}

void heap_model::made_durable(std::uint64_t destination) {
    if (auto* const word = find(destination); word != nullptr) {
        word->targets = {word->targets.back()};
    }
}

std::uint64_t heap_model::hash() const {
    std::uint64_t sum = blocks_.size();
    const auto add = [&sum](std::uint64_t value) { sum = mix(sum, value); };
    for (const block_extent& one : blocks_) {
        add(one.offset);
        add(one.bytes);
        add(one.type);
    }
    for (const known_destination& one : destinations_) {
        add(one.offset);
        for (const std::uint64_t target : one.targets) {
            add(target);
        }
    }
    for (const data_word& one : data_) {
        add(one.offset ^ one.value);
    }
    for (const auto& changes : in_flight_) {
        add(changes.size());
        for (const pending_change& one : changes) {
            add(one.destination);
            add(one.freed);
            add(one.allocated_bytes + (one.done ? 1 : 0));
            add(one.type);
            for (const data_word& word : one.words) {
                add(word.offset ^ word.value);
            }
        }
    }
    return sum;
}

// --- judging an image -----------------------------------------------------------------------------------------------

/// Decides each call in flight by the image, then compares.
class image_judge {
public:
    image_judge(const heap_model& model, const tracked_memory& memory, std::uint64_t frontier_pages)
        : model_(model), memory_(memory), decided_(model), found_(blocks_in(memory, frontier_pages)) {
        for (auto& changes : decided_.in_flight_) {
            changes.clear();
        }
    }

    std::string judge() {
        decide(false);
        decide(true);
        allow_unnamed();
        if (wrong_.empty() && decided_.blocks_ != found_) {
            wrong_ = fmt::format("blocks allocated: {}; expected: {}", describe(found_), describe(decided_.blocks_));
        }
        for (const auto& word : decided_.destinations_) {
            const std::uint64_t target = target_in(memory_, word.offset);
            if (wrong_.empty() && !word.allows(target)) {
                wrong_ = fmt::format("destination {:#x} points to {:#x}; expected: {:#x}", word.offset, target,
                                     fmt::join(word.targets, " or "));
            }
        }
        for (const data_word& word : decided_.data_) {
            if (wrong_.empty() && memory_.at(word.offset) != word.value) {
                wrong_ = fmt::format("data at {:#x} is {:#x}; expected: {:#x}", word.offset, memory_.at(word.offset),
                                     word.value);
            }
        }
        return wrong_;
    }

    [[nodiscard]] const heap_model& decided() const noexcept { return decided_; }

private:
    [[nodiscard]] bool is_found(std::uint64_t offset) const {
        return std::any_of(found_.begin(), found_.end(),
                           [offset](const block_extent& one) { return one.offset == offset; });
    }

    /// Calls that only free come first: another may own the block already.
    void decide(bool allocating) {
        for (const auto& changes : model_.in_flight_) {
            for (const pending_change& change : changes) {
                const bool is_group = !change.words.empty();
                if (change.done || (change.allocated_bytes != 0 && !is_group) != allocating) {
                    continue;
                }
                if (is_group) {
                    decide_group(change);
                } else if (allocating) {
                    decide_allocation(change);
                } else {
                    decide_free(change);
                }
            }
        }
    }

    /// All of a group is there if its first word is.
    void decide_group(const pending_change& change) {
        if (memory_.at(change.words.front().offset) == change.words.front().value) {
            decided_.apply(change, change.target);
        }
    }

    void decide_free(const pending_change& change) {
        const auto* const word = model_.find(change.destination);
        bool there = !is_found(change.freed);
        const bool within = change.destination - change.freed < model_.bytes_of(change.freed);
        if (word != nullptr && !within) {
            const std::uint64_t target = target_in(memory_, word->offset);
            there = !word->allows(target) || (target == 0 && there);
        }
        if (there) {
            decided_.apply(change, no_offset);
        }
    }

    void decide_allocation(const pending_change& change) {
        const auto* const word = decided_.find(change.destination);
        if (change.destination == no_offset) {
            unnamed_.push_back(&change);
            return;
        }
        if (word == nullptr) {
            return;  // another call in flight freed its holder
        }
        const std::uint64_t target = target_in(memory_, word->offset);
        if (word->allows(target)) {
            return;
        }
        if (decided_.has_block(target)) {
            wrong_ = fmt::format("destination {:#x} points to {:#x}, which belongs to another", word->offset, target);
        } else if (change.target != no_offset && change.target != target) {
            wrong_ = fmt::format("destination {:#x} points to {:#x} and not to {:#x}, which was published",
                                 word->offset, target, change.target);
        } else {
            decided_.apply(change, target);
        }
    }

    /// An allocation in flight without a destination may have happened.
    void allow_unnamed() {
        for (const pending_change* const change : unnamed_) {
            for (const block_extent& one : found_) {
                if (!decided_.has_block(one.offset) && one.bytes == change->allocated_bytes &&
                    one.type == change->type) {
                    decided_.apply(*change, one.offset);
                    break;
                }
            }
        }
    }

    const heap_model& model_;
    const tracked_memory& memory_;
    heap_model decided_;
    std::vector<block_extent> found_;
    std::vector<const pending_change*> unnamed_;
    std::string wrong_;
};

std::string heap_model::fault_in(const tracked_memory& memory, std::uint64_t frontier_pages) const {
    return image_judge(*this, memory, frontier_pages).judge();
}

heap_model heap_model::decided_by_visible(const tracked_memory& memory, std::uint64_t frontier_pages) const {
    image_judge judge(*this, memory, frontier_pages);
    static_cast<void>(judge.judge());
    return judge.decided();
}

heap_model heap_model::decided_by(const tracked_memory& memory, std::uint64_t frontier_pages) const {
    heap_model decided = decided_by_visible(memory, frontier_pages);
    for (auto& word : decided.destinations_) {
        word.targets = {target_in(memory, word.offset)};
    }
    return decided;
}

std::vector<std::uint64_t> heap_model::places_of(std::uint64_t block) const {
    std::vector<std::uint64_t> places;
    for (const known_destination& one : destinations_) {
        if (one.targets.back() == block) {
            places.push_back(one.offset);
        }
    }
    return places;
}

}  // namespace holdfast::simulator
