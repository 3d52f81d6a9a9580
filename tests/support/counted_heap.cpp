#include "support/counted_heap.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

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

namespace {

constexpr std::uint64_t page_size = 4096;

std::vector<std::string> log_files(const std::string& heap) {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(heap)) {
        if (entry.path().filename().string().starts_with("log.")) {
            found.push_back(entry.path().string());
        }
    }
    std::ranges::sort(found);
    return found;
}

std::vector<char> content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
T number_at(const std::vector<char>& bytes, std::uint64_t offset) {
    T value{};
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

/// File and page of what the entries speak of, but for pages that were home before.
void add_places(const std::vector<char>& log, std::uint64_t at, std::uint64_t end, std::set<std::uint64_t>& places) {
    while (at < end) {
        const auto place = number_at<std::uint64_t>(log, at);
        const auto kind = number_at<std::uint32_t>(log, at + 8);
        const auto count = number_at<std::uint32_t>(log, at + 12);
        at += 16;
        if (kind == 1) {
            std::uint64_t bytes = 0;
            for (std::uint32_t i = 0; i < count; ++i) {
                bytes += 4U + number_at<std::uint16_t>(log, at + 4 * i + 2);
            }
            places.insert(place);
            at += (bytes + 7) / 8 * 8;
        } else if (kind == 2) {
            for (std::uint32_t i = 0; i < count; ++i) {
                places.insert(place + i);
            }
            at += count * page_size;
        }
    }
}

/// By docs/format.md, "Log files" and "Commits": of the records behind the first `known` of a log.
std::set<std::uint64_t> logged_places(const std::string& heap, std::uint64_t known) {
    std::set<std::uint64_t> places;
    std::uint64_t sequence = 0;
    for (const std::string& path : log_files(heap)) {
        const std::vector<char> log = content_of(path);
        for (std::uint64_t at = 0; at + 48 <= log.size();) {
            const auto found = number_at<std::uint64_t>(log, at + 16);
            const auto size = number_at<std::uint32_t>(log, at + 40);
            if (found == 0 || (sequence != 0 && found != sequence + 1)) {
                break;
            }
            sequence = found;
            const bool is_commit = number_at<std::uint32_t>(log, at + 44) == 1;
            const std::uint64_t head = is_commit ? 8 + number_at<std::uint32_t>(log, at + 48) : 0;
            if (sequence > known) {
                add_places(log, at + 48 + head, at + 48 + size, places);
            }
            at += (48 + size + 7) / 8 * 8;
        }
    }
    return places;
}

std::uint64_t last_record(const std::string& heap) {
    std::uint64_t last = 0;
    for (const std::string& path : log_files(heap)) {
        const std::vector<char> log = content_of(path);
        for (std::uint64_t at = 0; at + 48 <= log.size() && number_at<std::uint64_t>(log, at + 16) > last;) {
            last = number_at<std::uint64_t>(log, at + 16);
            at += (48 + number_at<std::uint32_t>(log, at + 40) + 7) / 8 * 8;
        }
    }
    return last;
}

}  // namespace

void undo_last_way_home(const std::string& heap, const std::string& before) {
    constexpr std::uint64_t objects_id = (1U << 24U) - 1;
    for (const std::uint64_t place : logged_places(heap, last_record(before))) {
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
        expect(old && home, "page {:#x} of the log cannot be undone", place);
    }
    expect(content_of(before + "/superblock") == content_of(heap + "/superblock"), "a checkpoint has come between");
}

std::string log_of(const std::string& heap) {
    const auto files = log_files(heap);
    expect(!files.empty(), "a heap without a log");
    return files.front();
}

std::uint64_t end_of_log(const std::string& heap) {
    const std::vector<char> log = content_of(log_of(heap));
    std::uint64_t at = 0;
    while (at + 48 <= log.size() && number_at<std::uint64_t>(log, at + 16) != 0) {
        at += (48 + number_at<std::uint32_t>(log, at + 40) + 7) / 8 * 8;
    }
    return at;
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
    expect(heap.get_size() == before, "the heap grew: it is more than its log that is new");
    copy_directory(scratch / "heap", path);
    undo_last_way_home(path, scratch / "before");
}

}  // namespace holdfast::support
