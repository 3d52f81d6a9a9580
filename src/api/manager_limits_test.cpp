// Limits of the process that a heap lives in: addresses, descriptors, lengths of files, core dumps. Each durability
// works within them, or says which limit is in the way, and no signal ends the process.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/manager_test_configurations.hpp"
#include "base/process_test_support.hpp"
#include "base/units.hpp"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

using base::gibibyte;
using base::mebibyte;
using testing::HasSubstr;
using testing::IsEmpty;

void limit(__rlimit_resource_t of, std::uint64_t to) {
    const rlimit both{to, to};
    ASSERT_EQ(::setrlimit(of, &both), 0);
}

class process_limits_test : public manager_test, public testing::WithParamInterface<test_configuration> {
protected:
    static open_options options() { return options_of(GetParam()); }
    static open_options usual_options() {
        open_options wanted = options();
        wanted.reservation = 0;
        wanted.segment_size = 0;
        return wanted;
    }

    /// Blocks in roots [0, count), each full of its number.
    static void fill(manager& heap, std::size_t count, std::size_t bytes) {
        for (std::size_t i = 0; i < count; ++i) {
            std::memset(heap.allocate_to(heap.root(i), bytes), static_cast<int>(i), bytes);
        }
    }
    static void expect_filled(const manager& heap, std::size_t count, std::size_t bytes) {
        EXPECT_THAT(heap.check(true), IsEmpty());
        for (std::size_t i = 0; i < count; ++i) {
            const auto* const block = static_cast<const unsigned char*>(heap.root(i).get());
            ASSERT_NE(block, nullptr);
            EXPECT_EQ(block[0], i);
            EXPECT_EQ(block[bytes - 1], i);
        }
    }
};

/// Addresses.
class few_addresses_test : public process_limits_test {
protected:
    static std::uint64_t addresses_in_use() {
        std::uint64_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        return pages * base::page_size;
    }
    /// Of so many addresses more than the program has.
    static bool works_within(std::uint64_t addresses, const std::string& path, const open_options& wanted) {
        const base::process_end end = base::run_in_child([&] {
            limit(RLIMIT_AS, addresses_in_use() + addresses);
            manager heap(open_or_create, path, wanted);
            fill(heap, 20, mebibyte);
            for (int i = 0; i < 2000; ++i) {
                heap.find_or_construct<int>(("name" + std::to_string(i)).c_str())(i);
            }
            heap.commit();
            expect_filled(heap, 20, mebibyte);
        });
        return end.succeeded();
    }
};

TEST_P(few_addresses_test, a_heap_takes_what_the_process_may_have) {
    for (const std::uint64_t most : {1U, 3U, 16U, 100U, 200U, 600U, 1200U}) {
        EXPECT_TRUE(works_within(most * gibibyte, path(std::to_string(most)), usual_options())) << most << " GiB";
        EXPECT_TRUE(works_within(most * gibibyte, path(std::to_string(most)), usual_options()))
            << most << " GiB, again";
    }
}

TEST_P(few_addresses_test, a_reservation_that_is_asked_for_leaves_room_for_the_rest) {
    open_options wanted = usual_options();
    for (const std::uint64_t reservation : {64 * mebibyte, 256 * mebibyte}) {
        wanted.reservation = reservation;
        EXPECT_TRUE(works_within(gibibyte, path(std::to_string(reservation)), wanted)) << reservation;
    }
    wanted.reservation = 16 * gibibyte;
    const base::process_end end = base::run_in_child([&] {
        limit(RLIMIT_AS, addresses_in_use() + gibibyte);
        EXPECT_EQ(reason_of([&] { const manager heap(create_only, path("large"), wanted); }), errc::limit);
    });
    EXPECT_TRUE(end.succeeded());
    EXPECT_FALSE(fs::exists(path("large")));
}

TEST_P(few_addresses_test, a_heap_of_a_large_reservation_opens_with_less) {
    open_options wanted = options();
    wanted.reservation = 64 * gibibyte;
    manager(create_only, path(), wanted).close();
    wanted.reservation = 0;
    EXPECT_TRUE(works_within(2 * gibibyte, path(), wanted));
}

/// segment/commit/heap_mapping.cpp counts on that.
TEST_P(few_addresses_test, tables_take_somewhat_more_than_half_of_the_addresses_of_blocks) {
    open_options wanted = usual_options();
    wanted.reservation = 64 * gibibyte;
    const std::uint64_t before = addresses_in_use();
    const manager heap(create_only, path(), wanted);
    const std::uint64_t rings_and_objects = 5 * gibibyte;
    EXPECT_LT(addresses_in_use() - before, wanted.reservation + wanted.reservation / 5 * 3 + rings_and_objects);
}

