#include "store/check.hpp"

#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "store/page_checksum.hpp"
#include "store/transaction.hpp"

namespace holdfast::store_engine {
namespace {

// Walks a tree with all that hangs on it.
class checker {
public:
    /// `found`, unless null, gets the pages of the trees, in no order; `told` how many were looked at, as it goes.
    checker(environment& env, transaction_pages& pages, std::uint64_t next_page, std::size_t* told,
            std::vector<hf_lmdb_extent>* found = nullptr) noexcept
        : env_(env), pages_(pages), next_page_(next_page), told_(told), found_(found) {}

    [[nodiscard]] status check_tree(const tree_record& record, const order& keys, const order& values, unsigned nested);
    [[nodiscard]] const std::unordered_set<std::uint64_t>& seen() const noexcept { return seen_; }

private:
    struct tally {
        const tree_record& record;
        const order& keys;
        const order& values;
        unsigned nested;
        std::uint64_t entries = 0;
        std::uint64_t branch_pages = 0;
        std::uint64_t leaf_pages = 0;
        std::uint64_t long_pages = 0;
        std::uint64_t birth = ~std::uint64_t{0};  ///< of the page above
        std::string last_key;
        bool has_last = false;
    };
    [[nodiscard]] status inspect(std::uint64_t number, const page_header*& page);
    [[nodiscard]] status inspect_key(tally& sums, const block_header& block, unsigned index, std::string_view& key);
    [[nodiscard]] status check_page(tally& sums, std::uint64_t number, unsigned depth);
    [[nodiscard]] status check_leaf(tally& sums, const page_header& page);
    [[nodiscard]] status check_value(tally& sums, const block_header& block, unsigned index, std::string_view key);
    [[nodiscard]] status check_named(std::string_view name, const tree_record& record);
    [[nodiscard]] static bool in_order(tally& sums, std::string_view key);

