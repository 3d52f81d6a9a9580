// One pool, as large as fits. It has no other way: a pool in a directory (poolset) grows, and gives nothing back.
#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>

#include "allocators/allocation_run.hpp"
#include "allocators/pmemobj_functions.hpp"
#include "fragmentation/space_backend.hpp"

namespace bench {

#if HOLDFAST_BENCH_HAS_PMEMOBJ

namespace {

class libpmemobj_space : public space_backend {
public:
    explicit libpmemobj_space(const space_request& request)
        : library_((::setenv("PMEM_IS_PMEM_FORCE", "1", 1), "libpmemobj.so.1"), "libpmemobj-dev"),
          functions_(library_) {
        constexpr std::uint64_t step = std::uint64_t{1} << 20U;
        const std::string path = (request.directory / "pool").string();
        for (std::uint64_t size = request.capacity; pool_ == nullptr && size > request.capacity / 2; size -= step) {
            pool_ = functions_.create(path.c_str(), "holdfast-bench", size, 0600);
        }
        if (pool_ == nullptr) {
            throw std::runtime_error(fmt::format("pmemobj_create: {}", functions_.error_message()));
        }
        const PMEMoid root = functions_.root(pool_, request.objects * sizeof(PMEMoid));
        if (root.off == 0) {
            throw std::runtime_error(fmt::format("pmemobj_root: {}", functions_.error_message()));
        }
        objects_ = static_cast<PMEMoid*>(functions_.direct(root));
    }
    ~libpmemobj_space() override { functions_.close(pool_); }
    bool allocate(std::size_t number, std::size_t size) override {
        return functions_.allocate(pool_, &objects_[number], size, 0, nullptr, nullptr) == 0;
    }
    void release(std::size_t number) override { functions_.release(&objects_[number]); }
    std::byte* block(std::size_t number) override {
        return static_cast<std::byte*>(functions_.direct(objects_[number]));
    }

private:
    shared_library library_;
    pmemobj_functions functions_;
    PMEMobjpool* pool_ = nullptr;
    PMEMoid* objects_ = nullptr;
};

}  // namespace

std::unique_ptr<space_backend> open_libpmemobj_space(const space_request& request) {
    return std::make_unique<libpmemobj_space>(request);
}

#else

std::unique_ptr<space_backend> open_libpmemobj_space(const space_request& /*request*/) {
    throw backend_unavailable("this build has no libpmemobj: install libpmemobj-dev and configure again");
}

#endif

}  // namespace bench
