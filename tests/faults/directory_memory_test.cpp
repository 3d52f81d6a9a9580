// The directory of objects, with every allocation of memory in each of its changes failing: the change is as if it had
// not been asked for, in the index that lives on in this process, on media, and after the heap was opened again.
#include <functional>
#include <memory>
#include <new>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heap/objects/object_directory.hpp"
#include "heap/objects/type_registry.hpp"
#include "interposer.hpp"
#include "segment/test_support.hpp"

namespace holdfast::faults {
namespace {

using heap::object_directory;
using heap::object_entry;
using heap::object_kind;
using segment::must;
using testing::IsEmpty;

object_entry object(object_kind kind, const std::string& name, std::uint64_t offset) {
    object_entry made;
    made.kind = kind;
    (kind == object_kind::unique ? made.type : made.name) = kind == object_kind::anonymous ? "" : name;
    made.offset = offset;
    made.count = 3;
    made.type_size = 4;
    return made;
}

heap::type_description type(std::uint32_t number, std::size_t pointers) {
    heap::type_description made{number, 8 * (pointers + 1), 0, {}, fmt::format("type {}", number)};
    for (std::size_t i = 0; i < pointers; ++i) {
        made.pointers.push_back(static_cast<std::uint32_t>(8 * i));
    }
    return made;
}

/// Names longer than what a std::string holds within itself.
std::string long_name(std::uint64_t i) { return fmt::format("an object with a long name, number {}", i); }

/// All that a directory says, by each of its indexes.
std::vector<std::string> content(object_directory& of) {
    std::vector<std::string> all;
    const auto say = [&](const object_entry& each) {
        all.push_back(fmt::format("{} {} {} {} {} {}", static_cast<int>(each.kind), each.name, each.type,
                                  each.description, each.offset, each.count));
    };
    for (const auto kind : {object_kind::named, object_kind::unique, object_kind::anonymous}) {
        all.push_back(fmt::format("{} of them", must(of.count(kind))));
        for (const object_entry& each : must(of.list(kind))) {
            say(each);
            if (kind != object_kind::anonymous) {
                say(must(of.find(kind, kind == object_kind::unique ? each.type : each.name)).value());
            }
            say(must(of.find_at(each.offset)).value());
        }
    }
    all.push_back(must(of.heap_description()));
    for (const heap::type_record& each : must(of.types())) {
        all.push_back(fmt::format("type {} {} {} {}", each.number, each.size, each.pointers.size(), each.name));
    }
    return all;
}

std::vector<std::string> content(const heap::type_registry& of) {
    std::vector<std::string> all;
    for (const auto& [number, each] : of.entries()) {
        all.push_back(fmt::format("type {} {} {} {} {}", number, each.described, each.description.size,
                                  each.description.pointers.size(), each.description.name));
    }
    return all;
}

struct change {
    const char* name;
    std::function<base::result<void>(object_directory&, heap::type_registry&)> make;
    friend void PrintTo(const change& of, std::ostream* out) { *out << of.name; }
};

change insertion(const char* name, object_kind kind, std::uint64_t offset, std::size_t description) {
    object_entry entry = object(kind, fmt::format("another object with a long name, at {}", offset), offset);
    entry.description.assign(description, 'd');
    return {name, [entry](object_directory& objects, heap::type_registry&) { return objects.insert(entry); }};
}

/// A heap with a few objects of each kind, descriptions, and a type.
class described_heap {
public:
    described_heap() {
        segment::creation_options options;
        options.segment_size = segment::minimum_segment_size;
        options.mapping.reservation = base::gibibyte;
        files_ = must(segment::heap_files::create(persist::posix_storage(), path_, options));
        must(files_->grow({1}));
        objects_ = std::make_unique<object_directory>(*files_);
        for (std::uint64_t i = 1; i <= 9; ++i) {
            constexpr object_kind kinds[] = {object_kind::named, object_kind::unique, object_kind::anonymous};
            must(objects_->insert(object(kinds[i % 3], long_name(i), 64 * i)));
        }
        must(objects_->describe_heap("the heap"));
        must(types_.add(*objects_, type(5, 1)));
        must(objects_->erase_at(64 * 5));
    }

