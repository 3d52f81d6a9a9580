// A pool of libpmemobj as the family of malloc, for growth_bench: its space is taken beforehand, or
// while it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "allocators/pmemobj_functions.hpp"
#include "allocators/runner.hpp"

namespace bench {

#if HOLDFAST_BENCH_HAS_PMEMOBJ

class growing_pool {
public:
    /// `grows`: a pool set with a directory, to which libpmemobj adds files of 128 MiB when it needs them.
    growing_pool(const std::string& path, std::uint64_t bytes, bool grows)
        : library_((::setenv("PMEM_IS_PMEM_FORCE", "1", 1), "libpmemobj.so.1"), "libpmemobj-dev"),
          functions_(library_) {
        std::filesystem::create_directory(path);
        const std::string name = path + (grows ? "/set" : "/pool");
        if (grows) {
            std::filesystem::create_directory(path + "/files");
            std::ofstream(name) << fmt::format("PMEMPOOLSET\nOPTION SINGLEHDR\n{}G {}/files/\n", bytes >> 30U, path);
        }
        pool_ = functions_.create(name.c_str(), "growth", grows ? 0 : bytes, 0600);
        if (pool_ == nullptr) {
            throw std::runtime_error(fmt::format("pmemobj_create: {}", functions_.error_message()));
        }
    }
    growing_pool(const growing_pool&) = delete;
    growing_pool& operator=(const growing_pool&) = delete;
    ~growing_pool() { functions_.close(pool_); }

    [[nodiscard]] void* allocate(std::size_t bytes) const {
        PMEMoid made{};
        return functions_.allocate(pool_, &made, bytes, 0, nullptr, nullptr) == 0 ? functions_.direct(made) : nullptr;
    }
    [[nodiscard]] void* reallocate(void* block, std::size_t bytes) const {
        PMEMoid one = block == nullptr ? PMEMoid{} : functions_.identifier(block);
        return functions_.reallocate(pool_, &one, bytes, 0) == 0 ? functions_.direct(one) : nullptr;
    }
    void release(void* block) const {
        if (block != nullptr) {
            PMEMoid one = functions_.identifier(block);
            functions_.release(&one);
        }
    }

private:
    shared_library library_;
    pmemobj_functions functions_;
    PMEMobjpool* pool_ = nullptr;
};

#else

class growing_pool {
public:
    growing_pool(const std::string& /*path*/, std::uint64_t /*bytes*/, bool /*grows*/) {
        throw backend_unavailable("this build has no libpmemobj: install libpmemobj-dev and configure again");
    }
    [[nodiscard]] static void* allocate(std::size_t /*bytes*/) { return nullptr; }
    [[nodiscard]] static void* reallocate(void* /*block*/, std::size_t /*bytes*/) { return nullptr; }
    static void release(void* /*block*/) {}
};

#endif

}  // namespace bench