    environment& env_;
    transaction_pages& pages_;
    std::uint64_t next_page_;
    std::size_t* told_;
    std::vector<hf_lmdb_extent>* found_;
    std::unordered_set<std::uint64_t> seen_;
};

hf_lmdb_extent extent_of(std::uint64_t number, const page_header& page) noexcept {
    hf_lmdb_extent one{
        .page = number, .pages = page.run_pages, .backed_pages = 0, .kind = HF_LMDB_LONG, .used_bytes = 0};
    if (page.block.kind == page_kind::branch) {
        one.kind = HF_LMDB_BRANCH;
    } else if (page.block.kind != page_kind::run) {
        one.kind = HF_LMDB_LEAF;
        one.used_bytes = static_cast<std::uint32_t>(page_size - std::min(page_size, free_bytes(page.block)));
    }
    return one;
}

status checker::inspect(std::uint64_t number, const page_header*& page) {
    HF_STORE_TRY(pages_.get(number, page));
    // Its first use may be long ago: looks at the medium again, as far as the system's cache lets it.
    if (page->run_pages > next_page_ - number || page->checksum != page_checksum(*page, number)) {
        return status::corrupted;
    }
    for (std::uint32_t i = 0; i < page->run_pages; ++i) {
        if (!seen_.insert(number + i).second) {
            return status::corrupted;
        }
    }
    if (told_ != nullptr) {
        std::atomic_ref(*told_).fetch_add(page->run_pages, std::memory_order_relaxed);
    }
    if (found_ != nullptr) {
        found_->push_back(extent_of(number, *page));
    }
    return status::ok;
}

// Of an entry; the run of a long key is used here alone.
status checker::inspect_key(tally& sums, const block_header& block, unsigned index, std::string_view& key) {
    HF_STORE_TRY(read_key(pages_, block, index, key));
    const stored_key stored = stored_key_at(block, index);
    if (!stored.is_long) {
        return status::ok;
    }
    if (sums.nested == most_nested) {
        return status::corrupted;  // no value of many is so long
    }
    const page_header* run = nullptr;
    HF_STORE_TRY(inspect(long_key_from(stored.text).where.page, run));
    sums.long_pages += run->run_pages;
    return status::ok;
}

bool checker::in_order(tally& sums, std::string_view key) {
    const bool good = !sums.has_last || compare(sums.keys, sums.last_key, key) < 0;
    sums.last_key = key;
    sums.has_last = true;
    return good;
}

status checker::check_tree(const tree_record& record, const order& keys, const order& values, unsigned nested) {
    tally sums{.record = record, .keys = keys, .values = values, .nested = nested, .last_key = {}};
    if (nested > most_nested || record.depth > max_depth || (record.root == 0) != (record.depth == 0) ||
        (record.item_size != 0 && nested != most_nested)) {
        return status::corrupted;
    }
    if (record.root != 0) {
        HF_STORE_TRY(check_page(sums, record.root, 1));
    }
    return sums.entries == record.entries && sums.branch_pages == record.branch_pages &&
                   sums.leaf_pages == record.leaf_pages && sums.long_pages == record.long_pages
               ? status::ok
               : status::corrupted;
}

status checker::check_page(tally& sums, std::uint64_t number, unsigned depth) {
    const page_header* page = nullptr;
    HF_STORE_TRY(inspect(number, page));
    const block_header& block = page->block;
    if (block.kind == page_kind::run || block.count == 0 || page->birth > sums.birth) {
        return status::corrupted;
    }
    if (depth >= sums.record.depth) {
        ++sums.leaf_pages;
        return block.kind == page_kind::branch || block.item_size != sums.record.item_size ? status::corrupted
                                                                                           : check_leaf(sums, *page);
    }
    if (block.kind != page_kind::branch) {
        return status::corrupted;
    }
    ++sums.branch_pages;
    for (unsigned i = 0; i < block.count; ++i) {
        if (i > 0) {
            std::string_view separator;
            HF_STORE_TRY(inspect_key(sums, block, i, separator));
            // A separator is above all keys on its left, and not above any on its right.
            if (sums.has_last && compare(sums.keys, sums.last_key, separator) >= 0) {
                return status::corrupted;
            }
            sums.last_key = separator;
            sums.has_last = false;
        }
        const std::uint64_t before = sums.entries;
        sums.birth = page->birth;
        HF_STORE_TRY(check_page(sums, child_at(block, i), depth + 1));
        if (sums.entries == before) {
            return status::corrupted;
        }
    }
    return status::ok;
}

status checker::check_leaf(tally& sums, const page_header& page) {
    const block_header& block = page.block;
    sums.birth = page.birth;
    for (unsigned i = 0; i < block.count; ++i) {
        std::string_view key;
        HF_STORE_TRY(inspect_key(sums, block, i, key));
        // A separator that led here is in last_key.
        if (!sums.has_last && !sums.last_key.empty() && compare(sums.keys, sums.last_key, key) > 0) {
            return status::corrupted;
        }
        if (!in_order(sums, key)) {
            return status::corrupted;
        }
        HF_STORE_TRY(check_value(sums, block, i, key));
    }
    return status::ok;
}

status checker::check_value(tally& sums, const block_header& block, unsigned index, std::string_view key) {
    const std::uint16_t flags = flags_at(block, index);
    if ((flags & node_has_many) != 0 && (sums.record.flags & MDB_DUPSORT) == 0) {
        return status::corrupted;
    }
    if ((flags & node_is_tree) != 0) {
        const tree_record inner = record_from(value_at(block, index));
        if ((flags & node_has_many) == 0) {
            ++sums.entries;
            return sums.nested == 0 ? check_named(key, inner) : status::corrupted;
        }
        sums.entries += inner.entries;
        return check_tree(inner, sums.values, sums.values, most_nested);
    }
    if ((flags & node_has_many) != 0) {
        const block_header& few = block_at(block, index);
        for (unsigned i = 1; i < few.count; ++i) {
            if (compare(sums.values, key_at(few, i - 1), key_at(few, i)) >= 0) {
                return status::corrupted;
            }
        }
        sums.entries += few.count;
        return status::ok;
    }
    ++sums.entries;
    if ((flags & node_is_long) != 0) {
        const long_value where = long_value_from(value_at(block, index));
        const page_header* run = nullptr;
        HF_STORE_TRY(inspect(where.page, run));
        sums.long_pages += run->run_pages;
        return run->block.kind == page_kind::run && run->birth <= sums.birth &&
                       run_pages_for(where.size) == run->run_pages
                   ? status::ok
                   : status::corrupted;
    }
    return status::ok;
}

status checker::check_named(std::string_view name, const tree_record& record) {
    MDB_cmp_func* compare_keys = nullptr;
    MDB_cmp_func* compare_values = nullptr;
    {
        const std::lock_guard guard(env_.handle_mutex());
        for (MDB_dbi i = first_named; i < env_.handle_count(); ++i) {
            if (env_.handle(i).open && env_.handle(i).name == name) {
                compare_keys = env_.handle(i).compare;
                compare_values = env_.handle(i).compare_values;
            }
        }
    }
    const order keys = order_of_keys(record.flags, compare_keys);
    const order values = order_of_values(record.flags, compare_values);
    return check_tree(record, keys, values, 1);
}

// Calls `look` while the list of free pages is that of the last version; for a reader, unless there is a writer, or
// what lies there is not the last version.
template <class Look>
status at_free_pages(environment& env, Look look) {
    engine& store = env.store();
    const bool reads = env.has(MDB_RDONLY);
    if (reads && (store.pages().shared().is_private() || store.pages().shared().header().unreplayed.load() != 0)) {
        return status::ok;
    }
    shared_lock lock;
    write_set changes;
    const status begun = store.begin_write(lock, changes, reads ? lock_mode::tries : lock_mode::waits);
    if (begun != status::ok) {
        const bool is_written = begun == from_errno(EDEADLK) || (reads && begun == from_errno(EBUSY));
        return is_written ? status::ok : begun;
    }
    try {
        look(store.free_pages());
    } catch (...) {
        store.roll_back(changes, lock);
        throw;
    }
    store.roll_back(changes, lock);
    return status::ok;
}

// What a reader of this version sees cannot be free.
status check_free_pages(environment& env, const std::unordered_set<std::uint64_t>& seen, std::uint64_t version) {
    bool sound = true;
    HF_STORE_TRY(at_free_pages(env, [&](const free_space& free) {
        for (const std::uint64_t page : seen) {
            sound = sound && !free.is_free_in(page, version);
        }
    }));
    return sound ? status::ok : status::corrupted;
}

// Joins extents of one kind; leaves stay apart, for each has its own fill.
void append(std::vector<hf_lmdb_extent>& to, const hf_lmdb_extent& one) {
    if (!to.empty() && to.back().kind == one.kind && one.kind != HF_LMDB_LEAF) {
        to.back().pages += one.pages;
    } else {
        to.push_back(one);
    }
}

void append_unused(std::vector<hf_lmdb_extent>& to, std::uint64_t from, std::uint64_t end,
                   const std::vector<bool>& ready) {
    for (std::uint64_t page = from; page < end; ++page) {
        const bool is_free = page >= ready.size() || ready[page];
        append(to, {.page = page,
                    .pages = 1,
                    .backed_pages = 0,
                    .kind = is_free ? HF_LMDB_FREE : HF_LMDB_OLD,
                    .used_bytes = 0});
    }
}

void count_backed(const data_file& file, std::uint64_t end, std::vector<hf_lmdb_extent>& all) {
    std::uint64_t hole = 0;
    std::uint64_t hole_end = 0;
    const auto next = [&] {
        std::uint64_t count = 0;
        const bool found = file.find_hole(hole_end, end, hole, count);
        hole = found ? hole : end;
        hole_end = found ? hole + count : end;
    };
    next();
    for (hf_lmdb_extent& one : all) {
        const std::uint64_t behind = one.page + one.pages;
        one.backed_pages = one.pages;
        while (hole < behind && hole < end) {
            one.backed_pages -= std::min(behind, hole_end) - std::max(one.page, hole);
            if (hole_end > behind) {
                break;  // it goes on in the next extent
            }
            next();
        }
    }
}

}  // namespace

status check_store(environment& env, std::size_t* pages) {
    std::unique_ptr<transaction> reader;
    HF_STORE_TRY(transaction::begin(env, nullptr, MDB_RDONLY, reader));
    const root version = reader->version();
    if (pages != nullptr) {
        std::atomic_ref(*pages).store(0, std::memory_order_relaxed);
    }
    checker walk(env, reader->pages(), version.next_page, pages);
    const database_handle& handle = env.handle(main_database);
    HF_STORE_TRY(walk.check_tree(version.main, order_of_keys(version.main.flags, handle.compare),
                                 order_of_values(version.main.flags, handle.compare_values), 0));
    return check_free_pages(env, walk.seen(), version.transaction);
}

status map_store(environment& env, std::vector<hf_lmdb_extent>& all) {
    std::unique_ptr<transaction> reader;
    HF_STORE_TRY(transaction::begin(env, nullptr, MDB_RDONLY, reader));
    const root version = reader->version();
    std::vector<hf_lmdb_extent> found;
    checker walk(env, reader->pages(), version.next_page, nullptr, &found);
    const database_handle& handle = env.handle(main_database);
    HF_STORE_TRY(walk.check_tree(version.main, order_of_keys(version.main.flags, handle.compare),
                                 order_of_values(version.main.flags, handle.compare_values), 0));
    const shared_header& header = env.store().pages().shared().header();
    found.push_back({.page = 0, .pages = meta_pages, .backed_pages = 0, .kind = HF_LMDB_META, .used_bytes = 0});
    if (const std::uint64_t pages = header.log_pages.load(); pages != 0) {
        found.push_back(
            {.page = header.log_page.load(), .pages = pages, .backed_pages = 0, .kind = HF_LMDB_LOG, .used_bytes = 0});
    }
    std::ranges::sort(found, {}, &hf_lmdb_extent::page);
    std::vector<bool> ready(version.next_page);
    HF_STORE_TRY(at_free_pages(env, [&](const free_space& free) {
        for (std::uint64_t page = 0; page < ready.size(); ++page) {
            ready[page] = free.is_ready(page);
        }
    }));
    const data_file& file = env.store().pages().file();
    const std::uint64_t end = std::max({file.pages(), version.next_page, file.pages_with_rest()});
    std::uint64_t next = 0;
    for (const hf_lmdb_extent& one : found) {
        if (one.page < next || one.pages > end - one.page) {
            continue;
        }
        append_unused(all, next, one.page, ready);
        append(all, one);
        next = one.page + one.pages;
    }
    append_unused(all, next, end, ready);
    count_backed(file, end, all);
    return status::ok;
}

}  // namespace holdfast::store_engine
