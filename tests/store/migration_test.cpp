// Data files of LMDB 0.9: what Debian's liblmdb wrote is read, what is written Debian's liblmdb reads and writes on.
#include "store_tools/migration.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "lmdb_file/golden_file.hpp"
#include "lmdb_file/lmdb_file_reader.hpp"
#include "store/random_program.hpp"
#include "store/store_fixture.hpp"

namespace holdfast::test {
namespace {

using holdfast_lmdb_file::file_error;
using holdfast_lmdb_file::file_reader;
using holdfast_lmdb_file::tree;
using holdfast_store_tools::export_environment;
using holdfast_store_tools::import_environment;
using holdfast_store_tools::migration_options;
using holdfast_store_tools::migration_result;

/// The content of a file: "name" and the items of each database; "" is the unnamed one.
using content = std::map<std::string, std::vector<std::pair<std::string, std::string>>>;

class store_migration : public store_test {
protected:
    void SetUp() override {
        if (!has_lmdb("debian")) {
            GTEST_SKIP() << "NOT TESTED HERE: there is no liblmdb0";
        }
    }

    /// Databases of all kinds; `count` decides how large they are. The file has free pages too.
    content fill(unsigned count, std::uint64_t seed) {
        open(MDB_NOTLS | MDB_NOSYNC);
        random_words random(seed);
        for (int round = 0; round < 3; ++round) {
            MDB_txn* const transaction = begin();
            const MDB_dbi main = database(transaction);
            for (unsigned i = 0; i < count; ++i) {
                EXPECT_EQ(put(transaction, main, fmt::format("record {}", random.below(count)),
                              std::string(random.below(20) == 0 ? random.below(20000) : random.below(60), 'r')),
                          0);
            }
            for (unsigned kind = 0; kind < kinds_of_databases; ++kind) {
                if (!kind_of(kind).custom_order) {
                    fill_database(transaction, kind, count, random);
                }
            }
            commit(transaction);
        }
        return read_by_library();
    }

    void fill_database(MDB_txn* transaction, unsigned kind, unsigned count, random_words& random) {
        const database_kind& of = kind_of(kind);
        const MDB_dbi into = database(transaction, of.name, of.flags | MDB_CREATE);
        const auto draw = [&](std::size_t fixed, std::size_t most, std::uint64_t values) {
            const std::uint64_t word = random_words::mix(random.below(values));
            return fixed != 0 ? std::string(reinterpret_cast<const char*>(&word), fixed)
                              : std::string(1 + word % most, static_cast<char>('a' + word % 26)) + std::to_string(word);
        };
        for (unsigned i = 0; i < count; ++i) {
            const std::string key = draw(of.key_bytes, 400, of.sorts_duplicates() ? 1 + count / 100 : count);
            std::string data = draw(of.data_bytes, 300, count);
            if (!of.sorts_duplicates() && random.below(30) == 0) {
                data.resize(random.below(30000));
            }
            EXPECT_EQ(put(transaction, into, key, data), 0);
            if (random.below(4) == 0) {
                del(transaction, into, draw(of.key_bytes, 400, of.sorts_duplicates() ? 1 + count / 100 : count));
            }
        }
    }

    content read_by_library() {
        content found;
        MDB_txn* const transaction = begin(MDB_RDONLY);
        for (auto& [key, data] : all(transaction, database(transaction))) {
            MDB_dbi named = 0;
            if (mdb.dbi_open(transaction, key.c_str(), 0, &named) == 0) {
                found[key] = all(transaction, named);
            } else {
                found[""].emplace_back(key, data);
            }
        }
        mdb.txn_abort(transaction);
        return found;
    }

