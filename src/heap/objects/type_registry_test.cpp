// The registry of types: what it accepts, what it keeps, and its layout on media (golden).
#include "heap/objects/type_registry.hpp"

#include <cstring>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heap/heap.hpp"
#include "segment/test_support.hpp"

namespace holdfast::heap {
namespace {

using base::failure_code;
using persist::access_mode;
using segment::must;
using testing::HasSubstr;
using testing::IsEmpty;

const type_description pair_type{7, 48, 64, {0, 24 | raw_pointer_bit}, "pair"};

class type_registry_test : public testing::Test {
protected:
    type_registry_test() { heap_ = must(engine::create(path_, options())); }
    static engine_options options() {
        engine_options made;
        made.files.segment_size = segment::minimum_segment_size;
        made.files.mapping.reservation = base::gibibyte;
        made.accept_process_crash_only = true;
        return made;
    }
    void reopen(durability_kind durability = durability_kind::commit) {
        must(heap_->close(true));
        heap_.reset();
        engine_options wanted = options();
        wanted.durability = durability;
        heap_ = must(engine::open(path_, access_mode::read_write, wanted));
    }
    [[nodiscard]] type_registry loaded() const {
        type_registry types;
        must(types.load(heap_->objects()));
        return types;
    }
    [[nodiscard]] std::byte* record() const { return heap_->files().objects() + base::page_size; }

    segment::test_directory directory_;
    std::string path_ = directory_.path("heap");
    std::unique_ptr<engine> heap_;
};

TEST_F(type_registry_test, keeps_what_was_added_and_what_replaced_it) {
    for (const auto durability : {durability_kind::commit, durability_kind::atomic}) {
        reopen(durability);
        must(heap_->types().add(heap_->objects(), pair_type));
        type_description other = pair_type;
        other.type = 8;
        other.pointers.clear();
        must(heap_->types().add(heap_->objects(), other));
        other.stride = 0;
        must(heap_->types().add(heap_->objects(), other));
        reopen(durability);
        const type_registry types = loaded();
        ASSERT_EQ(types.entries().size(), 2U);
        EXPECT_EQ(types.find(7)->description, pair_type);
        EXPECT_EQ(types.find(8)->description, other);
        EXPECT_EQ(types.find(9), nullptr);
        EXPECT_EQ(must(heap_->objects().count(object_kind::type)), 2U);
        EXPECT_THAT(heap_->check(true), IsEmpty());
    }
}

TEST_F(type_registry_test, lies_on_media_as_the_format_says) {
    must(heap_->types().add(heap_->objects(), pair_type));
    std::string dump;
    for (int i = 0; i < 76; ++i) {
        if (i < 8 || i >= 16) {  // without the checksum
            dump += fmt::format("{:02x}{}", static_cast<unsigned>(record()[i]), i % 8 == 7 ? "\n" : " ");
        }
    }
    EXPECT_EQ(dump,
              "4f 42 4a 31 02 00 00 00\n"  // OBJ1, 2 cells
              "05 00 00 00 04 00 00 00\n"  // a type, name length
              "00 00 00 00 08 00 00 00\n"  // type length, description length
              "40 00 00 00 00 00 00 00\n"  // stride
              "07 00 00 00 00 00 00 00\n"  // number
              "30 00 00 00 00 00 00 00\n"  // size
              "00 00 00 00 00 00 00 00\n"  // reserved
              "70 61 69 72 00 00 00 00\n"  // "pair", offset 0
              "19 00 00 00 ");             // offset 24 | raw_pointer_bit
}

TEST_F(type_registry_test, refuses_descriptions_that_make_no_sense) {
    std::vector<type_description> bad(11, pair_type);
    bad[0].type = 0;
    bad[1].type = segment::type_limit;
    bad[2].size = 7;
    bad[3].size = maximum_type_size + 1;
    bad[4].stride = 40;
    bad[5].stride = 65;
    bad[6].pointers = {4};
    bad[7].pointers = {8, 0};
    bad[8].pointers = {48};
    bad[9].pointers = {2};
    bad[10].stride = maximum_type_size + 8;
    for (const type_description& each : bad) {
        const auto added = heap_->types().add(heap_->objects(), each);
        ASSERT_FALSE(added.ok());
        EXPECT_EQ(added.error().code, failure_code::invalid_argument);
    }
    EXPECT_TRUE(loaded().entries().empty());
    EXPECT_FALSE(heap_->types().add_visitor(0, [](void*, std::uint64_t, pointer_sink&) {}).ok());
}

TEST_F(type_registry_test, names_a_description_on_media_that_makes_no_sense) {
    must(heap_->objects().describe_type({3, 16, 16, {12}, "odd"}));  // the registry would refuse it
    type_registry types;
    const auto loaded = types.load(heap_->objects());
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().code, failure_code::corrupt);
    EXPECT_THAT(loaded.error().message(), HasSubstr("TYPE-3"));
    must(heap_->objects().describe_type({std::uint64_t{1} << 40U, 16, 16, {}, "far"}));
    EXPECT_FALSE(types.load(heap_->objects()).ok());
}

TEST_F(type_registry_test, a_record_that_was_changed_is_corrupt) {
    must(heap_->types().add(heap_->objects(), pair_type));
    record()[70] ^= std::byte{1};
    type_registry types;
    const auto loaded = types.load(heap_->objects());
    ASSERT_FALSE(loaded.ok());
    EXPECT_THAT(loaded.error().message(), HasSubstr("checksum"));
}

TEST_F(type_registry_test, a_visitor_outlives_a_load_and_is_not_on_media) {
    type_registry types;
    must(types.add_visitor(7, [](void*, std::uint64_t, pointer_sink&) {}));
    must(types.load(heap_->objects()));
    ASSERT_NE(types.find(7), nullptr);
    EXPECT_FALSE(types.find(7)->described);
    must(types.add(heap_->objects(), pair_type));
    EXPECT_TRUE(static_cast<bool>(types.find(7)->visitor));
    must(types.add_visitor(7, {}));
    EXPECT_TRUE(types.find(7)->described);
    EXPECT_EQ(loaded().find(7)->description, pair_type);
}

TEST_F(type_registry_test, repair_keeps_types_and_one_record_of_a_number) {
    reopen(durability_kind::atomic);
    must(heap_->types().add(heap_->objects(), pair_type));
    // A replacement cut off by a crash: a copy of the record in free cells.
    std::memcpy(record() + 4 * cell_size, record(), 2 * cell_size);
    must(heap_->objects().repair([](std::uint64_t) { return std::uint64_t{0}; }));
    EXPECT_EQ(loaded().find(7)->description, pair_type);
    EXPECT_THAT(heap_->check(false), IsEmpty());
}

}  // namespace
}  // namespace holdfast::heap
