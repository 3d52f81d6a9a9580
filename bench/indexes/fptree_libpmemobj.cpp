// An FPTree as its paper has it (I. Oukid et al., SIGMOD 2016, algorithms 2 to 4): an entry, its fingerprint and the
// bitmap are each flushed and fenced; a split logs the leaf, copies it to a new one that pmemobj_alloc makes, and
// changes both bitmaps. One thread. An open makes the inner nodes anew from the chain of leaves.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "allocators/pmemobj_functions.hpp"
#include "allocators/runner.hpp"
#include "indexes/backend.hpp"
#include "indexes/dram_map.hpp"
#include "support/random.hpp"

namespace indexes {

#if HOLDFAST_BENCH_HAS_PMEMOBJ

namespace {

constexpr std::size_t slots = 56;  // so that fingerprints and bitmap fill a line

struct entry {
    std::uint64_t key;
    std::uint64_t value;
};
struct leaf {
    std::uint8_t prints[slots];
    std::uint64_t bitmap;
    entry entries[slots];
    PMEMoid next;
};
struct root {
    PMEMoid first;
    PMEMoid split;  // the micro log: the leaf that is split, and the new one
    PMEMoid made;
};

/// Emulated: with flushes forced. Without, the library calls msync for each on files without DAX, which a disk needs.
bench::shared_library load_library(const std::string& domain) {
    if (domain != "emulated" && domain != "disk") {
        throw bench::backend_unavailable("it is measured in the domains emulated and disk");
    }
    ::setenv("PMEM_IS_PMEM_FORCE", domain == "emulated" ? "1" : "0", 1);
    return {"libpmemobj.so.1", "libpmemobj-dev"};
}

class fptree final : public backend {
public:
    fptree(const bench::allocation_run& run, std::uint64_t entries)
        : path_((std::filesystem::path(run.directory) / "fptree.pool").string()),
          domain_(run.domain),
          library_(load_library(run.domain)),
          functions_(library_),
          open_(library_.find<PMEMobjpool*(const char*, const char*)>("pmemobj_open")),
          persist_(library_.find<void(PMEMobjpool*, const void*, std::size_t)>("pmemobj_persist")) {
        use(functions_.create(path_.c_str(), layout, (std::size_t{64} << 20U) + entries * 64, 0600));
        inner_.emplace(0, make_leaf(root_->first));
    }
    ~fptree() override {
        if (pool_ != nullptr) {
            functions_.close(pool_);
        }
    }

    std::string durability() const override { return "atomic"; }
    std::string domain() const override { return domain_; }
    bool insert(std::uint64_t key, std::uint64_t value) override {
        leaf* to = leaf_of(key);
        if (slot_of(*to, key) != slots) {
            return false;
        }
        if (std::popcount(to->bitmap) == slots) {
            split(*to);
            to = leaf_of(key);
        }
        put(*to, key, value, to->bitmap);
        return true;
    }
    /// In another slot, so that one store of the bitmap changes the value.
    bool update(std::uint64_t key, std::uint64_t value) override {
        leaf* to = leaf_of(key);
        if (slot_of(*to, key) == slots) {
            return false;
        }
        if (std::popcount(to->bitmap) == slots) {
            split(*to);
            to = leaf_of(key);
        }
        put(*to, key, value, to->bitmap & ~(std::uint64_t{1} << slot_of(*to, key)));
        return true;
    }
    bool remove(std::uint64_t key) override {
        leaf* const from = leaf_of(key);
        const std::size_t slot = slot_of(*from, key);
        if (slot == slots) {
            return false;
        }
        from->bitmap &= ~(std::uint64_t{1} << slot);
        persist(from->bitmap);
        return true;
    }
    std::uint64_t find(std::uint64_t key) const override {
        const leaf* const in = leaf_of(key);
        const std::size_t slot = slot_of(*in, key);
        return slot == slots ? 0 : in->entries[slot].value;
    }
    std::uint64_t scan(std::uint64_t key, std::size_t count) const override {
        std::uint64_t sum = 0;
        for (auto at = std::prev(inner_.upper_bound(key)); at != inner_.end() && count > 0; ++at) {
            std::array<entry, slots> sorted;
            std::size_t some = 0;
            for (std::uint64_t bits = at->second->bitmap; bits != 0; bits &= bits - 1) {
                const entry& each = at->second->entries[std::countr_zero(bits)];
                if (each.key >= key) {
                    sorted[some++] = each;
                }
            }
            const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(some);
            std::sort(sorted.begin(), end, [](const entry& a, const entry& b) { return a.key < b.key; });
            for (std::size_t i = 0; i < some && count > 0; ++i, --count) {
                sum += sorted[i].value;
            }
        }
        return sum;
    }
    open_times open_again() override {
        inner_.clear();
        functions_.close(pool_);
        pool_ = nullptr;
        use(open_(path_.c_str(), layout));
        const std::int64_t cpu = bench::clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        const std::int64_t start = bench::clock_ns(CLOCK_MONOTONIC);
        find_leaves();
        const std::int64_t end = bench::clock_ns(CLOCK_MONOTONIC);
        return {static_cast<double>(end - start), static_cast<double>(bench::clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu)};
    }

private:
    static constexpr const char* layout = "fptree";

