// Transactions of libpmemobj, as its examples write them: each object is added to the undo log before it is changed in
// place. Objects are found as pool + offset, which is what pmemobj_direct() computes.
#pragma once

#include "allocators/pmemobj_functions.hpp"
#include "transactions/backend.hpp"

#if HOLDFAST_BENCH_HAS_PMEMOBJ

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <new>

namespace transactions {

class pmem_pool {
public:
    /// Makes the pool, of so many bytes, whose root object has `root_size` bytes of zeros. Throws
    /// bench::backend_unavailable, and std::runtime_error where the pool cannot be made.
    pmem_pool(const std::filesystem::path& path, std::size_t size, std::size_t root_size, media on);
    pmem_pool(const pmem_pool&) = delete;
    pmem_pool& operator=(const pmem_pool&) = delete;
    ~pmem_pool();

    [[nodiscard]] void* root() const noexcept { return at<void>(root_); }
    template <class T>
    [[nodiscard]] T* at(PMEMoid place) const noexcept {
        return place.off == 0 ? nullptr : reinterpret_cast<T*>(reinterpret_cast<std::byte*>(pool_) + place.off);
    }
    [[nodiscard]] PMEMoid id_of(const void* object) const noexcept {
        return object == nullptr
                   ? PMEMoid{0, 0}
                   : PMEMoid{root_.pool_uuid_lo, static_cast<std::uint64_t>(static_cast<const std::byte*>(object) -
                                                                            reinterpret_cast<const std::byte*>(pool_))};
    }

    template <class Body>
    void transact(Body&& body) const {
        check(begin_(pool_, nullptr, TX_PARAM_NONE));
        body();
        commit_();
        check(end_());
    }
    // Within a transaction:

    /// The object, which may be changed from now on.
    template <class T>
    T& open(T& object) const {
        check(add_(&object, sizeof object));
        return object;
    }
    template <class T>
    void store(T& place, const T& value) const {
        open(place) = value;
    }
    /// What is made need not be opened.
    template <class T>
    [[nodiscard]] T* make(const T& value) const {
        return ::new (make_bytes<T>(sizeof(T))) T(value);
    }
    template <class T>
    [[nodiscard]] T* make_bytes(std::size_t bytes) const {
        return at<T>(allocate_(bytes, 1));
    }
    template <class T>
    [[nodiscard]] T* make_zeros(std::size_t bytes) const {
        return at<T>(allocate_zeros_(bytes, 1));
    }
    void free(const void* object) const { check(free_(id_of(object))); }

private:
    static void check(int error);

    bench::shared_library library_;
    bench::pmemobj_functions functions_;
    int (*begin_)(PMEMobjpool*, void*, int, ...);
    int (*add_)(const void*, std::size_t);
    PMEMoid (*allocate_)(std::size_t, std::uint64_t);
    PMEMoid (*allocate_zeros_)(std::size_t, std::uint64_t);
    int (*free_)(PMEMoid);
    void (*commit_)();
    int (*end_)();
    PMEMobjpool* pool_;
    PMEMoid root_{0, 0};
};

}  // namespace transactions

#endif
