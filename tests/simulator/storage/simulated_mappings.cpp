// What programs store to mappings of files, and sync there.
#include <algorithm>

#include "simulator/storage/simulated_storage.hpp"

namespace holdfast::simulator {
namespace {

constexpr std::uint64_t page_size = sparse_content::page_size;

}  // namespace

void simulated_storage::sync_range(node_id id, std::uint64_t offset, std::uint64_t length, bool works) {
    if (in_peace_) {
        return;
    }
    node& of = nodes_[id];
    const std::uint64_t begin = offset / page_size * page_size;
    const std::uint64_t end = (offset + length + page_size - 1) / page_size * page_size;
    const auto is_inside = [&](const atom& one) { return begin <= one.offset && one.offset < end; };
    sparse_content& durable = writable(of.durable);
    if (of.has_lost && works) {
        durable.resize(of.now->size());  // as sync()
    }
    std::vector<change> rest;
    for (change& one : of.pending) {
        const bool is_size = one.what == change::kind::grow || one.what == change::kind::set_size;
        std::vector<outcome> chosen(one.atoms.size(), 1);
        if (is_size) {
            apply(durable, one, chosen);
            continue;
        }
        std::ranges::transform(one.atoms, chosen.begin(), [&](const atom& each) { return is_inside(each) ? 1 : 0; });
        if (works) {
            apply(durable, one, chosen);
        }
        of.has_lost = of.has_lost || (!works && std::ranges::find(chosen, 1) != chosen.end());
        std::erase_if(one.atoms, is_inside);
        if (!one.atoms.empty()) {
            rest.push_back(std::move(one));
        }
    }
    // What was cut off does not come back with a later growth.
    const std::uint64_t size = of.now->size();
    for (change& one : rest) {
        std::erase_if(one.atoms, [&](const atom& each) { return each.offset >= size; });
    }
    std::erase_if(rest, [](const change& one) { return one.atoms.empty(); });
    of.pending = std::move(rest);
}

// A change of which a part is flushed becomes two, which touch no byte in common. A store to a page that was a hole has
// made the hole durable before it succeeded, and what the page had before is nowhere.
void simulated_storage::flush_range(node_id id, std::uint64_t offset, std::uint64_t length) {
    constexpr std::uint64_t line = 64;
    const std::uint64_t begin = offset / line * line;
    const std::uint64_t end = (offset + length + line - 1) / line * line;
    const auto is_outside = [&](const atom& one) { return one.offset + one.length <= begin || end <= one.offset; };
    std::vector<change> divided;
    const auto end_before_hole = [&](const atom& hole) {
        for (change& before : divided) {
            std::erase_if(before.atoms, [&](const atom& one) {
                return one.length != 0 && hole.offset <= one.offset && one.offset < hole.offset + hole.length;
            });
        }
    };
    for (change& one : nodes_[id].pending) {
        const bool is_size = one.what == change::kind::grow || one.what == change::kind::set_size;
        for (const atom& each : one.atoms) {
            if (one.what == change::kind::zero && !one.is_flushed && !is_outside(each)) {
                end_before_hole(each);
            }
        }
        if (!is_size && std::ranges::none_of(one.atoms, is_outside)) {
            one.is_flushed = true;
        } else if (!is_size && !one.is_flushed && !std::ranges::all_of(one.atoms, is_outside)) {
            change inside = one;
            inside.is_flushed = true;
            std::erase_if(inside.atoms, is_outside);
            std::erase_if(one.atoms, [&](const atom& each) { return !is_outside(each); });
            divided.push_back(std::move(inside));
        }
        divided.push_back(std::move(one));
    }
    std::erase_if(divided, [](const change& one) { return one.atoms.empty(); });
    nodes_[id].pending = std::move(divided);
}

void simulated_storage::fence(node_id id) {
    node& of = nodes_[id];
    for (const change& one : of.pending) {
        if (one.is_flushed) {
            const std::vector<outcome> all(one.atoms.size(), 1);
            apply(writable(of.durable), one, all);
        }
    }
    std::erase_if(of.pending, [](const change& one) { return one.is_flushed; });
    const std::uint64_t size = of.now->size();  // as sync_range()
    for (change& one : of.pending) {
        std::erase_if(one.atoms, [&](const atom& each) { return each.length != 0 && each.offset >= size; });
    }
    std::erase_if(of.pending, [](const change& one) { return one.atoms.empty(); });
}

void simulated_storage::see(const std::string& path, std::span<const std::byte> content, persist::site where) {
    const node_id* const id = find(normal_path(path));
    if (id == nullptr) {
        return;
    }
    const std::uint64_t size = std::min<std::uint64_t>(content.size(), nodes_[*id].now->size());
    bool any = false;
    for (std::uint64_t at = 0; at < size; at += page_size) {
        const auto page = content.subspan(at, std::min(page_size, size - at));
        if (!nodes_[*id].now->equals(at, page)) {
            write(*id, at, page);
            any = true;
        }
    }
    if (any) {
        done(where);
    }
}

}  // namespace holdfast::simulator
