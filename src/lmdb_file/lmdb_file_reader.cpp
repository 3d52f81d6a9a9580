#include "lmdb_file/lmdb_file_reader.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace holdfast_lmdb_file {
namespace {

std::string page_name(std::uint64_t number) { return "page " + std::to_string(number); }

[[noreturn]] void damaged(const std::string& where, const std::string& what) { throw file_error(where + ": " + what); }

}  // namespace

file_reader::file_reader(const byte_source& source) : source_(source) {
    read_metas();
    if ((meta_.free_pages.flags & encrypted) != 0 && how_->version != version_of_0_9) {
        throw unsupported_file("the file is encrypted: dump the data with a program that has the key");
    }
    pages_ = source_.size() / page_size_;
    if (meta_.last_page >= pages_) {
        // liblmdb leaves free pages at the end unwritten; more than it can number is no file of its.
        if (meta_.last_page > meta_.map_size / page_size_ || meta_.last_page > pages_ * 2 + (1U << 20U)) {
            damaged("meta page", "the last page is " + std::to_string(meta_.last_page) + ", and the file has " +
                                     std::to_string(pages_));
        }
        warnings_.emplace_back("the file ends before its last page, which may be free");
    }
    claimed_.resize(std::min(pages_, meta_.last_page + 1));
    find_checksums();
    check_tree(meta_.main, "the unnamed database");
    check_tree(meta_.free_pages, "the list of free pages");
}

void file_reader::read_metas() {
    const std::optional<found_meta> first = read_meta(0, 0);
    // The second lies behind a page, whose size the first says; where that is damaged, sizes are tried.
    std::optional<found_meta> second;
    if (first) {
        page_size_ = first->content.free_pages.pad;
        second = read_meta(page_size_, page_size_);
    }
    for (std::size_t size = layouts.back().least_page_size; !first && !second && size <= greatest_page_size;
         size *= 2) {
        second = read_meta(size, size);
        page_size_ = size;
    }
    if (!first && !second) {
        throw file_error("this is no data file of LMDB 0.9 or 1.0: neither meta page is one");
    }
    if (first && second && first->how != second->how) {
        damaged("meta page", "the other one has another version");
    }
    const found_meta& newest =
        !first || (second && second->content.transaction > first->content.transaction) ? *second : *first;
    meta_ = newest.content;
    how_ = newest.how;
}

std::optional<file_reader::found_meta> file_reader::read_meta(std::uint64_t offset, std::size_t page_size) const {
    // Every file that has pages is as long.
    std::vector<std::byte> raw(page_header_of_1_0 + meta_size);
    if (offset + raw.size() > source_.size()) {
        return std::nullopt;
    }
    source_.read(offset, raw);
    const std::optional<claimed_version> claimed = version_of(raw);
    if (!claimed || (load<std::uint16_t>(raw, claimed->header - 6) & page_flag::meta) == 0) {
        return std::nullopt;
    }
    const layout* const how = layout_of(*claimed);
    if (how == nullptr) {
        throw unsupported_file("the format's version is " + std::to_string(claimed->version) +
                               ", and this reads versions 1 (LMDB 0.9), 2 and 3 (LMDB 1.0), each with its own page "
                               "header: dump the data with LMDB's own mdb_dump");
    }
    const bytes content = bytes(raw).subspan(how->header);
    meta found;
    found.map_size = load<std::uint64_t>(content, 16);
    found.free_pages = load_tree(content.subspan(24));
    found.main = load_tree(content.subspan(24 + tree_record));
    found.last_page = load<std::uint64_t>(content, 24 + 2 * tree_record);
    found.transaction = load<std::uint64_t>(content, 32 + 2 * tree_record);
    const std::size_t size = found.free_pages.pad;
    const bool sound = std::has_single_bit(size) && size >= how->least_page_size && size <= greatest_page_size &&
                       (page_size == 0 || page_size == size) && found.last_page >= first_data_page - 1;
    return sound ? std::optional(found_meta{found, how}) : std::nullopt;
}

void file_reader::find_checksums() {
    if (how_->version == version_of_0_9 || pages_ == 0) {
        return;
    }
    std::array<std::byte, 2> tail{};
    source_.read(page_size_ - tail.size(), tail);
    if (const auto size = load<std::uint16_t>(tail, 0); size != 0) {
        warnings_.push_back("its pages have checksums of " + std::to_string(size) +
                            " bytes, of a function that the file does not name: they were not checked");
    }
}

