// The directory of objects against a model (std::map): random changes, growth, commits, reloading.
#include "heap/objects/object_directory.hpp"

#include <cstring>
#include <map>
#include <memory>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "segment/test_support.hpp"

namespace holdfast::heap {
namespace {

using base::failure_code;
using persist::access_mode;
using persist::posix_storage;
using segment::must;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

object_entry entry_of(object_kind kind, const std::string& name, std::uint64_t offset) {
    object_entry entry;
    entry.kind = kind;
    entry.name = name;
    entry.type = kind == object_kind::unique ? "type of " + name : "i";
    if (kind != object_kind::named) {
        entry.name.clear();
    }
    entry.offset = offset;
    entry.count = 3;
    entry.type_size = 4;
    return entry;
}

bool same(const object_entry& a, const object_entry& b) {
    return a.kind == b.kind && a.name == b.name && a.type == b.type && a.description == b.description &&
           a.offset == b.offset && a.count == b.count && a.type_size == b.type_size;
}

class object_directory_test : public testing::Test {
protected:
    object_directory_test() {
        segment::creation_options options;
        options.segment_size = segment::minimum_segment_size;
        options.mapping.reservation = base::gibibyte;
        files_ = must(segment::heap_files::create(posix_storage(), path_, options));
        must(files_->grow({1}));
        must(files_->commit({}));
        objects_ = std::make_unique<object_directory>(*files_);
    }

    void commit() { must(files_->commit({})); }
    /// Without a commit: finds the last one.
    void reopen() {
        objects_.reset();
        files_.reset();
        files_ = must(segment::heap_files::open(posix_storage(), path_, access_mode::read_write, {}));
        objects_ = std::make_unique<object_directory>(*files_);
    }
    [[nodiscard]] std::vector<std::string> problems(std::uint64_t block_bytes = 1 << 20) const {
        std::vector<std::string> found;
        objects_->check(found, [block_bytes](std::uint64_t) { return block_bytes; });
        return found;
    }

