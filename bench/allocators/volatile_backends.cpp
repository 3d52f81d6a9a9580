// jemalloc, mimalloc, the C library, and memkind on a file: they keep nothing. The address goes into the destination's
// word.
#include <cstdlib>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "allocators/runner.hpp"
#include "allocators/shared_library.hpp"
#include "allocators/volatile_memory.hpp"

namespace bench {

namespace {

struct malloc_functions {
    void* (*allocate)(std::size_t);
    void (*release)(void*);
};

/// Malloc: gives the functions, which are all called by a pointer.
template <malloc_functions (*Malloc)(const allocation_run&)>
class volatile_backend {
public:
    class worker : public one_by_one<worker> {
    public:
        using destination = void*;

        worker(volatile_backend& backend, unsigned /*thread*/) : functions_(backend.functions_) {}
        void allocate(destination& one, std::size_t size) {
            void* const block = functions_.allocate(size);
            if (block == nullptr) [[unlikely]] {
                throw std::bad_alloc();
            }
            one = block;
        }
        void release(destination& one) {
            functions_.release(one);
            one = nullptr;
        }
        [[nodiscard]] static bool is_null(const destination& one) noexcept { return one == nullptr; }
        [[nodiscard]] static void* block(const destination& one) noexcept { return one; }

    private:
        malloc_functions functions_;
    };

    explicit volatile_backend(const allocation_run& run)
        : functions_(Malloc(run)), destinations_(demand_of(run).destinations) {}
    [[nodiscard]] void** destinations() noexcept { return destinations_.first(); }
    [[nodiscard]] static std::string durability() { return "volatile"; }
    [[nodiscard]] static std::string domain() { return "none"; }
    [[nodiscard]] static protocol_totals totals() noexcept { return {}; }
    [[nodiscard]] static std::uint64_t charged_bytes() noexcept { return 0; }
    /// What it takes is memory.
    [[nodiscard]] static std::optional<std::uint64_t> settled_bytes() noexcept { return std::nullopt; }
    [[nodiscard]] static double finish() noexcept { return 0; }

private:
    malloc_functions functions_;
    volatile_destinations destinations_;
};

malloc_functions jemalloc(const allocation_run& /*run*/) {
    // Its variables of threads need more static room than the loader leaves: see comparison.cpp.
    const shared_library library("libjemalloc.so.2", "libjemalloc-dev");
    return {library.find<void*(std::size_t)>("malloc"), library.find<void(void*)>("free")};
}
malloc_functions mimalloc(const allocation_run& /*run*/) {
    const shared_library library("libmimalloc.so.2", "libmimalloc-dev");
    return {library.find<void*(std::size_t)>("mi_malloc"), library.find<void(void*)>("mi_free")};
}
malloc_functions glibc(const allocation_run& /*run*/) { return {&std::malloc, &std::free}; }

/// The kind for persistent memory: a file without a name on the directory's file system. One a process.
class memkind_kind {
public:
    static malloc_functions open(const allocation_run& run) {
        // Of Debian 12's (1.14) threads crash each other when one gives pages of the file back; this keeps them.
        ::setenv("MEMKIND_HOG_MEMORY", "1", 1);
        const shared_library library("libmemkind.so.0", "libmemkind-dev");
        allocate_function = library.find<void*(kind*, std::size_t)>("memkind_malloc");
        release_function = library.find<void(kind*, void*)>("memkind_free");
        auto* const create = library.find<int(const char*, std::size_t, kind**)>("memkind_create_pmem");
        constexpr std::size_t unlimited = 0;
        if (const int refused = create(run.directory.c_str(), unlimited, &opened); refused != 0) {
            throw std::runtime_error(fmt::format("memkind_create_pmem: {}", refused));
        }
        return {[](std::size_t size) { return allocate_function(opened, size); },
                [](void* block) { release_function(opened, block); }};
    }

private:
    struct kind;  // memkind's own

    static inline kind* opened = nullptr;
    static inline void* (*allocate_function)(kind*, std::size_t) = nullptr;
    static inline void (*release_function)(kind*, void*) = nullptr;
};

}  // namespace

nlohmann::ordered_json run_jemalloc_allocations(const allocation_run& run) {
    return run_allocations<volatile_backend<jemalloc>>(run);
}
nlohmann::ordered_json run_mimalloc_allocations(const allocation_run& run) {
    return run_allocations<volatile_backend<mimalloc>>(run);
}
nlohmann::ordered_json run_glibc_allocations(const allocation_run& run) {
    return run_allocations<volatile_backend<glibc>>(run);
}
nlohmann::ordered_json run_memkind_allocations(const allocation_run& run) {
    return run_allocations<volatile_backend<memkind_kind::open>>(run);
}

}  // namespace bench