void file_reader::check_transaction(const std::string& where, std::uint64_t number) const {
    if (number > meta_.transaction) {
        damaged(where, "transaction " + std::to_string(number) + " wrote it, and the last one is " +
                           std::to_string(meta_.transaction));
    }
}

file_reader::page file_reader::read_page(std::uint64_t number) const {
    page content(page_size_);
    source_.read(number * page_size_, content);
    if (load<std::uint64_t>(content, 0) != number) {
        damaged(page_name(number), "it says that it is page " + std::to_string(load<std::uint64_t>(content, 0)));
    }
    if (how_->version != version_of_0_9) {
        check_transaction(page_name(number), load<std::uint64_t>(content, 8));
    }
    return content;
}

void file_reader::claim(std::uint64_t number, std::uint64_t count) {
    if (number < first_data_page || count == 0 || number >= claimed_.size() || count > claimed_.size() - number) {
        damaged(page_name(number), "the file has no such page");
    }
    for (std::uint64_t i = number; i < number + count; ++i) {
        if (claimed_[i]) {
            damaged(page_name(i), "it is in use twice");
        }
        claimed_[i] = true;
    }
}

void file_reader::check_tree(const tree& of, const std::string& what) const {
    if (of.depth > greatest_depth) {
        damaged(what, "it is " + std::to_string(of.depth) + " levels deep");
    }
    if ((of.root == no_page) != (of.depth == 0)) {
        damaged(what, "depth and root contradict each other");
    }
}

void file_reader::compare_counts(const tree& of, const counts& found, const std::string& what) {
    const auto compare = [&](const char* kind, std::uint64_t said, std::uint64_t there) {
        if (said != there) {
            warnings_.push_back(what + ": it says " + std::to_string(said) + " " + kind + ", and there are " +
                                std::to_string(there));
        }
    };
    // LMDB 1.0 counts pages of the trees of duplicates here too, but not all of them.
    const auto compare_own = [&](const char* kind, std::uint64_t said, std::uint64_t there, std::uint64_t more) {
        const bool with_trees = how_->version != version_of_0_9 && said > there && said - there <= more;
        compare(kind, said, with_trees ? said : there);
    };
    compare_own("branch pages", of.branch_pages, found.branches, found.branches_of_duplicates);
    compare_own("leaf pages", of.leaf_pages, found.leaves, found.leaves_of_duplicates);
    compare("overflow pages", of.overflow_pages, found.overflow);
    compare("items", of.items, found.items);
}

file_reader::counts file_reader::walk(const tree& of, const std::string& what, const node_function& visit) {
    check_tree(of, what);
    counts found;
    if (of.root != no_page) {
        walk_page(of.root, of.depth, of, found, visit);
    }
    return found;
}

unsigned file_reader::page_view::kind() const {
    return field(6) & ~(how.version == version_of_0_9 ? page_flag::dirty : 0U);
}

std::vector<std::size_t> file_reader::slots_of(const page_view& of, bool branch, const std::string& where) {
    const bytes content = of.content;
    const std::size_t lower = of.lower();
    const std::size_t upper = of.upper();
    if (lower < of.how.header || lower % 2 != 0 || lower > upper || upper > content.size()) {
        damaged(where, "its bounds are wrong");
    }
    std::vector<std::size_t> slots((lower - of.how.header) / 2);
    std::size_t used = 0;
    for (std::size_t i = 0; i < slots.size(); ++i) {
        slots[i] = of.how.base + load<std::uint16_t>(content, of.how.header + 2 * i);
        if (slots[i] < upper || slots[i] + node_header > content.size()) {
            damaged(where, "a node lies outside");
        }
        if (branch) {
            used += node_header + load<std::uint16_t>(content, slots[i] + 6);
        } else {
            const leaf_node node = node_at(of, slots[i], where);
            used += node_header + node.key.size() + node.data.size();
        }
    }
    if (used > content.size() - upper) {
        damaged(where, "nodes lie in each other");  // else a small file could hold any number of items
    }
    return slots;
}

