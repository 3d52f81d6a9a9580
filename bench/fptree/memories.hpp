// What the FPTree's blocks and leaves come from.
#pragma once

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "allocators/pmemobj_functions.hpp"

namespace fptree {

/// In durability `atomic`, domain `emulated`.
class holdfast_memory {
public:
    static constexpr const char* name = "holdfast";
    template <class T>
    using link = holdfast::ptr<T>;

    holdfast_memory(const std::filesystem::path& directory, std::uint64_t bytes)
        : path_((directory / "fptree.hf").string()) {
        heap_.emplace(holdfast::create_only, path_, static_cast<std::size_t>(bytes));
    }
    template <class T>
    T* make_roots(std::size_t count) {
        heap_->construct<T>("roots")[count]();
        heap_->close(true);
        holdfast::open_options options;
        options.durability = holdfast::durability::atomic;
        options.domain = holdfast::open_options::domain_choice::emulated;
        options.commit_on_close = false;
        heap_.emplace(holdfast::open_only, path_, options);
        return heap_->find<T>("roots").first;
    }
    template <class T>
    void allocate(link<T>& destination, std::size_t bytes) {
        heap_->allocate_to(destination, bytes);
    }
    template <class T>
    void release(link<T>& destination) {
        heap_->free_from(destination);
    }
    template <class T>
    [[nodiscard]] static T* target(const link<T>& of) noexcept {
        return of.get();
    }
    template <class T>
    static void lead_to(link<T>& changed, T* target) noexcept {
        changed = target;
    }
    template <class T>
    static void assign(link<T>& to, const link<T>& from) noexcept {
        to = from;
    }
    template <class T>
    static void clear(link<T>& changed) noexcept {
        changed = nullptr;
    }
    void persist(const void* begin, std::size_t bytes) const noexcept { heap_->persist(begin, bytes); }
    void check() const {
        if (!heap_->check_sanity()) {
            throw std::logic_error("the heap fails its own check after the benchmark");
        }
    }

private:
    std::string path_;
    std::optional<holdfast::manager> heap_;
};

/// Where the tree writes nothing back, and the allocator all: what is missing to holdfast_memory are the tree's
/// flushes.
class holdfast_alone : public holdfast_memory {
public:
    static constexpr const char* name = "holdfast, the tree unflushed";
    using holdfast_memory::holdfast_memory;
    static void persist(const void* /*begin*/, std::size_t /*bytes*/) noexcept {}
};

/// malloc, and nothing is written back: what the tree itself takes.
class ordinary_memory {
public:
    static constexpr const char* name = "malloc";
    template <class T>
    struct link {
        T* to = nullptr;
    };

    ordinary_memory(const std::filesystem::path& /*directory*/, std::uint64_t /*bytes*/) {}
    template <class T>
    T* make_roots(std::size_t count) {
        return static_cast<T*>(std::calloc(count, sizeof(T)));
    }
    template <class T>
    static void allocate(link<T>& destination, std::size_t bytes) {
        destination.to = static_cast<T*>(std::malloc(bytes));
        if (destination.to == nullptr) {
            throw std::bad_alloc();
        }
    }
    template <class T>
    static void release(link<T>& destination) {
        std::free(destination.to);
        destination.to = nullptr;
    }
    template <class T>
    [[nodiscard]] static T* target(const link<T>& of) noexcept {
        return of.to;
    }
    template <class T>
    static void lead_to(link<T>& changed, T* target) noexcept {
        changed.to = target;
    }
    template <class T>
    static void assign(link<T>& to, const link<T>& from) noexcept {
        to = from;
    }
    template <class T>
    static void clear(link<T>& changed) noexcept {
        changed.to = nullptr;
    }
    static void persist(const void* /*begin*/, std::size_t /*bytes*/) noexcept {}
    static void check() noexcept {}
};

#if HOLDFAST_BENCH_HAS_PMEMOBJ

/// With flushes and fences forced.
class libpmemobj_memory {
public:
    static constexpr const char* name = "libpmemobj";
    template <class T>
    struct link {
        PMEMoid to{};
    };

    libpmemobj_memory(const std::filesystem::path& directory, std::uint64_t bytes)
        : library_(load()),
          functions_(library_),
          persist_(library_.find<void(PMEMobjpool*, const void*, std::size_t)>("pmemobj_persist")),
          pool_(functions_.create((directory / "fptree.pool").c_str(), "fptree_bench", bytes, 0600)) {
        if (pool_ == nullptr) {
            throw std::runtime_error(fmt::format("pmemobj_create: {}", functions_.error_message()));
        }
    }
    libpmemobj_memory(const libpmemobj_memory&) = delete;
    libpmemobj_memory& operator=(const libpmemobj_memory&) = delete;
    ~libpmemobj_memory() { functions_.close(pool_); }

    template <class T>
    T* make_roots(std::size_t count) {
        const PMEMoid root = functions_.root(pool_, count * sizeof(T));
        uuid_ = root.pool_uuid_lo;
        return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(pool_) + root.off);
    }
    template <class T>
    void allocate(link<T>& destination, std::size_t bytes) {
        if (functions_.allocate(pool_, &destination.to, bytes, 1, nullptr, nullptr) != 0) {
            throw std::bad_alloc();
        }
    }
    template <class T>
    void release(link<T>& destination) {
        functions_.release(&destination.to);
    }
    template <class T>
    [[nodiscard]] T* target(const link<T>& of) const noexcept {
        return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(pool_) + of.to.off);
    }
    template <class T>
    void lead_to(link<T>& changed, T* target) const noexcept {
        changed.to = {uuid_, static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(target) -
                                                        reinterpret_cast<std::byte*>(pool_))};
    }
    template <class T>
    static void assign(link<T>& to, const link<T>& from) noexcept {
        to = from;
    }
    template <class T>
    static void clear(link<T>& changed) noexcept {
        changed.to = {};
    }
    void persist(const void* begin, std::size_t bytes) const noexcept { persist_(pool_, begin, bytes); }
    static void check() noexcept {}

private:
    static bench::shared_library load() {
        ::setenv("PMEM_IS_PMEM_FORCE", "1", 1);
        return {"libpmemobj.so.1", "libpmemobj-dev"};
    }

    bench::shared_library library_;
    bench::pmemobj_functions functions_;
    void (*persist_)(PMEMobjpool*, const void*, std::size_t);
    PMEMobjpool* pool_;
    std::uint64_t uuid_ = 0;
};

#endif

}  // namespace fptree
