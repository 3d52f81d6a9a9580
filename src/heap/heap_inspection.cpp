#include "heap/heap_inspection.hpp"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "segment/format/heap_format.hpp"

namespace holdfast::heap {

namespace {

std::uint64_t word_at(const std::byte* at) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    return word;
}

}  // namespace

base::result<engine_statistics> heap_inspection::statistics() {
    engine_statistics numbers;
    HF_TRY(heap_.files().bitmaps().admit_all());
    heap_.blocks().flush_extents();
    HF_TRY_ASSIGN(numbers.files, heap_.files().statistics());
    numbers.reservation = heap_.files().view().reservation();
    numbers.user_bytes = base::to_bytes(heap_.files().frontier());
    const slab::block_statistics blocks = heap_.blocks().inspect().statistics();
    numbers.allocated_blocks = blocks.allocated_blocks;
    numbers.allocated_bytes = blocks.allocated_bytes;
    numbers.largest_free_block = base::to_bytes(heap_.extents().largest_free());
    numbers.slabs = heap_.extents().count(segment::extent_kind::slab);
    numbers.extents = heap_.extents().count(segment::extent_kind::used);
    numbers.guard_ranges = heap_.blocks().slabs().source().guards().count();
    return numbers;
}

base::result<std::uint64_t> heap_inspection::free_bytes() {
    HF_TRY(heap_.files().bitmaps().admit_all());
    return base::to_bytes(heap_.files().frontier()) - heap_.blocks().inspect().statistics().allocated_bytes;
}

base::result<void> heap_inspection::for_each_extent(base::function_ref<void(const extent_state&)> each) {
    HF_TRY(heap_.files().bitmaps().admit_all());
    heap_.blocks().flush_extents();
    segment::backing_cursor backing(heap_.files().storage(), heap_.files().paths(), heap_.files().view().shape());
    base::result<void> outcome;
    heap_.extents().for_each([&](const extent::extent& found) {
        if (!outcome) {
            return;
        }
        auto backed = backing.count(base::offset_of(found.start), base::offset_of(found.start + found.length));
        if (!backed) {
            outcome = std::move(backed).error();
            return;
        }
        extent_state state{found, {}, *backed};
        if (found.kind == segment::extent_kind::slab) {
            state.slab = heap_.blocks().inspect().occupancy(base::granule_of(found.start));
        }
        each(state);
    });
    return outcome;
}

std::vector<std::string> heap_inspection::check(bool pages) {
    std::vector<std::string> problems;
    if (heap_.atomic() != nullptr) {
        heap_.atomic()->checkpoint();  // the bitmaps follow at a checkpoint
    }
    if (auto admitted = heap_.files().bitmaps().admit_all(); !admitted) {
        problems.push_back("SEG-3: " + admitted.error().message());
        return problems;  // bitmaps that could not be read cannot be checked
    }
    heap_.blocks().inspect().check(
        problems, heap_.destinations() != nullptr ? heap_.destinations()->reserved() : std::vector<std::uint64_t>{});
    heap_.objects().check(problems, [this](std::uint64_t offset) { return block_size_at(heap_, offset); });
    check_pointers(problems);
    for (const base::failure& warning : heap_.files().warnings()) {
        problems.push_back("SB-1: " + warning.message());
    }
    if (pages) {
        check_pages(problems);
    }
    return problems;
}

void heap_inspection::check_pages(std::vector<std::string>& problems) {
    constexpr std::size_t most = 100;
    std::vector<base::failure> broken;
    if (auto verified = heap_.files().verify(broken, most)) {
        compared_ = *verified;
    } else {
        problems.push_back("SEG-2: " + verified.error().message());
    }
    for (const base::failure& problem : broken) {
        problems.push_back("SEG-2: " + problem.message());
    }
}

void heap_inspection::check_pointers(std::vector<std::string>& problems) {
    constexpr std::size_t most = 100;
    const std::uint64_t end = base::to_bytes(heap_.files().frontier());
    const std::size_t allowed = problems.size() + most;
    const auto leads_out = [&](std::uint64_t at) {
        const std::uint64_t word = word_at(heap_.files().view().base() + at);
        return !segment::is_null_pointer(word) && segment::decode_pointer(at, word) >= end;
    };
    for (std::uint64_t root = 0; root < root_count; ++root) {
        if (problems.size() < allowed && leads_out(root * sizeof(std::uint64_t))) {
            problems.push_back(fmt::format("HEAP-21: root {} leads out of the heap", root));
        }
    }
    type_registry types;
    if (const auto loaded = types.load(heap_.objects()); !loaded) {
        problems.push_back("TYPE-1: " + loaded.error().message());
        return;
    }
    if (types.entries().empty()) {
        return;
    }
    heap_.blocks().inspect().for_each_block([&](base::heap_offset block, std::uint64_t bytes, std::uint32_t type) {
        const type_registry::entry* const known = type == 0 ? nullptr : types.find(type);
        if (known == nullptr || bytes < known->description.size) {
            return;
        }
        for (const std::uint32_t where : known->description.pointers) {
            if ((where & raw_pointer_bit) == 0 && problems.size() < allowed && leads_out(block.value + where)) {
                problems.push_back(fmt::format(
                    "TYPE-4: the block at offset {:#x}, type {} {}: the pointer at byte {} leads out of the heap",
                    block.value, type, known->description.name, where));
            }
        }
    });
}

}  // namespace holdfast::heap
