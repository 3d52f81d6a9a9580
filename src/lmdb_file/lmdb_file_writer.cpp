#include "lmdb_file/lmdb_file_writer.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace holdfast_lmdb_file {
namespace {

constexpr std::size_t node_limit = largest_node(written_page_size);
constexpr std::size_t slot_size = 2;

constexpr std::size_t even(std::size_t size) noexcept { return (size + 1) & ~std::size_t{1}; }

void write_header(std::vector<std::byte>& content, unsigned flags, std::size_t pad, std::size_t lower,
                  std::size_t upper) {
    store(std::span(content), 8, static_cast<std::uint16_t>(pad));
    store(std::span(content), 10, static_cast<std::uint16_t>(flags));
    store(std::span(content), 12, static_cast<std::uint16_t>(lower));
    store(std::span(content), 14, static_cast<std::uint16_t>(upper));
}

void copy(std::vector<std::byte>& to, std::size_t at, bytes from) {
    std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}

void place_node(std::vector<std::byte>& content, std::size_t& lower, std::size_t& upper, std::uint64_t number,
                unsigned flags, bytes key, bytes data) {
    upper -= even(node_header + key.size() + data.size());
    const std::span<std::byte> page(content);
    store(page, upper, static_cast<std::uint16_t>(number));
    store(page, upper + 2, static_cast<std::uint16_t>(number >> 16U));
    store(page, upper + 4, static_cast<std::uint16_t>(flags));
    store(page, upper + 6, static_cast<std::uint16_t>(key.size()));
    copy(content, upper + node_header, key);
    copy(content, upper + node_header + key.size(), data);
    store(page, lower, static_cast<std::uint16_t>(upper));
    lower += slot_size;
}

}  // namespace

void page_writer::write(std::uint64_t number, std::vector<std::byte>& content) const {
    store(std::span(content), 0, number);
    sink_(number * written_page_size, content);
}

tree_builder::tree_builder(page_writer& writer, unsigned flags, std::size_t fixed_size)
    : writer_(writer), fixed_size_(fixed_size), leaf_(written_page_size) {
    record_.flags = static_cast<std::uint16_t>(flags);
    record_.pad = static_cast<std::uint32_t>(fixed_size);
}

void tree_builder::add(std::string_view key, bytes data, unsigned node_flags) {
    const std::size_t size = fixed_size_ != 0 ? fixed_size_ : even(node_header + key.size() + data.size()) + slot_size;
    if (upper_ - lower_ < size) {
        flush_leaf();
    }
    if (lower_ == page_header) {
        first_key_ = key;
    }
    if (fixed_size_ == 0) {
        place_node(leaf_, lower_, upper_, data.size(), node_flags, bytes_of(key), data);
        return;
    }
    // Without nodes, both bounds count as if an item had a slot.
    copy(leaf_, page_header + (lower_ - page_header) / slot_size * fixed_size_, bytes_of(key));
    lower_ += slot_size;
    upper_ -= fixed_size_ - slot_size;
}

void tree_builder::add_big(std::string_view key, bytes data) {
    const std::uint64_t count = (page_header - 1 + data.size()) / written_page_size + 1;
    const std::uint64_t number = writer_.allocate(count);
    std::vector<std::byte> content(count * written_page_size);
    store(std::span(content), 10, static_cast<std::uint16_t>(page_flag::overflow));
    store(std::span(content), 12, static_cast<std::uint32_t>(count));
    copy(content, page_header, data);
    writer_.write(number, content);
    record_.overflow_pages += count;

    std::array<std::byte, sizeof(number)> where{};
    store(std::span<std::byte>(where), 0, number);
    add(key, where, node_flag::big);
    // The node has the size of the data, not that of the number.
    store(std::span(leaf_), upper_, static_cast<std::uint16_t>(data.size()));
    store(std::span(leaf_), upper_ + 2, static_cast<std::uint16_t>(data.size() >> 16U));
}

