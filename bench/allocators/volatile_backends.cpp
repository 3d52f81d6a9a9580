// jemalloc, mimalloc and the C library: they keep nothing. The address goes into the destination's word, as with all
// others.
#include <cstdlib>
#include <new>
#include <string>

#include "allocators/runner.hpp"
#include "allocators/shared_library.hpp"
#include "allocators/volatile_memory.hpp"

namespace bench {

namespace {

struct malloc_functions {
    void* (*allocate)(std::size_t);
    void (*release)(void*);
};

/// Malloc: gives the functions. All three are called in the same way, through a pointer.
template <malloc_functions (*Malloc)()>
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
        : functions_(Malloc()), destinations_(demand_of(run).destinations) {}
    [[nodiscard]] void** destinations() noexcept { return destinations_.first(); }
    [[nodiscard]] static std::string durability() { return "volatile"; }
    [[nodiscard]] static std::string domain() { return "none"; }
    [[nodiscard]] static protocol_totals totals() noexcept { return {}; }
    [[nodiscard]] static std::uint64_t charged_bytes() noexcept { return 0; }
    [[nodiscard]] static double finish() noexcept { return 0; }

private:
    malloc_functions functions_;
    volatile_destinations destinations_;
};

malloc_functions jemalloc() {
    // Its variables of threads need more static room than the loader leaves; the comparing process sees to that
    // (comparison.cpp).
    const shared_library library("libjemalloc.so.2", "libjemalloc-dev");
    return {library.find<void*(std::size_t)>("malloc"), library.find<void(void*)>("free")};
}
malloc_functions mimalloc() {
    const shared_library library("libmimalloc.so.2", "libmimalloc-dev");
    return {library.find<void*(std::size_t)>("mi_malloc"), library.find<void(void*)>("mi_free")};
}
malloc_functions glibc() { return {&std::malloc, &std::free}; }

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

}  // namespace bench