INSTANTIATE_TEST_SUITE_P(everywhere, few_addresses_test, all_test_configurations(), name_of_configuration);

/// Descriptors.
class few_descriptors_test : public process_limits_test {};

TEST_P(few_descriptors_test, segments_are_more_than_the_process_may_open) {
    constexpr std::size_t count = 120;
    constexpr std::size_t bytes = mebibyte;
    const auto work = [&](manager& heap) {
        limit(RLIMIT_NOFILE, 40);
        fill(heap, count, bytes);
        heap.commit();
        for (std::size_t i = 0; i < count; ++i) {  // pages of earlier commits, too
            std::memset(heap.root(i).get(), static_cast<int>(i), bytes);
        }
    };
    const base::process_end end = base::run_in_child([&] {
        manager heap(create_only, path(), options());
        work(heap);
        heap.snapshot(path("snapshot"));
        heap.shrink();
        heap.close(true);
        manager::copy(path(), path("copy"));
    });
    ASSERT_TRUE(end.succeeded()) << end;
    const base::process_end crash = base::run_in_child([&] {
        manager heap(create_only, path("crashed"), options());
        work(heap);
        ::_exit(0);
    });
    ASSERT_TRUE(crash.succeeded()) << crash;
    const base::process_end again = base::run_in_child([&] {
        limit(RLIMIT_NOFILE, 40);
        for (const char* const name : {"heap", "snapshot", "copy", "crashed"}) {
            open_options wanted = options();
            wanted.verify = true;
            manager heap(open_only, path(name), wanted);
            expect_filled(heap, count, bytes);
            heap.close(true);
        }
    });
    EXPECT_TRUE(again.succeeded()) << again;
}

INSTANTIATE_TEST_SUITE_P(everywhere, few_descriptors_test, all_test_configurations(), name_of_configuration);

/// Lengths of files. The kernel sends SIGXFSZ, which ends a process, for what goes beyond.
class short_files_test : public process_limits_test {
protected:
    static constexpr std::uint64_t longest = 32 * mebibyte;
};

TEST_P(short_files_test, segments_are_as_short_as_files_must_be) {
    const base::process_end end = base::run_in_child([&] {
        limit(RLIMIT_FSIZE, longest);
        manager heap(create_only, path(), usual_options());
        fill(heap, 100, mebibyte);
        heap.commit();
        heap.snapshot(path("snapshot"));
        heap.close(true);
    });
    ASSERT_TRUE(end.succeeded()) << end;
    for (const char* const name : {"heap", "snapshot"}) {
        const manager heap(open_read_only, path(name));
        expect_filled(heap, 100, mebibyte);
        EXPECT_EQ(heap.statistics().segment_size, 16 * mebibyte);
    }
}

TEST_P(short_files_test, a_heap_whose_files_would_be_too_long_is_not_made) {
    open_options wanted = usual_options();
    const base::process_end end = base::run_in_child([&] {
        limit(RLIMIT_FSIZE, longest);
        wanted.segment_size = 64 * mebibyte;
        try {
            const manager heap(create_only, path(), wanted);
            ADD_FAILURE() << "a segment of 64 MiB";
        } catch (const error& refused) {
            EXPECT_EQ(refused.reason(), errc::limit) << refused.what();
            EXPECT_THAT(refused.what(), HasSubstr("ulimit -f"));
            EXPECT_THAT(refused.what(), HasSubstr("segment_size"));
        }
        for (const std::uint64_t tiny : {mebibyte, std::uint64_t{5000}, std::uint64_t{0}}) {
            limit(RLIMIT_FSIZE, tiny);
            EXPECT_EQ(reason_of([&] { const manager heap(create_only, path(), usual_options()); }), errc::limit)
                << tiny;
        }
    });
    EXPECT_TRUE(end.succeeded()) << end;
    EXPECT_FALSE(fs::exists(path()));
}

