#include "support/counted_heap.hpp"

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <holdfast/containers.hpp>

#include "support/scratch.hpp"

namespace holdfast::support {

namespace {

constexpr std::size_t numbers_a_step = 300;
constexpr std::uint64_t names_a_step = 20;
constexpr std::size_t block_unit = 24 * 1024;

/// The unique object of the heap.
struct progress {
    std::uint64_t step;
    std::uint64_t block_bytes;
};

using numbers_type = vector<std::uint64_t>;
using names_type = map<std::uint64_t, string>;

std::uint64_t number(std::uint64_t step, std::uint64_t index) {
    return (step * 0x9e3779b97f4a7c15ULL) ^ (index * 0xbf58476d1ce4e5b9ULL);
}

std::string name(std::uint64_t step, std::uint64_t key) {
    return std::string(1 + (step * 37 + key * 11) % 190, static_cast<char>('a' + (step + key) % 26));
}

std::size_t block_bytes(std::uint64_t step) { return block_unit * (1 + step % 5); }

unsigned char block_byte(std::uint64_t step) { return static_cast<unsigned char>(0x41 + step % 100); }

/// `what` is formatted only where it is needed.
template <class... Values>
void expect(bool right, fmt::format_string<Values...> what, Values&&... values) {
    if (!right) {
        throw wrong_content(fmt::format(what, std::forward<Values>(values)...));
    }
}

void advance_block(manager& heap, std::uint64_t step) {
    void* const block = heap.allocate(block_bytes(step));
    std::memset(block, block_byte(step), block_bytes(step));
    ptr<void>& root = heap.root(0);
    heap.deallocate(root.get());
    root = block;
}

std::uint64_t check_anonymous(const manager& heap) {
    std::uint64_t count = 0;
    std::uint64_t sum = 0;
    for (auto it = heap.anonymous_begin(); it != heap.anonymous_end(); ++it) {
        expect(it->type_size() == sizeof(std::uint64_t) && it->length() == 1, "an anonymous object of another type");
        ++count;
        sum += *static_cast<const std::uint64_t*>(it->value());
    }
    expect(sum == count * (count + 1) / 2, "the {} anonymous objects add up to {}", count, sum);
    return count;
}

}  // namespace

open_options small_segments() {
    open_options options;
    options.segment_size = 2 * 1024 * 1024;
    options.reservation = std::uint64_t{1} << 30;
    options.commit_on_close = false;
    return options;
}

void advance(manager& heap, std::uint64_t step) {
    auto* const numbers = heap.find_or_construct<numbers_type>("numbers")(heap.get_allocator<std::uint64_t>());
    numbers->resize(numbers_a_step * (1 + step % 4));
    for (std::size_t i = 0; i < numbers->size(); ++i) {
        (*numbers)[i] = number(step, i);
    }
    auto* const names =
        heap.find_or_construct<names_type>("names")(heap.get_allocator<std::pair<const std::uint64_t, string>>());
    names->clear();
    for (std::uint64_t key = 0; key < names_a_step; ++key) {
        names->emplace(key, string(name(step, key).c_str(), heap.get_allocator<char>()));
    }
    advance_block(heap, step);
    static_cast<void>(heap.construct<std::uint64_t>(anonymous_instance)(step));
    auto* const done = heap.find_or_construct<progress>(unique_instance)();
    *done = {step, block_bytes(step)};
}

std::uint64_t step_of(const manager& heap) {
    const std::uint64_t anonymous = check_anonymous(heap);
    const progress* const done = heap.find<progress>(unique_instance).first;
    if (done == nullptr) {
        expect(anonymous == 0 && heap.get_num_named_objects() == 0 && !heap.root(0), "objects in a heap at step 0");
        return 0;
    }
    const std::uint64_t step = done->step;
    expect(anonymous == step, "{} anonymous objects at step {}", anonymous, step);
    expect(heap.get_num_named_objects() == 2, "named objects that nobody made");
    const auto* const numbers = heap.find<numbers_type>("numbers").first;
    expect(numbers != nullptr && numbers->size() == numbers_a_step * (1 + step % 4), "size of the numbers");
    for (std::size_t i = 0; i < numbers->size(); ++i) {
        expect((*numbers)[i] == number(step, i), "number {} at step {}", i, step);
    }
    const auto* const names = heap.find<names_type>("names").first;
    expect(names != nullptr && names->size() == names_a_step, "number of the names");
    std::uint64_t key = 0;
    for (const auto& [found, text] : *names) {
        expect(found == key && std::string_view(text.data(), text.size()) == name(step, key), "name {} at step {}", key,
               step);
        ++key;
    }
    expect(done->block_bytes == block_bytes(step) && heap.root(0), "size of the block");
    const auto* const block = static_cast<const unsigned char*>(heap.root(0).get());
    for (std::size_t i = 0; i < block_bytes(step); ++i) {
        expect(block[i] == block_byte(step), "byte {} of the block at step {}", i, step);
    }
    return step;
}

void make_heap(const std::string& path, std::uint64_t step) {
    manager heap(create_only, path, small_segments());
    for (std::uint64_t i = 1; i <= step; ++i) {
        advance(heap, i);
        heap.commit();
    }
    heap.close(true);
}

void make_crashed_heap(const std::string& path, std::uint64_t step) {
    const scratch_directory scratch;
    make_heap(scratch / "heap", step - 1);
    manager heap(open_only, scratch / "heap", small_segments());
    advance(heap, step);
    heap.commit();
    // What the files hold now is what a crash would leave: stores reach them by a commit alone.
    copy_directory(scratch / "heap", path);
}

// By docs/format.md, "Journal".
void undo_journaled_pages(const std::string& heap, const std::string& before) {
    constexpr std::uint64_t page_size = 4096;
    constexpr std::uint64_t table_at = 2 * page_size;
    constexpr std::uint64_t objects_id = (1U << 24U) - 1;
    std::ifstream journal(heap + "/journal", std::ios::binary);
    const auto number_at = [&journal](std::uint64_t offset) {
        std::uint64_t value = 0;
        journal.seekg(static_cast<std::streamoff>(offset));
        journal.read(reinterpret_cast<char*>(&value), sizeof value);
        return value;
    };
    const std::uint64_t entries = number_at(40);
    for (std::uint64_t i = 0; i < entries; ++i) {
        const std::uint64_t place = number_at(table_at + 16 * i);
        const std::uint64_t id = place >> 40U;
        const auto offset = static_cast<std::streamoff>((place & ((std::uint64_t{1} << 40U) - 1)) * page_size);
        const std::string name = id == objects_id ? "/objects" : fmt::format("/segment.{:06}", id);
        std::array<char, page_size> page{};
        std::ifstream old(before + name, std::ios::binary);
        old.seekg(offset);
        old.read(page.data(), page_size);
        std::fstream home(heap + name, std::ios::binary | std::ios::in | std::ios::out);
        home.seekp(offset);
        home.write(page.data(), page_size);
        expect(journal && old && home, "page {} of the journal cannot be undone", i);
    }
    std::filesystem::copy_file(before + "/superblock", heap + "/superblock",
                               std::filesystem::copy_options::overwrite_existing);
}

void make_heap_with_pending_commit(const std::string& path, std::uint64_t step) {
    const scratch_directory scratch;
    make_heap(scratch / "heap", step - 2);
    manager heap(open_only, scratch / "heap", small_segments());
    advance(heap, step - 1);
    heap.commit();
    copy_directory(scratch / "heap", scratch / "before");
    const auto before = heap.get_size();
    advance(heap, step);
    heap.commit();
    expect(heap.get_size() == before, "the heap grew: it is more than its journal and its superblock that are new");
    copy_directory(scratch / "heap", path);
    undo_journaled_pages(path, scratch / "before");
}

}  // namespace holdfast::support