    static content read_by_reader(const std::string& path, std::vector<std::string>* warnings = nullptr) {
        return read_all(*holdfast_lmdb_file::open_file(path), warnings);
    }
    static content read_all(const holdfast_lmdb_file::byte_source& source, std::vector<std::string>* warnings) {
        content found;
        file_reader reader(source);
        std::map<std::string, tree> trees;
        reader.read_main([&](std::string_view key, std::string_view data) { found[""].emplace_back(key, data); },
                         [&](std::string_view name, const tree& of) { trees[std::string(name)] = of; });
        for (const auto& [name, of] : trees) {
            auto& items = found[name];
            reader.read_database(of,
                                 [&](std::string_view key, std::string_view data) { items.emplace_back(key, data); });
        }
        reader.check_free_pages();
        if (warnings != nullptr) {
            *warnings = reader.warnings();
        }
        return found;
    }
};
INSTANTIATE_TEST_SUITE_P(of, store_migration, testing::Values(lmdb_libraries().front()), name_of_library);

TEST_P(store_migration, a_file_of_liblmdb_is_read_whole) {
    for (const unsigned count : {0U, 1U, 30U, 1000U}) {
        SCOPED_TRACE(count);
        std::filesystem::remove(path("data.mdb"));
        const content expected = fill(count, count);
        close();
        std::vector<std::string> warnings;
        EXPECT_EQ(read_by_reader(directory(), &warnings), expected);
        EXPECT_THAT(warnings, testing::IsEmpty());
    }
}

TEST_P(store_migration, an_environment_of_all_kinds_goes_there_and_back) {
    for (const unsigned count : {0U, 1U, 30U, 3000U}) {
        SCOPED_TRACE(count);
        std::filesystem::remove(path("data.mdb"));
        const content expected = fill(count, count + 1);
        close();
        const std::string imported = path(fmt::format("imported{}", count));
        const std::string exported = path(fmt::format("exported{}", count));
        const migration_result in = import_environment(directory(), imported, {});
        EXPECT_THAT(in.warnings, testing::IsEmpty());
        const migration_result out = export_environment(imported, exported, {});
        EXPECT_EQ(in.items, out.items);
        EXPECT_EQ(in.databases, out.databases);
        std::vector<std::string> warnings;
        EXPECT_EQ(read_by_reader(exported, &warnings), expected);
        EXPECT_THAT(warnings, testing::IsEmpty());
        ASSERT_EQ(open_at(exported, MDB_NOTLS), 0);
        EXPECT_EQ(read_by_library(), expected);
    }
}

TEST_P(store_migration, liblmdb_writes_on_in_an_exported_file) {
    fill(2000, 7);
    close();
    import_environment(directory(), path("imported"), {});
    export_environment(path("imported"), path("exported"), {});
    ASSERT_EQ(open_at(path("exported"), MDB_NOTLS | MDB_NOSYNC), 0);
    // Every item is removed, in an order of its own, which takes pages apart and together; then all come again.
    content before = read_by_library();
    MDB_txn* transaction = begin();
    random_words random(5);
    for (auto& [name, pairs] : before) {
        const MDB_dbi from = database(transaction, name.empty() ? nullptr : name.c_str());
        std::vector<std::pair<std::string, std::string>> order = pairs;
        for (std::size_t i = order.size(); i > 1; --i) {
            std::swap(order[i - 1], order[random.below(i)]);
        }
        for (std::size_t i = 0; i < order.size() / 2; ++i) {
            EXPECT_EQ(del(transaction, from, order[i].first, order[i].second), 0);
        }
        for (std::size_t i = 0; i < order.size() / 2; ++i) {
            EXPECT_EQ(put(transaction, from, order[i].first, order[i].second), 0);
        }
    }
    commit(transaction);
    EXPECT_EQ(read_by_library(), before);
    close();
    EXPECT_EQ(read_by_reader(path("exported")), before);
}

TEST_P(store_migration, single_files_are_imported_and_exported) {
    const content expected = fill(100, 3);
    close();
    migration_options how;
    how.no_subdirectory = true;
    import_environment(path("data.mdb"), path("imported"), how);
    EXPECT_TRUE(std::filesystem::is_regular_file(path("imported")));
    export_environment(path("imported"), path("exported"), how);
    EXPECT_EQ(read_by_reader(path("exported")), expected);
}

TEST_P(store_migration, leaves_nothing_where_it_fails) {
    fill(100, 3);
    close();
    std::filesystem::create_directory(path("there"));
    EXPECT_THROW(import_environment(directory(), path("there"), {}), std::runtime_error);
    EXPECT_THROW(import_environment(path("nowhere"), path("imported"), {}), file_error);
    // The last page of the file is of some tree: without it the import fails in the midst.
    std::filesystem::resize_file(path("data.mdb"), std::filesystem::file_size(path("data.mdb")) / 2);
    EXPECT_THROW(import_environment(directory(), path("imported"), {}), std::runtime_error);
    for (const auto& entry : std::filesystem::directory_iterator(directory())) {
        EXPECT_THAT(entry.path().filename().string(), testing::Not(testing::StartsWith("imported")));
    }
}

TEST_P(store_migration, what_a_program_sorts_is_refused_or_sorted_anew) {
    open(MDB_NOTLS | MDB_NOSYNC);
    MDB_txn* const transaction = begin();
    const MDB_dbi custom = database(transaction, "custom", MDB_CREATE);
    EXPECT_EQ(mdb.set_compare(transaction, custom,
                              [](const MDB_val* a, const MDB_val* b) { return bytes_of(*b).compare(bytes_of(*a)); }),
              0);
    for (const char* key : {"a", "b", "c"}) {
        EXPECT_EQ(put(transaction, custom, key, "data"), 0);
    }
    commit(transaction);
    close();
    EXPECT_THROW(import_environment(directory(), path("imported"), {}), std::runtime_error);
    migration_options how;
    how.sort = true;
    EXPECT_EQ(import_environment(directory(), path("imported"), how).items, 3U);
}

TEST_P(store_migration, other_formats_are_refused_by_name) {
    std::ofstream(path("data.mdb")) << "short";
    EXPECT_THROW(read_by_reader(directory()), file_error);
    std::ofstream(path("data.mdb")) << std::string(100000, 'x');
    EXPECT_THROW(read_by_reader(directory()), file_error);
    std::filesystem::remove(path("data.mdb"));
    fill(1, 1);
    close();
    std::fstream file(path("data.mdb"));
    file.seekp(16 + 4);
    file.put(2);  // as LMDB 1.0 has it
    file.close();
    try {
        read_by_reader(directory());
        FAIL() << "version 2 was read";
    } catch (const file_error& what) {
        EXPECT_THAT(what.what(), testing::HasSubstr("version is 2"));
    }
}

// Our library, where LMDB's file lies: read-only, what liblmdb wrote is there.

/// The content of an environment that our library opens read-only; `reversed` is sorted backward by a function.
content read_by_ours(const std::string& directory, const char* reversed = nullptr) {
    const lmdb_library& ours = lmdb("holdfast");
    MDB_env* env = nullptr;
    MDB_txn* in = nullptr;
    EXPECT_EQ(ours.env_create(&env), 0);
    EXPECT_EQ(ours.env_set_maxdbs(env, 16), 0);
    EXPECT_EQ(ours.env_open(env, directory.c_str(), MDB_RDONLY | MDB_NOTLS, 0), 0);
    EXPECT_EQ(ours.txn_begin(env, nullptr, MDB_RDONLY, &in), 0);
    const auto all_of = [&](MDB_dbi of) {
        std::vector<std::pair<std::string, std::string>> found;
        MDB_cursor* over = nullptr;
        EXPECT_EQ(ours.cursor_open(in, of, &over), 0);
        MDB_val key{};
        MDB_val data{};
        while (ours.cursor_get(over, &key, &data, MDB_NEXT) == 0) {
            found.emplace_back(bytes_of(key), bytes_of(data));
            // Each pair is found where the order looks for it.
            MDB_cursor* again = nullptr;
            EXPECT_EQ(ours.cursor_open(in, of, &again), 0);
            unsigned flags = 0;
            EXPECT_EQ(ours.dbi_flags(in, of, &flags), 0);
            EXPECT_EQ(ours.cursor_get(again, &key, &data, (flags & MDB_DUPSORT) != 0 ? MDB_GET_BOTH : MDB_SET), 0);
            ours.cursor_close(again);
        }
        ours.cursor_close(over);
        return found;
    };
    content found;
    MDB_dbi main = 0;
    EXPECT_EQ(ours.dbi_open(in, nullptr, 0, &main), 0);
    for (auto& [key, data] : all_of(main)) {
        MDB_dbi named = 0;
        if (ours.dbi_open(in, key.c_str(), 0, &named) == 0) {
            if (reversed != nullptr && key == reversed) {
                const auto backward = [](const MDB_val* a, const MDB_val* b) {
                    return bytes_of(*b).compare(bytes_of(*a));
                };
                EXPECT_EQ(ours.set_compare(in, named, backward), 0);
                EXPECT_EQ(ours.set_dupsort(in, named, backward), 0);
            }
            found[key] = all_of(named);
        } else {
            found[""].emplace_back(key, data);
        }
    }
    ours.txn_abort(in);
    ours.env_close(env);
    return found;
}

TEST_P(store_migration, our_library_opens_what_liblmdb_wrote_read_only) {
    for (const unsigned count : {0U, 1U, 30U, 3000U}) {
        SCOPED_TRACE(count);
        std::filesystem::remove(path("data.mdb"));
        const content expected = fill(count, count + 3);
        EXPECT_EQ(read_by_ours(directory()), expected);  // beside liblmdb, which may write on
        close();
        EXPECT_EQ(read_by_ours(directory()), expected);
    }
    MDB_env* env = nullptr;
    EXPECT_EQ(lmdb("holdfast").env_create(&env), 0);
    EXPECT_EQ(lmdb("holdfast").env_open(env, directory().c_str(), 0, 0600), MDB_INVALID);
    lmdb("holdfast").env_close(env);
}

/// liblmdb, which is of version 0.9, reads what is exported.
TEST_P(store_migration, files_of_lmdb_1_0_are_opened_imported_and_exported) {
    unsigned count = 0;
    for (const char* const name : {"v2_4096", "v3_256", "v3_512", "v3_4096", "v3_65536"}) {
        SCOPED_TRACE(name);
        std::filesystem::remove(path("data.mdb"));
        std::ofstream(path("data.mdb"), std::ios::binary)
            << holdfast_lmdb_file::golden_file(std::string(HOLDFAST_LMDB_FILES "/") + name + ".runs");
        const content expected = read_by_reader(directory());
        EXPECT_GT(expected.size(), 3U);
        EXPECT_EQ(read_by_ours(directory()), expected);
        const std::string imported = path(fmt::format("imported{}", ++count));
        import_environment(directory(), imported, {});
        const std::string exported = path(fmt::format("exported{}", count));
        export_environment(imported, exported, {});
        ASSERT_EQ(open_at(exported, MDB_NOTLS | MDB_RDONLY), 0);
        EXPECT_EQ(read_by_library(), expected);
        close();
    }
    std::ofstream(path("data.mdb"), std::ios::binary)
        << holdfast_lmdb_file::golden_file(HOLDFAST_LMDB_FILES "/v3_encrypted.runs");
    MDB_env* env = nullptr;
    EXPECT_EQ(lmdb("holdfast").env_create(&env), 0);
    EXPECT_EQ(lmdb("holdfast").env_open(env, directory().c_str(), MDB_RDONLY, 0), MDB_INCOMPATIBLE);
    lmdb("holdfast").env_close(env);
}

TEST_P(store_migration, our_library_keeps_the_order_of_a_function_that_sorts) {
    open(MDB_NOTLS | MDB_NOSYNC);
    MDB_txn* const transaction = begin();
    const MDB_dbi reversed = database(transaction, "reversed", MDB_CREATE | MDB_DUPSORT);
    const auto backward = [](const MDB_val* a, const MDB_val* b) { return bytes_of(*b).compare(bytes_of(*a)); };
    EXPECT_EQ(mdb.set_compare(transaction, reversed, backward), 0);
    EXPECT_EQ(mdb.set_dupsort(transaction, reversed, backward), 0);
    for (unsigned i = 0; i < 3000; ++i) {
        EXPECT_EQ(put(transaction, reversed, fmt::format("key {}", i * 7919 % 400), fmt::format("data {}", i)), 0);
        EXPECT_EQ(put(transaction, reversed, "many", fmt::format("data {}", i * 7919 % 3000)), 0);
    }
    content expected;
    expected["reversed"] = all(transaction, reversed);
    commit(transaction);
    close();
    EXPECT_EQ(read_by_ours(directory(), "reversed"), expected);
}

/// A file in memory.
class memory_source : public holdfast_lmdb_file::byte_source {
public:
    explicit memory_source(const std::string& bytes) : bytes_(bytes) {}
    [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
    void read(std::uint64_t offset, std::span<std::byte> to) const override {
        ASSERT_LE(offset + to.size(), bytes_.size());
        std::memcpy(to.data(), bytes_.data() + offset, to.size());
    }

private:
    const std::string& bytes_;
};

TEST_P(store_migration, a_damaged_file_gives_an_error_or_what_it_held) {
    fill(300, 11);
    close();
    std::ifstream in(path("data.mdb"), std::ios::binary);
    const std::string sound((std::istreambuf_iterator<char>(in)), {});
    random_words random(17);
    unsigned refused = 0;
    for (int i = 0; i < 300; ++i) {
        std::string damaged = sound;
        for (std::uint64_t bits = 1 + random.below(3); bits > 0; --bits) {
            // Most of the file is data: headers and bounds are at the pages' beginnings.
            const std::uint64_t page = random.below(damaged.size() / 4096) * 4096;
            char& byte = damaged[page + (random.below(3) == 0 ? random.below(4096) : random.below(64))];
            byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << random.below(8)));
        }
        try {
            read_all(memory_source(damaged), nullptr);
        } catch (const file_error&) {
            ++refused;
            std::ofstream(path("data.mdb"), std::ios::binary) << damaged;
            MDB_env* env = nullptr;
            EXPECT_EQ(lmdb("holdfast").env_create(&env), 0);
            EXPECT_NE(lmdb("holdfast").env_open(env, directory().c_str(), MDB_RDONLY, 0), 0);
            lmdb("holdfast").env_close(env);
        }
    }
    EXPECT_GT(refused, 20U);
}

}  // namespace
}  // namespace holdfast::test