    segment::test_directory directory_;
    std::string path_ = directory_.path("heap");
    std::unique_ptr<segment::heap_files> files_;
    std::unique_ptr<object_directory> objects_;
};

TEST_F(object_directory_test, finds_what_was_inserted_by_name_and_by_offset) {
    const object_entry named = entry_of(object_kind::named, "counts", 64);
    const object_entry unique = entry_of(object_kind::unique, "T", 128);
    const object_entry anonymous = entry_of(object_kind::anonymous, "", 192);
    for (const object_entry& entry : {named, unique, anonymous}) {
        must(objects_->insert(entry));
    }
    EXPECT_TRUE(same(*must(objects_->find(object_kind::named, "counts")), named));
    EXPECT_TRUE(same(*must(objects_->find(object_kind::unique, unique.type)), unique));
    EXPECT_TRUE(same(*must(objects_->find_at(192)), anonymous));
    EXPECT_FALSE(must(objects_->find(object_kind::unique, "counts")).has_value());
    EXPECT_FALSE(must(objects_->find(object_kind::named, "count")).has_value());
    EXPECT_FALSE(must(objects_->find(object_kind::anonymous, "")).has_value());
    EXPECT_FALSE(must(objects_->find_at(65)).has_value());
    EXPECT_EQ(must(objects_->count(object_kind::named)), 1U);
    EXPECT_EQ(must(objects_->count(object_kind::unique)), 1U);
    EXPECT_EQ(must(objects_->count(object_kind::anonymous)), 1U);
}

TEST_F(object_directory_test, refuses_a_name_twice_within_a_kind) {
    must(objects_->insert(entry_of(object_kind::named, "a", 64)));
    must(objects_->insert(entry_of(object_kind::unique, "a", 128)));
    EXPECT_EQ(objects_->insert(entry_of(object_kind::named, "a", 192)).error().code, failure_code::name_exists);
    EXPECT_EQ(objects_->insert(entry_of(object_kind::unique, "a", 192)).error().code, failure_code::name_exists);
    EXPECT_FALSE(must(objects_->find_at(192)).has_value());
    EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(object_directory_test, refuses_two_objects_at_one_offset) {
    must(objects_->insert(entry_of(object_kind::named, "a", 64)));
    EXPECT_FALSE(objects_->insert(entry_of(object_kind::named, "b", 64)).ok());
    EXPECT_FALSE(must(objects_->find(object_kind::named, "b")).has_value());
    commit();
    reopen();
    EXPECT_EQ(must(objects_->find_at(64))->name, "a");
    EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(object_directory_test, tells_of_objects_that_are_not_there) {
    EXPECT_EQ(objects_->erase_at(64).error().code, failure_code::not_found);
    EXPECT_EQ(objects_->describe_at(64, "x").error().code, failure_code::not_found);
}

TEST_F(object_directory_test, keeps_descriptions_of_objects_and_of_the_heap) {
    EXPECT_EQ(must(objects_->heap_description()), "");
    must(objects_->insert(entry_of(object_kind::named, "a", 64)));
    must(objects_->describe_at(64, "short"));
    must(objects_->describe_at(64, std::string(5000, 'd')));
    must(objects_->describe_heap("first"));
    must(objects_->describe_heap("a heap of " + std::string(300, 'h')));
    commit();
    reopen();
    EXPECT_EQ(must(objects_->find_at(64))->description, std::string(5000, 'd'));
    EXPECT_EQ(must(objects_->heap_description()), "a heap of " + std::string(300, 'h'));
    must(objects_->describe_heap(""));
    EXPECT_EQ(must(objects_->heap_description()), "");
    EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(object_directory_test, takes_names_up_to_what_a_group_holds) {
    const std::uint64_t longest = (longest_record_cells - 1) * cell_size;
    must(objects_->insert(entry_of(object_kind::named, "small", 64)));
    must(objects_->insert(entry_of(object_kind::named, std::string(longest - 1, 'n'), 128)));
    const auto refused = objects_->insert(entry_of(object_kind::named, std::string(longest, 'n'), 192));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, failure_code::invalid_argument);
    commit();
    reopen();
    EXPECT_EQ(must(objects_->find(object_kind::named, std::string(longest - 1, 'n')))->offset, 128U);
    EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(object_directory_test, lists_by_name_then_by_offset) {
    must(objects_->insert(entry_of(object_kind::anonymous, "", 640)));
    must(objects_->insert(entry_of(object_kind::anonymous, "", 128)));
    for (const char* name : {"c", "a", "b"}) {
        must(objects_->insert(entry_of(object_kind::named, name, 1000U + static_cast<unsigned char>(*name))));
    }
    std::string names;
    for (const object_entry& entry : must(objects_->list(object_kind::named))) {
        names += entry.name;
    }
    EXPECT_EQ(names, "abc");
    const auto anonymous = must(objects_->list(object_kind::anonymous));
    ASSERT_EQ(anonymous.size(), 2U);
    EXPECT_EQ(anonymous[0].offset, 128U);
}

TEST_F(object_directory_test, reports_damage) {
    must(objects_->insert(entry_of(object_kind::named, "a", 64)));
    must(objects_->insert(entry_of(object_kind::named, "b", 128)));
    EXPECT_THAT(problems(11), Contains(HasSubstr("OBJ-3")));
    EXPECT_THAT(problems(0), Contains(HasSubstr("OBJ-3")));
    EXPECT_THAT(problems(12), IsEmpty());
    std::byte* const first = files_->objects() + base::page_size;
    first[20 * cell_size] = std::byte{1};
    EXPECT_THAT(problems(), Contains(HasSubstr("OBJ-4")));
    first[20 * cell_size] = std::byte{0};
    for (const std::size_t position : {0U, 4U, 8U, 16U, 20U, 40U, 64U}) {
        first[position] ^= std::byte{1};
        EXPECT_THAT(problems(), Contains(HasSubstr("OBJ-1"))) << position;
        object_directory reloaded(*files_);
        const auto found = reloaded.find(object_kind::named, "a");
        EXPECT_FALSE(found.ok()) << position;
        first[position] ^= std::byte{1};
    }
    EXPECT_THAT(problems(), IsEmpty());
    // Two records with the same name.
    std::memcpy(first + 40 * cell_size, first, 2 * cell_size);
    object_directory reloaded(*files_);
    EXPECT_EQ(reloaded.count(object_kind::named).error().code, failure_code::corrupt);
}

TEST_F(object_directory_test, notices_a_store_to_any_byte_of_a_page_that_is_to_be_committed) {
    constexpr std::uint64_t objects = 100;
    for (std::uint64_t i = 0; i < objects; ++i) {
        must(objects_->insert(entry_of(object_kind::named, std::string(1 + i % 90, 'a') + std::to_string(i), 64 * i)));
    }
    for (std::uint64_t i = 0; i < objects; i += 7) {
        must(objects_->erase_at(64 * i));
    }
    must(objects_->describe_heap("a heap"));
    must(objects_->describe_type({3, 24, 24, {0, 8}, "node"}));
    const std::uint64_t end = files_->objects_size();
    ASSERT_GT(end, 4 * base::page_size);
    object_directory::page_check all(*objects_);
    for (std::uint64_t page = base::page_size; page < end; page += base::page_size) {
        must(all.page(page));
    }
    for (std::uint64_t at = base::page_size; at < end; ++at) {
        files_->objects()[at] ^= std::byte{4};
        const auto checked = object_directory::page_check(*objects_).page(base::align_down(at, base::page_size));
        files_->objects()[at] ^= std::byte{4};
        ASSERT_FALSE(checked.ok()) << at;
        ASSERT_EQ(checked.error().code, failure_code::corrupt) << at;
    }
}

TEST_F(object_directory_test, notices_a_record_that_is_not_where_it_was_written) {
    must(objects_->insert(entry_of(object_kind::named, "a", 64)));
    must(objects_->insert(entry_of(object_kind::named, "b", 128)));
    std::byte* const first = files_->objects() + base::page_size;
    std::memcpy(first + 2 * cell_size, first, 2 * cell_size);
    EXPECT_FALSE(object_directory::page_check(*objects_).page(base::page_size).ok());
}

TEST_F(object_directory_test, calls_an_object_outside_the_heap_damage) {
    const std::uint64_t end = base::to_bytes(files_->frontier());
    const auto is_read = [&](std::uint64_t offset, std::uint64_t count, std::uint64_t type_size) {
        object_entry entry = entry_of(object_kind::named, "a", offset);
        entry.count = count;
        entry.type_size = type_size;
        object_directory writer(*files_);
        must(writer.insert(entry));
        object_directory reader(*files_);
        const auto found = reader.find(object_kind::named, "a");
        EXPECT_TRUE(found.ok() || found.error().code == failure_code::corrupt);
        std::memset(files_->objects() + base::page_size, 0, 2 * cell_size);
        return found.ok();
    };
    EXPECT_TRUE(is_read(end - 64, 8, 8));
    EXPECT_FALSE(is_read(end - 64, 9, 8));
    EXPECT_FALSE(is_read(end, 0, 8));
    EXPECT_FALSE(is_read(end - 8, 0, 4096)) << "was: who looked at the object looked beyond the heap";
    EXPECT_FALSE(is_read(~std::uint64_t{0}, 1, 1));
    EXPECT_FALSE(is_read(0, std::uint64_t{1} << 63, 2));
}

// --- the model ---

class model {
public:
    using objects = std::map<std::uint64_t, object_entry>;

    void change(object_directory& directory, std::mt19937_64& random) {
        const auto choice = random() % 10;
        if (choice < 5 || present_.empty()) {
            insert(directory, random);
        } else if (choice < 8) {
            const auto victim = pick(random);
            must(directory.erase_at(victim->first));
            present_.erase(victim);
        } else {
            const auto target = pick(random);
            target->second.description = std::string(random() % 300, 'd');
            must(directory.describe_at(target->first, target->second.description));
        }
    }
    void commit() { committed_ = present_; }
    void crash() { present_ = committed_; }

    void expect_equal(object_directory& directory) const {
        std::map<object_kind, std::uint64_t> counts;
        for (const auto& [offset, expected] : present_) {
            ++counts[expected.kind];
            const auto at = must(directory.find_at(offset));
            ASSERT_TRUE(at.has_value()) << offset;
            EXPECT_TRUE(same(*at, expected)) << offset;
            if (expected.kind != object_kind::anonymous) {
                const auto found = must(directory.find(
                    expected.kind, expected.kind == object_kind::unique ? expected.type : expected.name));
                ASSERT_TRUE(found.has_value()) << offset;
                EXPECT_EQ(found->offset, offset);
            }
        }
        for (const auto kind : {object_kind::named, object_kind::unique, object_kind::anonymous}) {
            EXPECT_EQ(must(directory.count(kind)), counts[kind]);
            EXPECT_EQ(must(directory.list(kind)).size(), counts[kind]);
        }
    }

private:
    objects::iterator pick(std::mt19937_64& random) {
        const auto next = present_.lower_bound(random() % (64 * 4096));
        return next == present_.end() ? present_.begin() : next;
    }
    void insert(object_directory& directory, std::mt19937_64& random) {
        constexpr object_kind kinds[] = {object_kind::named, object_kind::unique, object_kind::anonymous};
        const std::string name = fmt::format("{:0>{}}", random() % 3000, 1 + random() % (random() % 8 == 0 ? 900 : 60));
        object_entry entry = entry_of(kinds[random() % 3], name, random() % 4096 * 64);
        const auto key = entry.kind == object_kind::unique ? entry.type : entry.name;
        const bool taken = entry.kind != object_kind::anonymous && must(directory.find(entry.kind, key)).has_value();
        if (present_.contains(entry.offset)) {
            EXPECT_FALSE(directory.insert(entry).ok());
            return;
        }
        EXPECT_EQ(directory.insert(entry).ok(), !taken);
        if (!taken) {
            present_.emplace(entry.offset, entry);
        }
    }

    objects present_;
    objects committed_;
};

TEST_F(object_directory_test, equals_a_model) {
    std::mt19937_64 random(11);
    model expected;
    for (int round = 0; round < 60; ++round) {
        for (int i = 0; i < 80; ++i) {
            expected.change(*objects_, random);
        }
        if (random() % 2 == 0) {
            commit();
            expected.commit();
        }
        if (random() % 3 == 0) {
            reopen();
            expected.crash();
        }
        expected.expect_equal(*objects_);
        EXPECT_THAT(problems(), IsEmpty());
        ASSERT_FALSE(HasFailure()) << "round " << round;
    }
    EXPECT_GT(files_->objects_size(), 64 * base::kibibyte) << "grown more than once";
}

TEST_F(object_directory_test, uses_the_space_of_erased_objects_again) {
    for (std::uint64_t i = 0; i < 2000; ++i) {
        must(objects_->insert(entry_of(object_kind::named, fmt::format("object {}", i), 64 * i)));
    }
    const std::uint64_t size = files_->objects_size();
    for (int round = 0; round < 5; ++round) {
        for (std::uint64_t i = 0; i < 2000; ++i) {
            must(objects_->erase_at(64 * i));
        }
        for (std::uint64_t i = 0; i < 2000; ++i) {
            must(objects_->insert(entry_of(object_kind::named, fmt::format("object {}", i), 64 * i)));
        }
    }
    EXPECT_EQ(files_->objects_size(), size);
}

}  // namespace
}  // namespace holdfast::heap