file_reader::leaf_node file_reader::node_at(const page_view& of, std::size_t offset, const std::string& where) {
    const bytes content = of.content;
    const std::uint32_t size = load<std::uint16_t>(content, offset) |
                               static_cast<std::uint32_t>(load<std::uint16_t>(content, offset + 2)) << 16U;
    const unsigned flags = load<std::uint16_t>(content, offset + 4);
    const std::size_t key_size = load<std::uint16_t>(content, offset + 6);
    const std::size_t key_room = of.how.even_data ? key_size + key_size % 2 : key_size;
    const std::size_t room = content.size() - offset - node_header;
    const std::size_t inside = (flags & node_flag::big) != 0 ? of.how.big_record : size;
    if (key_room > room || inside > room - key_room) {
        damaged(where, "a node is longer than its page");
    }
    return {flags, size, content.subspan(offset + node_header, key_size),
            content.subspan(offset + node_header + key_room, inside)};
}

void file_reader::walk_leaf2(const page_view& of, std::size_t item_size, const std::string& where, counts& found,
                             const node_function& visit) {
    const std::size_t lower = of.lower();
    const std::size_t header = of.how.header;
    if (lower < header || lower % 2 != 0 || item_size == 0) {
        damaged(where, "its bounds are wrong");
    }
    const std::size_t count = (lower - header) / 2;
    if (item_size != of.item_size() || count > (of.content.size() - header) / item_size) {
        damaged(where, "its items have another size");
    }
    for (std::size_t i = 0; i < count; ++i) {
        visit({0, 0, of.content.subspan(header + i * item_size, item_size), {}}, found);
    }
}

void file_reader::walk_page(std::uint64_t number, unsigned depth, const tree& of, counts& found,
                            const node_function& visit) {
    claim(number, 1);
    const page content = read_page(number);
    const page_view view = this->view(content);
    const unsigned kind = view.kind();
    const std::string where = page_name(number);
    if (depth > 1) {
        if (kind != page_flag::branch) {
            damaged(where, "it is no branch");
        }
        ++found.branches;
        const std::vector<std::size_t> slots = slots_of(view, true, where);
        if (slots.empty()) {
            damaged(where, "it leads nowhere");
        }
        for (const std::size_t offset : slots) {
            const std::uint64_t child = load<std::uint16_t>(content, offset) |
                                        std::uint64_t{load<std::uint16_t>(content, offset + 2)} << 16U |
                                        std::uint64_t{load<std::uint16_t>(content, offset + 4)} << 32U;
            walk_page(child, depth - 1, of, found, visit);
        }
        return;
    }
    ++found.leaves;
    if (kind == (page_flag::leaf | page_flag::leaf2)) {
        walk_leaf2(view, of.pad, where, found, visit);
        return;
    }
    if (kind != page_flag::leaf) {
        damaged(where, "it is no leaf");
    }
    for (const std::size_t offset : slots_of(view, false, where)) {
        visit(node_at(view, offset, where), found);
    }
}

file_reader::page file_reader::read_big(const leaf_node& node, counts& found) {
    const auto number = load<std::uint64_t>(node.data, 0);
    claim(number, 1);
    page content = read_page(number);
    // A shorter value that replaced a longer one keeps its pages.
    const std::uint64_t count = view(content).pages();
    if (view(content).kind() != page_flag::overflow || count < (how_->header - 1 + node.data_size) / page_size_ + 1) {
        damaged(page_name(number), "it is no overflow page of such a length");
    }
    if (how_->version != version_of_0_9) {
        check_transaction(page_name(number), load<std::uint64_t>(node.data, 8));
        if (load<std::uint64_t>(node.data, 16) != count) {
            damaged(page_name(number), "it takes another number of pages than its node says");
        }
    }
    if (count > 1) {
        claim(number + 1, count - 1);
    }
    found.overflow += count;
    content.resize(how_->header + node.data_size);
    source_.read(number * page_size_, content);
    return content;
}

void file_reader::read_duplicates(const tree& of, const leaf_node& node, const item_function& item, counts& found) {
    const std::string where = "the duplicates of a key";
    std::uint64_t passed = 0;
    const node_function pass = [&](const leaf_node& one, counts& inner) {
        item(text_of(node.key), text_of(one.key));
        ++inner.items;
        ++passed;
    };
    counts inner;
    if ((node.flags & node_flag::subdatabase) != 0) {
        if (node.data.size() != tree_record) {
            damaged(where, "the record of their tree has another size");
        }
        const tree own = load_tree(node.data);
        inner = walk(own, where, pass);
        compare_counts(own, inner, where);
        found.branches_of_duplicates += inner.branches;
        found.leaves_of_duplicates += inner.leaves;
    } else {
        if (node.data.size() < how_->header) {
            damaged(where, "their page is too small");
        }
        const page_view small{node.data, *how_};
        const unsigned kind = small.kind();
        if (kind == (page_flag::leaf | page_flag::leaf2 | page_flag::subpage)) {
            walk_leaf2(small, small.item_size(), where, inner, pass);
        } else if (kind == (page_flag::leaf | page_flag::subpage)) {
            for (const std::size_t offset : slots_of(small, false, where)) {
                pass(node_at(small, offset, where), inner);
            }
        } else {
            damaged(where, "their page is of another kind");
        }
    }
    if ((of.flags & database_flag::duplicates) == 0) {
        damaged(where, "the database has none");
    }
    found.items += passed;
}