    /// Whether the change was made although the n-th allocation in it was to fail.
    bool makes(const change& wanted, std::uint64_t nth) {
        static_cast<void>(must(objects_->count(object_kind::named)));  // what a failure made it forget is read before
        bool made = false;
        arm({call::memory, nth, false, 0});
        try {
            made = wanted.make(*objects_, types_).ok();
        } catch (const std::bad_alloc&) {
            made = false;
        }
        disarm();
        return made;
    }
    void expect(const std::vector<std::string>& objects, const std::vector<std::string>& types) {
        EXPECT_EQ(content(*objects_), objects);
        EXPECT_EQ(content(types_), types);
        object_directory again(*files_);
        EXPECT_EQ(content(again), objects) << "on media";
        std::vector<std::string> problems;
        const auto any_size = [](std::uint64_t) { return base::mebibyte; };
        objects_->check(problems, any_size);
        again.check(problems, any_size);
        EXPECT_THAT(problems, IsEmpty());
    }
    void reopen() {
        must(files_->commit({}));
        objects_.reset();
        files_.reset();
        files_ = must(segment::heap_files::open(persist::posix_storage(), path_, persist::access_mode::read_write, {}));
        objects_ = std::make_unique<object_directory>(*files_);
    }
    [[nodiscard]] std::vector<std::string> objects() { return content(*objects_); }
    [[nodiscard]] std::vector<std::string> types() const { return content(types_); }
    [[nodiscard]] std::uint64_t bytes() const { return files_->objects_size(); }

private:
    segment::test_directory directory_;
    std::string path_ = directory_.path("heap");
    std::unique_ptr<segment::heap_files> files_;
    std::unique_ptr<object_directory> objects_;
    heap::type_registry types_;
};

class directory_without_memory : public testing::TestWithParam<change> {
protected:
    static constexpr std::uint64_t most = 100;
};

TEST_P(directory_without_memory, a_change_is_made_or_is_as_if_it_had_not_been_asked_for) {
    described_heap heap;
    const auto objects = heap.objects();
    const auto types = heap.types();
    std::uint64_t nth = 1;
    for (; nth < most && !heap.makes(GetParam(), nth); ++nth) {
        SCOPED_TRACE(nth);
        ASSERT_EQ(fired(), 1U) << "it failed for another reason";
        heap.expect(objects, types);
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_LT(nth, most);
    EXPECT_GT(nth, 1U) << "no allocation was made to fail";
    const auto changed = heap.objects();
    EXPECT_NE(changed, objects);
    heap.expect(changed, heap.types());
    heap.reopen();
    heap.expect(changed, heap.types());
}

/// Changes for which there is room.
class directory_without_memory_with_room : public directory_without_memory {};

TEST_P(directory_without_memory_with_room, changes_that_fail_use_no_cells_up) {
    std::uint64_t end = 1;
    for (described_heap other; end < most && !other.makes(GetParam(), end);) {
        ++end;
    }
    described_heap heap;
    const std::uint64_t bytes = heap.bytes();
    // So few that a leak would not use up all: to grow without memory would find the lost ones again.
    for (int round = 0; round < 100; ++round) {
        for (std::uint64_t nth = 1; nth < end; ++nth) {
            ASSERT_FALSE(heap.makes(GetParam(), nth));
        }
    }
    EXPECT_TRUE(heap.makes(GetParam(), 0));
    EXPECT_EQ(heap.bytes(), bytes);
    constexpr std::size_t most_of_the_rest = 50'000;
    EXPECT_TRUE(heap.makes(insertion("the rest", object_kind::named, 128'000, most_of_the_rest), 0));
    EXPECT_EQ(heap.bytes(), bytes);
}

change description(const char* name, std::uint64_t offset, std::size_t bytes) {
    const std::string text(bytes, 'd');
    return {name, [=](object_directory& objects, heap::type_registry&) { return objects.describe_at(offset, text); }};
}

change heap_description(const char* name, std::size_t bytes) {
    const std::string text(bytes, 'd');
    return {name, [=](object_directory& objects, heap::type_registry&) { return objects.describe_heap(text); }};
}

change type_description(const char* name, const heap::type_description& wanted) {
    return {name,
            [wanted](object_directory& objects, heap::type_registry& types) { return types.add(objects, wanted); }};
}

change erasure(const char* name, std::uint64_t offset) {
    return {name, [=](object_directory& objects, heap::type_registry&) { return objects.erase_at(offset); }};
}

/// More than what the directory of so few objects has free.
constexpr std::size_t too_long = 200'000;

std::vector<change> with_room() {
    return {insertion("named", object_kind::named, 64'000, 0),
            insertion("unique", object_kind::unique, 64'000, 100),
            insertion("anonymous", object_kind::anonymous, 64'000, 0),
            description("of_a_named", 192, 500),
            description("of_a_unique", 64, 10),
            description("of_an_anonymous", 128, 500),
            heap_description("of_the_heap", 1000),
            type_description("new_type", type(7, 50)),
            type_description("type_again", type(5, 50)),
            erasure("of_a_named_one", 192),
            erasure("of_a_unique_one", 64),
            erasure("of_an_anonymous_one", 128)};
}

std::vector<change> all_changes() {
    std::vector<change> all = with_room();
    all.push_back(insertion("named_and_grown", object_kind::named, 64'000, too_long));
    all.push_back(description("and_grown", 192, too_long));
    all.push_back(heap_description("of_the_heap_and_grown", too_long));
    all.push_back(type_description("new_type_and_grown", type(7, too_long / 4)));
    all.push_back(type_description("type_again_and_grown", type(5, too_long / 4)));
    return all;
}

constexpr auto name_of_change = [](const auto& each) { return std::string(each.param.name); };

INSTANTIATE_TEST_SUITE_P(changes, directory_without_memory, testing::ValuesIn(all_changes()), name_of_change);
INSTANTIATE_TEST_SUITE_P(changes, directory_without_memory_with_room, testing::ValuesIn(with_room()), name_of_change);

TEST(directory_without_memory_yet, the_first_description_of_a_heap_is_made_or_not) {
    segment::test_directory directory;
    segment::creation_options options;
    options.segment_size = segment::minimum_segment_size;
    options.mapping.reservation = base::gibibyte;
    const auto files = must(segment::heap_files::create(persist::posix_storage(), directory.path("heap"), options));
    must(files->grow({1}));
    object_directory objects(*files);
    const std::string text(1000, 'd');
    bool made = false;
    for (std::uint64_t nth = 1; nth < 100 && !made; ++nth) {
        arm({call::memory, nth, false, 0});
        try {
            made = objects.describe_heap(text).ok();
        } catch (const std::bad_alloc&) {
            made = false;
        }
        disarm();
        EXPECT_FALSE(made && nth == 1) << "no allocation was made to fail";
        object_directory again(*files);
        EXPECT_EQ(must(again.heap_description()), made ? text : "") << nth;
        EXPECT_EQ(must(objects.heap_description()), made ? text : "") << nth;
    }
    EXPECT_TRUE(made);
}

}  // namespace
}  // namespace holdfast::faults