TEST_P(short_files_test, a_heap_with_longer_files_keeps_what_it_has) {
    open_options wanted = options();
    wanted.segment_size = 64 * mebibyte;
    {
        manager heap(create_only, path(), wanted);
        fill(heap, 20, mebibyte);
    }
    for (const std::uint64_t most :
         {longest, mebibyte, std::uint64_t{100'000}, std::uint64_t{5000}, std::uint64_t{0}}) {
        const base::process_end end = base::run_in_child([&] {
            limit(RLIMIT_FSIZE, most);
            EXPECT_EQ(reason_of([&] { manager::copy(path(), path("copy")); }), errc::limit);
            EXPECT_FALSE(fs::exists(path("copy")));
            // A commit would need the tables, which lie beyond. In the others, growth is refused.
            const errc found = reason_of([&] {
                manager heap(open_only, path(), wanted);
                EXPECT_NE(GetParam().first, durability::commit);
                try {
                    for (;;) {
                        static_cast<void>(heap.allocate(mebibyte));
                    }
                } catch (const bad_alloc& refused) {
                    EXPECT_THAT(refused.what(), HasSubstr("ulimit -f"));
                }
                EXPECT_EQ(reason_of([&] { heap.snapshot(path("copy")); }), errc::limit);
                EXPECT_FALSE(fs::exists(path("copy")));
                EXPECT_EQ(reason_of([&] { heap.close(true); }), errc::none);
            });
            EXPECT_TRUE(found == errc::none || found == errc::limit) << static_cast<int>(found);
            expect_filled(manager(open_read_only, path()), 20, mebibyte);
        });
        EXPECT_TRUE(end.succeeded()) << end << " with " << most;
        expect_filled(manager(open_only, path(), wanted), 20, mebibyte);
    }
}

/// The limit may come late.
TEST_P(short_files_test, a_commit_beyond_the_limit_is_refused_and_may_be_repeated) {
    const base::process_end end = base::run_in_child([&] {
        manager heap(create_only, path(), options());
        fill(heap, 20, mebibyte);
        heap.commit();
        rlimit before{};
        ::getrlimit(RLIMIT_FSIZE, &before);
        fill(heap, 20, mebibyte / 2);
        const rlimit low{mebibyte, before.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &low);
        const bool writes = GetParam().first == durability::commit;
        EXPECT_EQ(reason_of([&] { heap.commit(); }), writes ? errc::limit : errc::none);
        ::setrlimit(RLIMIT_FSIZE, &before);
        heap.commit();
        expect_filled(heap, 20, mebibyte / 2);
    });
    EXPECT_TRUE(end.succeeded()) << end;
    expect_filled(manager(open_read_only, path()), 20, mebibyte / 2);
}

INSTANTIATE_TEST_SUITE_P(everywhere, short_files_test, all_test_configurations(), name_of_configuration);

/// What else a process notices of an open heap.
class process_effects_test : public process_limits_test {
protected:
    /// In bytes, from /proc/self/status.
    static std::uint64_t status_of(const std::string& name) {
        std::ifstream status("/proc/self/status");
        for (std::string line; std::getline(status, line);) {
            if (line.starts_with(name + ":")) {
                return std::stoull(line.substr(name.size() + 1)) * base::kibibyte;
            }
        }
        ADD_FAILURE() << name;
        return 0;
    }
    /// Mappings of the heap's files whose pages the kernel may merge.
    static std::uint64_t mergeable_mappings(const manager& heap) {
        std::ifstream maps("/proc/self/smaps");
        std::uint64_t found = 0;
        bool is_of_heap = false;
        for (std::string line; std::getline(maps, line);) {
            if (line.starts_with("VmFlags:")) {
                if (is_of_heap && line.find(" mg") != std::string::npos) {
                    ++found;
                }
                is_of_heap = false;
            }
            is_of_heap = is_of_heap || line.find(heap.path() + "/") != std::string::npos;
        }
        return found;
    }
    static std::uint64_t mapping_count() {
        std::ifstream maps("/proc/self/maps");
        std::uint64_t lines = 0;
        for (std::string line; std::getline(maps, line);) {
            ++lines;
        }
        return lines;
    }
};

/// Else the kernel would take memory for all that the tables reserve.
TEST_P(process_effects_test, a_process_that_locks_its_future_memory_opens_a_heap) {
    const base::process_end end = base::run_in_child([&] {
        if (::mlockall(MCL_FUTURE) != 0) {
            return;  // it may not
        }
        open_options wanted = usual_options();
        wanted.reservation = 2 * gibibyte;  // a fault here must not take the machine's memory
        manager heap(create_only, path(), wanted);
        fill(heap, 20, mebibyte);
        heap.commit();
        expect_filled(heap, 20, mebibyte);
        EXPECT_LT(status_of("VmRSS"), 512 * mebibyte);
    });
    EXPECT_TRUE(end.succeeded()) << end;
}

/// Merged pages do not tell whether they were stored to.
TEST_P(process_effects_test, a_process_whose_pages_are_merged_keeps_those_of_a_heap) {
    const base::process_end end = base::run_in_child([&] {
        constexpr int set_memory_merge = 67;  // PR_SET_MEMORY_MERGE of Linux 6.4
        if (::prctl(set_memory_merge, 1, 0, 0, 0) != 0) {
            return;  // the kernel merges nothing
        }
        open_options wanted = usual_options();
        wanted.reservation = 2 * gibibyte;  // the kernel walks over every address of memory that is merged no more
        manager heap(create_only, path(), wanted);
        fill(heap, 20, mebibyte);
        heap.commit();
        EXPECT_EQ(mergeable_mappings(heap), 0U);
        ASSERT_EQ(::prctl(set_memory_merge, 0, 0, 0, 0), 0);
        ASSERT_EQ(::prctl(set_memory_merge, 1, 0, 0, 0), 0);
        heap.commit();
        EXPECT_EQ(mergeable_mappings(heap), 0U);
    });
    EXPECT_TRUE(end.succeeded()) << end;
}

/// What fork() copies.
TEST_P(process_effects_test, page_tables_and_mappings_are_few) {
    const std::uint64_t tables = status_of("VmPTE");
    const std::uint64_t mappings = mapping_count();
    manager heap(create_only, path(), usual_options());
    fill(heap, 20, mebibyte);
    EXPECT_LT(status_of("VmPTE"), tables + 2 * mebibyte);
    EXPECT_LT(mapping_count(), mappings + 100);
}

INSTANTIATE_TEST_SUITE_P(everywhere, process_effects_test, all_test_configurations(), name_of_configuration);

/// What a core dump has of a heap.
class core_dump_test : public process_limits_test {
protected:
    struct mapped {
        std::uintptr_t begin;
        std::uintptr_t end;
        bool is_dumped;
    };
    static std::vector<mapped> mappings() {
        std::vector<mapped> found;
        std::ifstream smaps("/proc/self/smaps");
        for (std::string line; std::getline(smaps, line);) {
            std::istringstream words(line);
            std::uintptr_t begin = 0;
            std::uintptr_t end = 0;
            char dash = 0;
            if (words >> std::hex >> begin >> dash >> end && dash == '-') {
                found.push_back({begin, end, true});
            } else if (line.starts_with("VmFlags:")) {
                found.back().is_dumped = (" " + line + " ").find(" dd ") == std::string::npos;
            }
        }
        return found;
    }
    static std::uint64_t dumped_bytes() {
        std::uint64_t bytes = 0;
        for (const mapped& each : mappings()) {
            bytes += each.is_dumped ? each.end - each.begin : 0;
        }
        return bytes;
    }
};

TEST_P(core_dump_test, has_no_part_for_what_is_only_reserved) {
    const std::uint64_t before = dumped_bytes();
    manager heap(create_only, path(), usual_options());
    fill(heap, 20, mebibyte);
    EXPECT_LT(dumped_bytes(), before + 128 * mebibyte);
    const auto at = reinterpret_cast<std::uintptr_t>(heap.root(7).get());
    for (const mapped& each : mappings()) {
        EXPECT_TRUE(each.is_dumped || at < each.begin || at >= each.end) << "what was stored to";
    }
}

TEST_P(core_dump_test, is_short_and_has_what_was_stored) {
    std::string pattern;
    std::ifstream("/proc/sys/kernel/core_pattern") >> pattern;
    if (pattern.find_first_of("/|%") != std::string::npos) {
        return;  // it goes elsewhere; has_no_part_for_what_is_only_reserved looks at the same
    }
    const std::string directory = path("cores");
    fs::create_directory(directory);
    const base::process_end end = base::run_in_child([&] {
        fs::current_path(directory);
        limit(RLIMIT_CORE, RLIM_INFINITY);
        manager heap(create_only, path(), usual_options());
        auto* const text = static_cast<char*>(heap.allocate(64));
        for (int i = 0; i < 63; ++i) {
            text[i] = static_cast<char>('a' + i % 7);  // no such text is in the program
        }
        std::abort();
    });
    ASSERT_EQ(end.signal(), SIGABRT);
    for (const auto& core : fs::directory_iterator(directory)) {
        EXPECT_LT(core.file_size(), 512 * mebibyte);
        if (GetParam().first == durability::commit) {  // pages of files are in the files
            std::ifstream file(core.path(), std::ios::binary);
            const std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
            EXPECT_THAT(content.find("abcdefgabcdefgabcdefgabcdefgabcdefgabcdefg"), testing::Ne(std::string::npos));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(everywhere, core_dump_test, all_test_configurations(), name_of_configuration);

}  // namespace
}  // namespace holdfast
