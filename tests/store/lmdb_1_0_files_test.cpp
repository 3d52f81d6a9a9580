// Data files that LMDB 1.0.2 wrote (version 3 of the format), and one of a development release before it (version 2).
//
// tests/store/lmdb_files/ has them as runs (lmdb_file/golden_file.hpp). Each was filled in three transactions with
// deletions, so it has free pages; its databases are all kinds, with big values.
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lmdb_file/golden_file.hpp"
#include "lmdb_file/lmdb_file_reader.hpp"

namespace holdfast::test {
namespace {

using holdfast_lmdb_file::file_error;
using holdfast_lmdb_file::file_reader;
using holdfast_lmdb_file::tree;

struct golden {
    const char* name;
    std::uint32_t version;
    std::size_t page_size;
    std::uint64_t items;
    std::uint64_t hash;  ///< FNV-1a of the items' hashes, in the order of the databases' names
};
void PrintTo(const golden& of, std::ostream* to) { *to << of.name; }

constexpr std::uint64_t fnv_begin = 14695981039346656037U;
constexpr std::uint64_t fnv_step = 1099511628211U;

std::string file_of(const std::string& name) {
    return holdfast_lmdb_file::golden_file(HOLDFAST_LMDB_FILES "/" + name + ".runs");
}

class file_in_memory : public holdfast_lmdb_file::byte_source {
public:
    explicit file_in_memory(const std::string& content) : content_(content) {}
    [[nodiscard]] std::uint64_t size() const override { return content_.size(); }
    void read(std::uint64_t offset, std::span<std::byte> to) const override {
        ASSERT_LE(offset + to.size(), content_.size());
        content_.copy(reinterpret_cast<char*>(to.data()), to.size(), offset);
    }

private:
    const std::string& content_;
};

struct found {
    std::uint64_t items = 0;
    std::uint64_t hash = fnv_begin;
    std::vector<std::string> warnings;
};

found read_whole(const std::string& file) {
    found all;
    const file_in_memory source(file);
    file_reader reader(source);
    const auto item = [&](std::string_view key, std::string_view data) {
        std::uint64_t hash = fnv_begin;
        for (const std::string_view part : {key, data}) {
            for (const char byte : part) {
                hash = (hash ^ static_cast<unsigned char>(byte)) * fnv_step;
            }
        }
        all.hash = (all.hash ^ hash) * fnv_step;
        ++all.items;
    };
    std::map<std::string, tree> databases;
    reader.read_main(item, [&](std::string_view name, const tree& of) { databases[std::string(name)] = of; });
    for (const auto& [name, of] : databases) {
        reader.read_database(of, item);
    }
    reader.check_free_pages();
    all.warnings = reader.warnings();
    return all;
}

class lmdb_1_0_files : public testing::TestWithParam<golden> {
protected:
    std::string file_ = file_of(GetParam().name);

    /// What is damaged gives an error, or all that was there, or a warning.
    void expect_noticed(const std::string& damaged) const {
        try {
            const found there = read_whole(damaged);
            EXPECT_TRUE(there.hash == GetParam().hash || !there.warnings.empty());
        } catch (const file_error&) {
            return;
        }
    }
};
INSTANTIATE_TEST_SUITE_P(of, lmdb_1_0_files,
                         testing::Values(golden{"v2_4096", 2, 4096, 142, 0x1875ede216ba5d08U},
                                         golden{"v3_256", 3, 256, 69, 0x9631be820b6a0d22U},
                                         golden{"v3_512", 3, 512, 99, 0x66d4c40584fe8b06U},
                                         golden{"v3_4096", 3, 4096, 142, 0x1875ede216ba5d08U},
                                         golden{"v3_65536", 3, 65536, 121, 0xb6138c31996a4e97U}));

TEST_P(lmdb_1_0_files, is_read_whole) {
    const file_in_memory source(file_);
    EXPECT_EQ(file_reader(source).version(), GetParam().version);
    EXPECT_EQ(file_reader(source).page_size(), GetParam().page_size);
    const found there = read_whole(file_);
    EXPECT_EQ(there.items, GetParam().items);
    EXPECT_EQ(there.hash, GetParam().hash);
    EXPECT_THAT(there.warnings, testing::IsEmpty());
}

TEST_P(lmdb_1_0_files, each_field_of_a_page_header_that_is_wrong_is_noticed) {
    for (std::size_t page = 2 * GetParam().page_size; page < file_.size(); page += GetParam().page_size) {
        std::uint64_t number = 0;
        file_.copy(reinterpret_cast<char*>(&number), sizeof(number), page);
        if (number != page / GetParam().page_size) {
            continue;  // in a big value
        }
        for (std::size_t at = page; at < page + 24; ++at) {
            for (const unsigned bit : {0U, 3U, 7U}) {
                SCOPED_TRACE(at);
                std::string damaged = file_;
                damaged[at] = static_cast<char>(static_cast<unsigned char>(damaged[at]) ^ 1U << bit);
                expect_noticed(damaged);
            }
        }
    }
}

TEST_P(lmdb_1_0_files, a_file_that_ends_early_is_noticed) {
    for (std::size_t size = 0; size < file_.size(); size += GetParam().page_size) {
        SCOPED_TRACE(size);
        expect_noticed(file_.substr(0, size));
    }
}

TEST_P(lmdb_1_0_files, a_branch_that_leads_to_itself_is_refused) {
    bool tried = false;
    for (std::size_t page = 2 * GetParam().page_size; page < file_.size(); page += GetParam().page_size) {
        if (file_[page + 18] == 1) {
            std::string damaged = file_;
            std::uint16_t slot = 0;
            damaged.copy(reinterpret_cast<char*>(&slot), sizeof(slot), page + 24);
            damaged.replace(page + 24 + slot, 4, file_, page, 4);
            expect_noticed(damaged);  // a branch may be free
            tried = true;
        }
    }
    EXPECT_EQ(tried, GetParam().page_size < 65536);
}

TEST_P(lmdb_1_0_files, other_versions_are_refused) {
    file_[24 + 4] = 4;
    EXPECT_THROW(read_whole(file_), holdfast_lmdb_file::unsupported_file);
}

TEST(lmdb_1_0_file, of_a_key_is_refused_and_checksums_are_left_out) {
    EXPECT_THROW(read_whole(file_of("v3_encrypted")), holdfast_lmdb_file::unsupported_file);
    const found there = read_whole(file_of("v3_sum"));
    EXPECT_EQ(there.items, 70U);
    EXPECT_EQ(there.hash, 0xbd8cc54d2a154686U);
    EXPECT_THAT(there.warnings, testing::ElementsAre(testing::HasSubstr("checksums of 8 bytes")));
}

}  // namespace
}  // namespace holdfast::test