void tree_builder::flush_leaf() {
    const std::uint64_t number = writer_.allocate();
    write_header(leaf_, page_flag::leaf | (fixed_size_ != 0 ? page_flag::leaf2 : 0U), fixed_size_, lower_, upper_);
    writer_.write(number, leaf_);
    ++record_.leaf_pages;
    add_entry(0, std::move(first_key_), number);
    std::fill(leaf_.begin(), leaf_.end(), std::byte{0});
    lower_ = page_header;
    upper_ = written_page_size;
}

void tree_builder::add_entry(std::size_t at, std::string key, std::uint64_t child) {
    if (at == levels_.size()) {
        levels_.emplace_back();
    }
    const std::size_t size = even(node_header + key.size()) + slot_size;
    if (levels_[at].bytes + size > written_page_size - page_header) {
        const std::vector<entry> earlier = std::move(levels_[at].full);
        levels_[at].full = std::exchange(levels_[at].present, {});
        levels_[at].bytes = 0;
        if (!earlier.empty()) {
            write_branch(at, earlier);
        }
    }
    levels_[at].present.push_back({std::move(key), child});
    levels_[at].bytes += size;
}

void tree_builder::write_branch(std::size_t at, const std::vector<entry>& entries) {
    std::vector<std::byte> content(written_page_size);
    std::size_t lower = page_header;
    std::size_t upper = written_page_size;
    for (const entry& one : entries) {
        // The first child has what is less than the second's key: its own is not needed.
        const bytes key = &one == &entries.front() ? bytes() : bytes_of(one.key);
        place_node(content, lower, upper, one.child, static_cast<unsigned>(one.child >> 32U), key, {});
    }
    const std::uint64_t number = writer_.allocate();
    write_header(content, page_flag::branch, 0, lower, upper);
    writer_.write(number, content);
    ++record_.branch_pages;
    add_entry(at + 1, entries.front().key, number);
}

tree tree_builder::finish(std::uint64_t items) {
    record_.items = items;
    if (lower_ > page_header) {
        flush_leaf();
    }
    for (std::size_t at = 0; at < levels_.size(); ++at) {
        level last = std::exchange(levels_[at], {});
        if (last.full.empty() && last.present.size() == 1) {
            record_.root = last.present.front().child;
            record_.depth = static_cast<std::uint16_t>(at + 1);
            break;
        }
        if (!last.full.empty() && last.present.size() == 1) {
            last.present.insert(last.present.begin(), std::move(last.full.back()));
            last.full.pop_back();
        }
        if (!last.full.empty()) {
            write_branch(at, last.full);
        }
        write_branch(at, last.present);
    }
    return record_;
}

database_writer::database_writer(page_writer& writer, unsigned flags)
    : writer_(writer), flags_(flags & database_flag::all), builder_(writer, flags & database_flag::all) {}

void database_writer::add(std::string_view key, std::string_view data) {
    const bool dups = (flags_ & database_flag::duplicates) != 0;
    if (key.empty() || key.size() > largest_written_key || (dups && data.size() > largest_written_key) ||
        data.size() > 0xffffffffU) {
        throw file_error("a key of " + std::to_string(key.size()) + " bytes with data of " +
                         std::to_string(data.size()) + ": LMDB 0.9 does not hold it");
    }
    ++items_;
    if (!dups) {
        if (node_header + key.size() + data.size() > node_limit) {
            builder_.add_big(key, bytes_of(data));
        } else {
            builder_.add(key, bytes_of(data), 0);
        }
        return;
    }
    if (items_ == 1 || key != key_) {
        finish_key();
        key_ = key;
        fixed_size_ = (flags_ & database_flag::fixed) != 0 ? data.size() : 0;
    }
    if (fixed_size_ != 0 && data.size() != fixed_size_) {
        throw file_error("duplicates of a fixed size have two sizes");
    }
    if (duplicate_tree_) {
        duplicate_tree_->add(data, {}, 0);
        ++duplicates_in_tree_;
        return;
    }
    duplicates_.emplace_back(data);
    duplicate_bytes_ += fixed_size_ != 0 ? fixed_size_ : even(node_header + data.size()) + slot_size;
    if (duplicates_.size() > 1 && node_header + key_.size() + subpage_size() > node_limit) {
        begin_duplicate_tree();
    }
}