    void use(PMEMobjpool* pool) {
        if (pool == nullptr) {
            throw std::runtime_error(fmt::format("libpmemobj: {}", functions_.error_message()));
        }
        pool_ = pool;
        root_ = at<root>(functions_.root(pool_, sizeof(root)));
    }
    /// By the smallest key of each leaf with entries; the first takes all smaller ones.
    void find_leaves() {
        for (PMEMoid next = root_->first; next.off != 0;) {
            leaf* const each = at<leaf>(next);
            std::uint64_t low = ~std::uint64_t{0};
            for (std::uint64_t bits = each->bitmap; bits != 0; bits &= bits - 1) {
                low = std::min(low, each->entries[std::countr_zero(bits)].key);
            }
            if (inner_.empty() || each->bitmap != 0) {
                inner_.emplace_hint(inner_.end(), inner_.empty() ? 0 : low, each);
            }
            next = each->next;
        }
    }
    template <class T>
    [[nodiscard]] T* at(PMEMoid place) const noexcept {
        return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(pool_) + place.off);
    }
    template <class T>
    void persist(const T& what) const {
        persist_(pool_, &what, sizeof what);
    }
    [[nodiscard]] static std::uint8_t print_of(std::uint64_t key) noexcept {
        return static_cast<std::uint8_t>(bench::mix(key));
    }
    [[nodiscard]] leaf* leaf_of(std::uint64_t key) const { return std::prev(inner_.upper_bound(key))->second; }
    /// Eight fingerprints at a time, as the index beside it compares them.
    [[nodiscard]] static std::size_t slot_of(const leaf& in, std::uint64_t key) noexcept {
        constexpr std::uint64_t low = 0x7f7f'7f7f'7f7f'7f7fU;
        for (std::size_t i = 0; i < slots; i += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, &in.prints[i], sizeof word);
            word ^= print_of(key) * 0x0101'0101'0101'0101U;
            for (std::uint64_t found = ~(((word & low) + low) | word | low); found != 0; found &= found - 1) {
                const std::size_t slot = i + static_cast<std::size_t>(std::countr_zero(found)) / 8;
                if ((in.bitmap >> slot & 1U) != 0 && in.entries[slot].key == key) {
                    return slot;
                }
            }
        }
        return slots;
    }
    void put(leaf& to, std::uint64_t key, std::uint64_t value, std::uint64_t bits) {
        const auto slot = static_cast<std::size_t>(std::countr_one(to.bitmap));
        to.entries[slot] = {key, value};
        persist(to.entries[slot]);
        to.prints[slot] = print_of(key);
        persist(to.prints[slot]);
        to.bitmap = bits | std::uint64_t{1} << slot;
        persist(to.bitmap);
    }
    leaf* make_leaf(PMEMoid& destination) {
        if (functions_.allocate(pool_, &destination, sizeof(leaf), 1, nullptr, nullptr) != 0) {
            throw std::runtime_error(fmt::format("pmemobj_alloc: {}", functions_.error_message()));
        }
        leaf* const made = at<leaf>(destination);
        std::memset(static_cast<void*>(made), 0, sizeof *made);
        persist(*made);
        return made;
    }
    void split(leaf& full) {
        root_->split = {root_->first.pool_uuid_lo, static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(&full) -
                                                                              reinterpret_cast<std::byte*>(pool_))};
        persist(root_->split);
        leaf* const made = make_leaf(root_->made);
        *made = full;
        persist(*made);
        std::array<std::uint64_t, slots> keys;
        std::transform(std::begin(full.entries), std::end(full.entries), keys.begin(),
                       [](const entry& each) { return each.key; });
        std::nth_element(keys.begin(), keys.begin() + slots / 2, keys.end());
        std::uint64_t upper = 0;
        for (std::size_t i = 0; i < slots; ++i) {
            upper |= full.entries[i].key >= keys[slots / 2] ? std::uint64_t{1} << i : 0;
        }
        made->bitmap = upper;
        persist(made->bitmap);
        full.bitmap &= ~upper;
        persist(full.bitmap);
        full.next = root_->made;
        persist(full.next);
        root_->split = PMEMoid{0, 0};
        persist(root_->split);
        inner_.emplace(keys[slots / 2], made);
    }

    std::string path_;
    std::string domain_;
    bench::shared_library library_;
    bench::pmemobj_functions functions_;
    PMEMobjpool* (*open_)(const char*, const char*);
    void (*persist_)(PMEMobjpool*, const void*, std::size_t);
    PMEMobjpool* pool_ = nullptr;
    root* root_ = nullptr;
    dram_map<std::uint64_t, leaf*> inner_;
};

}  // namespace

std::unique_ptr<backend> make_fptree_libpmemobj(const bench::allocation_run& run, std::uint64_t entries) {
    return std::make_unique<fptree>(run, entries);
}

#else

std::unique_ptr<backend> make_fptree_libpmemobj(const bench::allocation_run& /*run*/, std::uint64_t /*entries*/) {
    throw bench::backend_unavailable("this build has no libpmemobj: install libpmemobj-dev and configure again");
}

#endif

}  // namespace indexes
