#include "transactions/pmem_pool.hpp"

#if HOLDFAST_BENCH_HAS_PMEMOBJ

#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>

namespace transactions {

namespace {

/// Emulated: with flushes forced. Without, the library calls msync for each on files without DAX, which a disk needs.
bench::shared_library load(media on) {
    ::setenv("PMEM_IS_PMEM_FORCE", on == media::emulated ? "1" : "0", 1);
    return {"libpmemobj.so.1", "libpmemobj-dev"};
}

}  // namespace

pmem_pool::pmem_pool(const std::filesystem::path& path, std::size_t size, std::size_t root_size, media on)
    : library_(load(on)),
      functions_(library_),
      begin_(library_.find<int(PMEMobjpool*, void*, int, ...)>("pmemobj_tx_begin")),
      add_(library_.find<int(const void*, std::size_t)>("pmemobj_tx_add_range_direct")),
      allocate_(library_.find<PMEMoid(std::size_t, std::uint64_t)>("pmemobj_tx_alloc")),
      allocate_zeros_(library_.find<PMEMoid(std::size_t, std::uint64_t)>("pmemobj_tx_zalloc")),
      free_(library_.find<int(PMEMoid)>("pmemobj_tx_free")),
      commit_(library_.find<void()>("pmemobj_tx_commit")),
      end_(library_.find<int()>("pmemobj_tx_end")),
      pool_(functions_.create(path.c_str(), "transactions", size, 0600)) {
    if (pool_ == nullptr) {
        throw std::runtime_error(fmt::format("pmemobj_create: {}", functions_.error_message()));
    }
    root_ = functions_.root(pool_, root_size);
}

pmem_pool::~pmem_pool() { functions_.close(pool_); }

void pmem_pool::check(int error) {
    if (error != 0) {
        throw std::runtime_error(fmt::format("libpmemobj: error {} in a transaction", error));
    }
}

}  // namespace transactions

#endif