std::size_t database_writer::subpage_size() const noexcept { return even(page_header + duplicate_bytes_); }

void database_writer::begin_duplicate_tree() {
    unsigned flags = 0;
    if (fixed_size_ != 0) {
        flags = database_flag::fixed;
        flags |= (flags_ & database_flag::integer_duplicates) != 0 ? database_flag::integer_key : 0U;
    }
    duplicate_tree_ = std::make_unique<tree_builder>(writer_, flags, fixed_size_);
    for (const std::string& one : duplicates_) {
        duplicate_tree_->add(one, {}, 0);
    }
    duplicates_in_tree_ = duplicates_.size();
    duplicates_.clear();
    duplicate_bytes_ = 0;
}

std::vector<std::byte> database_writer::subpage() const {
    std::vector<std::byte> content(subpage_size());
    std::size_t lower = page_header;
    std::size_t upper = content.size();
    for (const std::string& one : duplicates_) {
        if (fixed_size_ != 0) {
            copy(content, page_header + (lower - page_header) / slot_size * fixed_size_, bytes_of(one));
            lower += slot_size;
            upper -= fixed_size_ - slot_size;
        } else {
            place_node(content, lower, upper, 0, 0, bytes_of(one), {});
        }
    }
    const unsigned kind = page_flag::leaf | page_flag::dirty | page_flag::subpage;
    write_header(content, kind | (fixed_size_ != 0 ? page_flag::leaf2 : 0U), fixed_size_, lower, upper);
    return content;
}

void database_writer::finish_key() {
    if (duplicate_tree_) {
        std::array<std::byte, tree_record> record{};
        store_tree(record, duplicate_tree_->finish(duplicates_in_tree_));
        builder_.add(key_, record, node_flag::duplicates | node_flag::subdatabase);
        duplicate_tree_.reset();
    } else if (duplicates_.size() == 1) {
        builder_.add(key_, bytes_of(duplicates_.front()), 0);
    } else if (!duplicates_.empty()) {
        builder_.add(key_, subpage(), node_flag::duplicates);
    }
    duplicates_.clear();
    duplicate_bytes_ = 0;
}

void database_writer::add_database(std::string_view name, const tree& of) {
    if (name.empty() || name.size() > largest_written_key) {
        throw file_error("a database's name is too long for LMDB 0.9");
    }
    std::array<std::byte, tree_record> record{};
    store_tree(record, of);
    builder_.add(name, record, node_flag::subdatabase);
    ++items_;
}

tree database_writer::finish() {
    finish_key();
    return builder_.finish(items_);
}

void write_meta(const page_sink& sink, const page_writer& pages, const tree& main, std::uint64_t map_size) {
    for (std::uint64_t number = 0; number < first_data_page; ++number) {
        std::vector<std::byte> content(written_page_size);
        const std::span<std::byte> page(content);
        store(page, 0, number);
        store(page, 10, static_cast<std::uint16_t>(page_flag::meta));
        const std::span<std::byte> meta = page.subspan(page_header);
        store(meta, 0, magic);
        store(meta, 4, version_of_0_9);
        store(meta, 16, std::max(map_size, (pages.last() + 1) * written_page_size));
        tree free_pages;
        free_pages.pad = written_page_size;
        free_pages.flags = database_flag::integer_key;
        store_tree(meta.subspan(24), free_pages);
        // Page 0 is that of an empty file, before the transaction that wrote this one.
        store_tree(meta.subspan(24 + tree_record), number == 0 ? tree{} : main);
        store(meta, 24 + 2 * tree_record, number == 0 ? first_data_page - 1 : pages.last());
        store(meta, 32 + 2 * tree_record, number);
        sink(number * written_page_size, content);
    }
}

}  // namespace holdfast_lmdb_file
