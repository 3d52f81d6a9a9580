#include "commit/page_heap.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "commit/plain_files.hpp"
#include "support/random.hpp"

namespace bench {

namespace {

constexpr std::uint64_t block_bytes = std::uint64_t{16} << 20U;
constexpr std::size_t pages_a_block = block_bytes / page_bytes;
constexpr std::size_t blocks_a_commit = 16;  // while filling: bounds the private memory

std::uint64_t load_word(const std::byte* address) {
    std::uint64_t word = 0;
    std::memcpy(&word, address, sizeof(word));
    return word;
}

}  // namespace

page_heap::page_heap(std::string path, std::uint64_t bytes, std::uint64_t segment_bytes) : path_(std::move(path)) {
    holdfast::open_options how;
    how.segment_size = segment_bytes;
    heap_.emplace(holdfast::create_only, path_, how);
    const std::size_t block_count = bytes / block_bytes;
    words_.reserve(block_count * pages_a_block);
    for (std::size_t block = 0; block < block_count; ++block) {
        auto* const start = static_cast<std::byte*>(heap_->allocate_aligned(block_bytes, page_bytes));
        blocks_.push_back(start);
        for (std::size_t page = 0; page < pages_a_block; ++page) {
            const std::uint64_t word = mix(words_.size() + 1);
            for (std::size_t at = 0; at < page_bytes; at += sizeof(word)) {
                std::memcpy(start + page * page_bytes + at, &word, sizeof(word));
            }
            words_.push_back(word);
        }
        if ((block + 1) % blocks_a_commit == 0) {
            heap_->commit();
        }
    }
    heap_->commit();
}

const std::byte* page_heap::address(std::size_t page) const {
    return blocks_[page / pages_a_block] + page % pages_a_block * page_bytes;
}

std::uint64_t page_heap::offset(std::size_t page) const {
    return static_cast<std::uint64_t>(address(page) - static_cast<const std::byte*>(heap_->get_address()));
}

void page_heap::dirty(const std::vector<std::size_t>& pages, std::uint64_t word) {
    for (const std::size_t page : pages) {
        words_[page] = mix(word + page);
        std::memcpy(blocks_[page / pages_a_block] + page % pages_a_block * page_bytes, &words_[page],
                    sizeof(words_[page]));
    }
}

void page_heap::make_resident() const {
    for (std::size_t page = 0; page < page_count(); ++page) {
        static_cast<void>(*reinterpret_cast<const volatile std::byte*>(address(page)));
    }
}

holdfast::commit_report page_heap::commit() {
    heap_->commit();
    return heap_->last_commit();
}

std::uint64_t page_heap::verify_reopened() {
    std::vector<holdfast::manager::handle_t> handles;
    handles.reserve(blocks_.size());
    for (const std::byte* const block : blocks_) {
        handles.push_back(heap_->get_handle_from_address(block));
    }
    heap_->close(false);  // everything is committed: what is read below is what the commits left
    heap_.emplace(holdfast::open_read_only, path_);
    for (std::size_t block = 0; block < handles.size(); ++block) {
        blocks_[block] = static_cast<std::byte*>(heap_->get_address_from_handle(handles[block]));
    }
    std::uint64_t sum = 0;
    for (std::size_t page = 0; page < page_count(); ++page) {
        const std::uint64_t found = load_word(address(page));
        if (found != words_[page]) {
            throw std::runtime_error(fmt::format("page {} holds {:#x} after the heap was opened again, expected {:#x}",
                                                 page, found, words_[page]));
        }
        sum += mix(found + page);
    }
    return sum;
}

}  // namespace bench