void file_reader::read_node(const tree& of, const leaf_node& node, const item_function& item, counts& found) {
    if ((node.flags & node_flag::duplicates) != 0) {
        read_duplicates(of, node, item, found);
        return;
    }
    ++found.items;
    if ((node.flags & node_flag::big) != 0) {
        const page content = read_big(node, found);
        item(text_of(node.key), text_of(bytes(content).subspan(how_->header)));
    } else {
        item(text_of(node.key), text_of(node.data));
    }
}

void file_reader::read_main(const item_function& record,
                            const std::function<void(std::string_view, const tree&)>& database) {
    const std::string what = "the unnamed database";
    const tree of = meta_.main;
    const counts all = walk(of, what, [&](const leaf_node& node, counts& found) {
        if ((node.flags & (node_flag::subdatabase | node_flag::duplicates)) != node_flag::subdatabase) {
            read_node(of, node, record, found);
            return;
        }
        if (node.data.size() != tree_record) {
            damaged(what, "the record of a database has another size");
        }
        ++found.items;
        std::string_view name = text_of(node.key);
        if (how_->version != version_of_0_9 && name.ends_with('\0')) {
            name.remove_suffix(1);  // from version 2 on it ends as a string of C
        }
        database(name, load_tree(node.data));
    });
    compare_counts(of, all, what);
}

void file_reader::read_database(const tree& of, const item_function& item) {
    const counts all = walk(of, "a named database", [&](const leaf_node& node, counts& found) {
        if ((node.flags & (node_flag::subdatabase | node_flag::duplicates)) == node_flag::subdatabase) {
            damaged("a named database", "it names others");
        }
        read_node(of, node, item, found);
    });
    compare_counts(of, all, "a named database");
}

void file_reader::check_free_pages() {
    const std::string what = "the list of free pages";
    std::vector<bool> free(claimed_.size());
    std::vector<std::vector<std::byte>> lists;
    const tree of = meta_.free_pages;
    const counts all = walk(of, what, [&](const leaf_node& node, counts& found) {
        ++found.items;
        if ((node.flags & ~node_flag::big) != 0) {
            damaged(what, "a record is no list");
        }
        if ((node.flags & node_flag::big) != 0) {
            const page content = read_big(node, found);
            lists.emplace_back(content.begin() + static_cast<std::ptrdiff_t>(how_->header), content.end());
        } else {
            lists.emplace_back(node.data.begin(), node.data.end());
        }
    });
    compare_counts(of, all, what);
    for (const auto& list : lists) {
        const std::size_t room = list.size() / sizeof(std::uint64_t);
        if (room == 0 || load<std::uint64_t>(list, 0) > room - 1) {
            damaged(what, "a list is longer than its record");
        }
        const auto count = load<std::uint64_t>(list, 0);
        for (std::size_t i = 1; i <= count; ++i) {
            const auto number = load<std::uint64_t>(list, i * sizeof(std::uint64_t));
            if (number < first_data_page || number > meta_.last_page) {
                damaged(what, "it has page " + std::to_string(number) + ", which the file has not");
            }
            if (number < claimed_.size()) {
                if (claimed_[number] || free[number]) {
                    damaged(what, "it has page " + std::to_string(number) + ", which is in use or there twice");
                }
                free[number] = true;
            }
        }
    }
    std::uint64_t lost = 0;
    for (std::uint64_t number = first_data_page; number < claimed_.size(); ++number) {
        lost += !claimed_[number] && !free[number] ? 1U : 0U;
    }
    if (lost != 0) {
        warnings_.push_back(std::to_string(lost) + " pages are neither in use nor free");
    }
}

}  // namespace holdfast_lmdb_file
