#include "persist/domain.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/scratch_test_support.hpp"
#include "base/under_qemu.hpp"
#include "persist/descriptor.hpp"
#include "persist/single_steps_test_support.hpp"

namespace holdfast::persist {
namespace {

using base::scratch_directory;

TEST(flush, TheBestMethodIsAvailable) { EXPECT_TRUE(is_available(best_flush_method())); }

TEST(flush, EveryAvailableMethodRunsOnRangesOfAnyShape) {
    alignas(64) std::array<unsigned char, 512> memory{};
    std::iota(memory.begin(), memory.end(), static_cast<unsigned char>(0));
    const auto expected = memory;
    int methods = 0;
    for (const auto method : {flush_method::clwb, flush_method::clflushopt, flush_method::clflush,
                              flush_method::dc_cvap, flush_method::dc_civac}) {
        if (!is_available(method)) {
            continue;
        }
        ++methods;
        for (std::size_t begin = 0; begin < 128; begin += 7) {
            for (const std::size_t bytes : {0U, 1U, 8U, 63U, 64U, 65U, 300U}) {
                flush_with(method)(memory.data() + begin, bytes);
            }
        }
        drain();
        EXPECT_EQ(memory, expected) << to_string(method);
    }
    EXPECT_GE(methods, 1);
}

#if defined(__x86_64__)

std::vector<executed_instruction> lines_of(cache_instruction what, const unsigned char* begin, std::size_t bytes) {
    constexpr std::uintptr_t line = 64;
    std::vector<executed_instruction> all;
    const auto from = reinterpret_cast<std::uintptr_t>(begin);
    for (std::uintptr_t at = from / line * line; at < from + bytes; at += line) {
        all.push_back({what, at});
    }
    return all;
}

// The content of memory does not show whether a line was written back, so this test looks at the instructions.
TEST(flush, WritesBackEachLineOfTheRangeOnceAndNoOther) {
    alignas(64) static std::array<unsigned char, 1024> memory{};
    const std::array<std::pair<flush_method, cache_instruction>, 3> methods{
        {{flush_method::clwb, cache_instruction::clwb},
         {flush_method::clflushopt, cache_instruction::clflushopt},
         {flush_method::clflush, cache_instruction::clflush}}};
    for (const auto& [method, instruction] : methods) {
        if (!is_available(method)) {
            continue;
        }
        const flush_function flush = flush_with(method);
        for (const std::size_t begin : {0U, 1U, 63U, 64U, 100U}) {
            for (const std::size_t bytes : {1U, 8U, 63U, 64U, 65U, 300U}) {
                EXPECT_EQ(executed_by([&] { flush(memory.data() + begin, bytes); }),
                          lines_of(instruction, memory.data() + begin, bytes))
                    << to_string(method) << ' ' << begin << ' ' << bytes;
            }
        }
    }
    const std::vector<executed_instruction> fence{{cache_instruction::sfence, 0}};
    EXPECT_EQ(executed_by([] { drain(); }), fence);
}

template <persistence_domain Domain>
std::vector<executed_instruction> of_flush_and_fence(const unsigned char* memory) {
    return executed_by([memory] {
        Domain domain;
        domain.flush(memory, 128, "test.flush");
        domain.fence("test.fence");
    });
}

TEST(domain, EachExecutesWhatItsMediaNeed) {
    alignas(64) static std::array<unsigned char, 128> memory{};
    const auto dax = of_flush_and_fence<dax_domain>(memory.data());
    ASSERT_EQ(dax.size(), 3U) << "two lines, then the fence";
    EXPECT_EQ(dax[0].line, reinterpret_cast<std::uintptr_t>(memory.data()));
    EXPECT_EQ(dax[1].line, reinterpret_cast<std::uintptr_t>(memory.data() + 64));
    EXPECT_EQ(dax[2].what, cache_instruction::sfence);
    EXPECT_EQ(of_flush_and_fence<emulated_domain>(memory.data()), dax);
    const std::vector<executed_instruction> fence{{cache_instruction::sfence, 0}};
    EXPECT_EQ(of_flush_and_fence<eadr_domain>(memory.data()), fence);
    EXPECT_TRUE(of_flush_and_fence<page_cache_domain>(memory.data()).empty());
}

#endif

TEST(flush, CopyAroundTheCacheCopiesExactlyItsWords) {
    for (std::size_t shift = 0; shift < 8; ++shift) {
        for (std::size_t words = 0; words < 40; ++words) {
            alignas(64) std::array<std::uint64_t, 64> target{};
            std::array<std::uint64_t, 48> source{};
            std::iota(source.begin(), source.end(), 1U);
            copy_around_cache(target.data() + shift, source.data(), words * 8);
            drain();
            for (std::size_t i = 0; i < target.size(); ++i) {
                const bool inside = i >= shift && i < shift + words;
                ASSERT_EQ(target.at(i), inside ? i - shift + 1 : 0) << shift << ' ' << words << ' ' << i;
            }
        }
    }
}

template <persistence_domain Domain>
void expect_moves_bytes() {
    alignas(64) std::array<std::uint64_t, 16> memory{};
    Domain domain;
    domain.store(memory[3], 42, "test.store");
    const std::array<std::uint64_t, 8> record{1, 2, 3, 4, 5, 6, 7, 8};
    domain.copy_nontemporal(memory.data() + 8, record.data(), sizeof record, "test.copy");
    domain.flush(memory.data(), sizeof memory, "test.flush");
    domain.fence("test.fence");
    EXPECT_EQ(memory[3], 42U) << to_string(Domain::kind);
    EXPECT_TRUE(std::equal(record.begin(), record.end(), memory.begin() + 8)) << to_string(Domain::kind);
    EXPECT_EQ(memory[7], 0U) << to_string(Domain::kind);
}

TEST(domain, EveryDomainMovesTheSameBytes) {
    expect_moves_bytes<dax_domain>();
    expect_moves_bytes<eadr_domain>();
    expect_moves_bytes<page_cache_domain>();
    expect_moves_bytes<emulated_domain>();
}

TEST(domain, NamesAreThoseOfTheDesign) {
    EXPECT_EQ(to_string(domain_kind::dax), "dax");
    EXPECT_EQ(to_string(domain_kind::eadr), "eadr");
    EXPECT_EQ(to_string(domain_kind::page_cache), "page-cache");
    EXPECT_EQ(to_string(domain_kind::emulated), "emulated");
}

TEST(domain, AnEmptyFileOnAnOrdinaryFileSystemIsPageCache) {
    // A memfd lies on tmpfs, which has no MAP_SYNC on any machine; TMPDIR may be on DAX.
    const descriptor fd{::memfd_create("holdfast", MFD_CLOEXEC)};
    ASSERT_TRUE(fd.valid());
    const auto kind = detect_domain(fd.get(), "memfd");
    ASSERT_TRUE(kind.ok()) << kind.error().message();
    EXPECT_EQ(*kind, domain_kind::page_cache);
}

TEST(domain, ABadDescriptorIsAFailureWithItsPath) {
    if (base::under_qemu) {
        GTEST_SKIP() << "NOT TESTED: QEMU 7.2 answers MAP_SHARED_VALIDATE with EINVAL, as a kernel before 4.15 does";
    }
    const auto kind = detect_domain(-1, "/some/path");
    ASSERT_FALSE(kind.ok());
    EXPECT_EQ(kind.error().os_error, EBADF);
    EXPECT_EQ(kind.error().path, "/some/path");
}

TEST(domain, CachesCountOnlyWhereEveryRegionSaysSo) {
    const scratch_directory scratch;
    const auto set = [&](const char* region, const char* text) {
        std::filesystem::create_directories(scratch / region);
        std::ofstream{std::filesystem::path(scratch / region) / "persistence_domain"} << text;
    };
    EXPECT_FALSE(caches_are_persistent(scratch / "nowhere"));
    EXPECT_FALSE(caches_are_persistent(scratch.path()));
    set("namespace0.0", "cpu_cache\n");
    EXPECT_FALSE(caches_are_persistent(scratch.path()));
    set("region0", "cpu_cache\n");
    EXPECT_TRUE(caches_are_persistent(scratch.path()));
    set("region1", "memory_controller\n");
    EXPECT_FALSE(caches_are_persistent(scratch.path()));
    set("region1", "");
    EXPECT_FALSE(caches_are_persistent(scratch.path()));
}

}  // namespace
}  // namespace holdfast::persist
