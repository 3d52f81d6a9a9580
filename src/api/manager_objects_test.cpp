// Named, unique and anonymous objects: construction, search, destruction, and what is said of them.
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "api/manager_test_support.hpp"

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Throws in the constructor that is told to, and counts who lives.
struct volatile_object {
    explicit volatile_object(int new_value = 0) : value(new_value) {
        if (until_failure-- == 0) {
            throw std::runtime_error("the constructor failed");
        }
        ++alive;
    }
    volatile_object(const volatile_object&) = delete;
    volatile_object& operator=(const volatile_object&) = delete;
    ~volatile_object() {
        --alive;
        destroyed.push_back(value);
    }

    int value;
    static inline int until_failure = -1;
    static inline int alive = 0;
    static inline std::vector<int> destroyed;
};

struct pair_of_numbers {
    int a;
    double b;
};

TEST_F(manager_test, constructs_objects_that_are_found_again) {
    {
        manager heap = create();
        int* const number = heap.construct<int>("number")(42);
        EXPECT_EQ(heap.find<int>("number"), (std::pair<int*, std::size_t>(number, 1)));
        const auto* const both = heap.construct<pair_of_numbers>("both")(pair_of_numbers{1, 2.5});
        EXPECT_EQ(both->b, 2.5);
        EXPECT_EQ(heap.find<int>("nothing"), (std::pair<int*, std::size_t>(nullptr, 0)));
    }
    manager heap = open();
    EXPECT_EQ(*heap.find<int>("number").first, 42);
    EXPECT_EQ(heap.find<pair_of_numbers>("both").first->a, 1);
    EXPECT_THAT(heap.check(true), IsEmpty());
}

TEST_F(manager_test, constructs_arrays_from_the_same_arguments) {
    manager heap = create();
    const int* const numbers = heap.construct<int>("numbers")[1000](7);
    EXPECT_EQ(numbers[0] + numbers[999], 14);
    EXPECT_EQ(heap.find<int>("numbers").second, 1000U);
    const auto* const words =
        heap.construct<string>("words")[3]("a word that is too long for the string itself", heap.get_allocator<char>());
    EXPECT_EQ(words[0], words[2]);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.construct<int>("none")[0](7)); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.construct<int>("all")[std::size_t{1} << 62](7)); }),
              errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.construct<char>("all")[std::size_t{1} << 62]('x')); }),
              errc::out_of_memory);
    EXPECT_TRUE(heap.destroy<string>("words"));
    EXPECT_TRUE(heap.destroy<int>("numbers"));
    EXPECT_TRUE(heap.all_memory_deallocated());
}

TEST_F(manager_test, constructs_arrays_from_iterators) {
    manager heap = create();
    const std::array<int, 3> numbers{3, 1, 2};
    const std::array<double, 3> fractions{0.5, 0.25, 0.125};
    const int* const copy = heap.construct_it<int>("copy")[3](numbers.begin());
    EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), copy));
    const auto* const pairs =
        heap.construct_it<std::pair<int, double>>(anonymous_instance)[3](numbers.begin(), fractions.begin());
    EXPECT_EQ(pairs[2], (std::pair<int, double>(2, 0.125)));
    EXPECT_EQ(heap.find_or_construct_it<int>("copy")[3](numbers.rbegin()), copy);
    EXPECT_EQ(heap.find_or_construct_it<int>("other")[1](numbers.begin())[0], 3);
}

TEST_F(manager_test, refuses_a_name_twice) {
    manager heap = create();
    int* const first = heap.construct<int>("name")(1);
    const usage before = usage_of(heap);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.construct<int>("name")(2)); }), errc::name_exists);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.construct<double>("name")(2)); }), errc::name_exists);
    EXPECT_EQ(heap.construct<int>("name", std::nothrow)(2), nullptr);
    EXPECT_EQ(heap.construct<double>("name", std::nothrow)(2), nullptr);
    EXPECT_EQ(usage_of(heap), before);
    EXPECT_EQ(*first, 1);
    EXPECT_NE(heap.construct<int>("another", std::nothrow)(2), nullptr);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.construct<int>("")(1)); }), errc::invalid_argument);
}

TEST_F(manager_test, finds_or_constructs) {
    manager heap = create();
    int* const made = heap.find_or_construct<int>("name")(1);
    EXPECT_EQ(heap.find_or_construct<int>("name")(2), made);
    EXPECT_EQ(*made, 1);
    EXPECT_EQ(heap.find_or_construct<int>("name")[10](2), made) << "as it was made, whatever the count";
    EXPECT_EQ(heap.get_instance_length(made), 1U);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.find_or_construct<double>("name")(1)); }), errc::type_mismatch);
}

TEST_F(manager_test, tells_types_apart) {
    manager heap = create();
    static_cast<void>(heap.construct<int>("name")(1));
    try {
        static_cast<void>(heap.find<double>("name"));
        FAIL();
    } catch (const error& thrown) {
        EXPECT_EQ(thrown.reason(), errc::type_mismatch);
        EXPECT_EQ(thrown.path(), path());
        EXPECT_THAT(thrown.field(), HasSubstr("name"));
        EXPECT_THAT(thrown.found(), HasSubstr("type int (i) of 4 bytes"));
        EXPECT_THAT(thrown.expected(), HasSubstr("type double (d) of 8 bytes"));
    }
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.find<unsigned>("name")); }), errc::type_mismatch);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.destroy<unsigned>("name")); }), errc::type_mismatch);
    EXPECT_NE(heap.find<int>("name").first, nullptr);
}

TEST_F(manager_test, destroys_in_reverse_order) {
    manager heap = create();
    volatile_object::destroyed.clear();
    const std::array<int, 4> values{1, 2, 3, 4};
    static_cast<void>(heap.construct_it<volatile_object>("array")[4](values.begin()));
    EXPECT_EQ(volatile_object::alive, 4);
    EXPECT_TRUE(heap.destroy<volatile_object>("array"));
    EXPECT_THAT(volatile_object::destroyed, ElementsAre(4, 3, 2, 1));
    EXPECT_EQ(volatile_object::alive, 0);
    EXPECT_FALSE(heap.destroy<volatile_object>("array"));
    EXPECT_FALSE(heap.destroy<volatile_object>(unique_instance));
    EXPECT_FALSE(heap.destroy<volatile_object>(anonymous_instance));
    EXPECT_TRUE(heap.all_memory_deallocated());
}

TEST_F(manager_test, destroys_by_address) {
    manager heap = create();
    int* const named = heap.construct<int>("named")(1);
    int* const unique = heap.construct<int>(unique_instance)(2);
    int* const anonymous = heap.construct<int>(anonymous_instance)(3);
    EXPECT_EQ(reason_of([&] { heap.destroy_ptr(reinterpret_cast<unsigned*>(named)); }), errc::type_mismatch);
    for (const int* object : {named, unique, anonymous}) {
        EXPECT_TRUE(heap.destroy_ptr(object));
        EXPECT_EQ(reason_of([&] { heap.destroy_ptr(object); }), errc::bad_address);
    }
    int outside = 0;
    EXPECT_EQ(reason_of([&] { heap.destroy_ptr(&outside); }), errc::bad_address);
    EXPECT_EQ(heap.find<int>("named").first, nullptr);
    EXPECT_EQ(heap.find<int>(unique_instance).first, nullptr);
    EXPECT_TRUE(heap.all_memory_deallocated());
}

TEST_F(manager_test, keeps_one_unique_object_of_a_type_and_any_number_of_anonymous_ones) {
    {
        manager heap = create();
        int* const number = heap.construct<int>(unique_instance)(1);
        static_cast<void>(heap.construct<double>(unique_instance)(2.0));
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.construct<int>(unique_instance)(2)); }), errc::name_exists);
        EXPECT_EQ(heap.find_or_construct<int>(unique_instance)(5), number);
        for (int i = 0; i < 10; ++i) {
            EXPECT_EQ(*heap.find_or_construct<int>(anonymous_instance)(i), i);
        }
        EXPECT_EQ(heap.find<int>(anonymous_instance).first, nullptr);
    }
    const manager heap = open();
    EXPECT_EQ(*heap.find<int>(unique_instance).first, 1);
    EXPECT_EQ(*heap.find<double>(unique_instance).first, 2.0);
    EXPECT_EQ(heap.get_num_named_objects(), 0U);
    EXPECT_EQ(heap.get_num_unique_objects(), 2U);
    EXPECT_EQ(heap.get_num_anonymous_objects(), 10U);
}

TEST_F(manager_test, takes_names_of_any_bytes) {
    manager heap = create();
    const std::string with_zero("a\0b", 3);
    const std::string long_name(3000, 'n');
    const std::string_view part = std::string_view("abcdef").substr(1, 3);
    int value = 0;
    for (const std::string& name : {with_zero, std::string("a"), long_name, std::string(part), std::string("\xff\n")}) {
        static_cast<void>(heap.construct<int>(name)(value++));
    }
    EXPECT_EQ(*heap.find<int>(std::string_view(with_zero)).first, 0);
    EXPECT_EQ(*heap.find<int>("a").first, 1);
    EXPECT_EQ(*heap.find<int>(long_name).first, 2);
    EXPECT_EQ(*heap.find<int>(part).first, 3);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.construct<int>(std::string(3 << 20, 'x'))(1)); }),
              errc::invalid_argument);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_F(manager_test, says_what_an_object_is) {
    manager heap = create();
    const auto* const array = heap.construct<double>("array")[5](1.0);
    const auto* const unique = heap.construct<pair_of_numbers>(unique_instance)();
    const auto* const anonymous = heap.construct<char>(anonymous_instance)[2]('x');
    EXPECT_EQ(heap.get_instance_name(array), "array");
    EXPECT_EQ(heap.get_instance_name(unique), typeid(pair_of_numbers).name());
    EXPECT_EQ(heap.get_instance_name(anonymous), "");
    EXPECT_EQ(heap.get_instance_kind(array), instance_kind::named);
    EXPECT_EQ(heap.get_instance_kind(unique), instance_kind::unique);
    EXPECT_EQ(heap.get_instance_kind(anonymous), instance_kind::anonymous);
    EXPECT_EQ(heap.get_instance_length(array), 5U);
    EXPECT_EQ(heap.get_instance_length(anonymous), 2U);
    EXPECT_EQ(heap.get_instance_type(array), "d");
    EXPECT_TRUE(heap.is_instance_type<double>(array));
    EXPECT_FALSE(heap.is_instance_type<float>(array));
    const object_info info = heap.object_at(unique);
    EXPECT_EQ(info.value(), unique);
    EXPECT_EQ(info.type_size(), sizeof(pair_of_numbers));
    EXPECT_TRUE(info.is_type<pair_of_numbers>());
    EXPECT_FALSE(info.is_type<double>());
    EXPECT_EQ(info.readable_type_name(), "holdfast::(anonymous namespace)::pair_of_numbers");
    EXPECT_EQ(info.offset(), heap.get_handle_from_address(unique));
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.get_instance_length(array + 1)); }), errc::bad_address);
    double outside = 0;
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.get_instance_name(&outside)); }), errc::bad_address);
}

TEST_F(manager_test, keeps_descriptions) {
    {
        manager heap = create();
        const int* const number = heap.construct<int>("number")(1);
        EXPECT_EQ(heap.get_instance_description(number), "");
        EXPECT_EQ(heap.get_description(), "");
        heap.set_instance_description(number, "first");
        heap.set_instance_description(number, "what it is for");
        heap.set_description("a heap of one number");
    }
    {
        const manager heap = open();
        EXPECT_EQ(heap.get_instance_description(heap.find<int>("number").first), "what it is for");
        EXPECT_EQ(heap.get_description(), "a heap of one number");
    }
    EXPECT_EQ(manager::get_description(path()), "a heap of one number");
}

TEST_F(manager_test, iterates_over_the_objects_that_were_there) {
    manager heap = create();
    EXPECT_TRUE(heap.named_begin() == heap.named_end());
    for (const char* name : {"b", "c", "a"}) {
        static_cast<void>(heap.construct<int>(name)(name[0]));
    }
    static_cast<void>(heap.construct<double>(unique_instance)(1.0));
    static_cast<void>(heap.construct<char>(anonymous_instance)('z'));
    std::string names;
    for (auto it = heap.named_begin(); it != heap.named_end(); ++it) {
        names += it->name();
        EXPECT_EQ(it->kind(), instance_kind::named);
        EXPECT_EQ(*static_cast<const int*>(it->value()), it->name()[0]);
        EXPECT_TRUE(heap.destroy<int>(it->name())) << "objects may go while we iterate";
    }
    EXPECT_EQ(names, "abc");
    EXPECT_EQ(heap.unique_begin()->type_name(), "d");
    EXPECT_EQ(*static_cast<const char*>((*heap.anonymous_begin()).value()), 'z');
    auto it = heap.anonymous_begin();
    EXPECT_TRUE(it++ != heap.anonymous_end());
    EXPECT_TRUE(it == heap.anonymous_end());
    EXPECT_TRUE(heap.named_begin() == heap.named_end());
}

// --- exceptions leave nothing behind ---

TEST_F(manager_test, leaves_nothing_of_an_object_whose_constructor_threw) {
    manager heap = create();
    static_cast<void>(heap.construct<int>("kept")(1));
    const usage before = usage_of(heap);
    for (int k = 0; k < 10; ++k) {
        volatile_object::until_failure = k;
        EXPECT_THROW(static_cast<void>(heap.construct<volatile_object>("array")[10]()), std::runtime_error);
        EXPECT_EQ(volatile_object::alive, 0) << k;
        EXPECT_EQ(usage_of(heap), before) << k;
        volatile_object::until_failure = k;
        EXPECT_THROW(static_cast<void>(heap.construct<volatile_object>(unique_instance)[10]()), std::runtime_error);
        volatile_object::until_failure = k;
        EXPECT_THROW(static_cast<void>(heap.find_or_construct<volatile_object>(anonymous_instance)[10]()),
                     std::runtime_error);
        volatile_object::until_failure = k;
        const std::vector<int> values(10, 1);
        EXPECT_THROW(static_cast<void>(heap.construct_it<volatile_object>("array")[10](values.begin())),
                     std::runtime_error);
        EXPECT_EQ(volatile_object::alive, 0) << k;
        EXPECT_EQ(usage_of(heap), before) << k;
    }
    volatile_object::until_failure = -1;
    EXPECT_THAT(heap.check(false), IsEmpty());
    EXPECT_NE(heap.construct<volatile_object>("array")[10](), nullptr) << "the name is free";
    EXPECT_TRUE(heap.destroy<volatile_object>("array"));
}

/// Allocates in the heap, then throws.
struct half_made {
    explicit half_made(const allocator<char>& memory) : text("text that is too long for the string itself", memory) {
        throw std::runtime_error("after a member was made");
    }
    string text;
};

TEST_F(manager_test, frees_what_members_allocated_before_the_constructor_threw) {
    manager heap = create();
    const usage before = usage_of(heap);
    EXPECT_THROW(static_cast<void>(heap.construct<half_made>("name")(heap.get_allocator<char>())), std::runtime_error);
    EXPECT_EQ(usage_of(heap), before);
    EXPECT_TRUE(heap.all_memory_deallocated());
}

/// Constructs other objects of the same heap, one of its own name among them.
struct nested {
    nested(manager& heap, const char* name) {
        static_cast<void>(heap.construct<int>(anonymous_instance)(1));
        if (name != nullptr) {
            static_cast<void>(heap.construct<int>(name)(2));
        }
    }
};

TEST_F(manager_test, lets_constructors_construct) {
    manager heap = create();
    EXPECT_NE(heap.construct<nested>("outer")(heap, "inner"), nullptr);
    EXPECT_NE(heap.find<int>("inner").first, nullptr);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.construct<nested>("self")(heap, "self")); }), errc::name_exists);
    EXPECT_EQ(*heap.find<int>("self").first, 2);
    EXPECT_THAT(heap.check(false), IsEmpty());
    int calls = 0;
    auto function = [&] {
        ++calls;
        static_cast<void>(heap.construct<int>("within")(3));
    };
    heap.atomic_func(function);
    EXPECT_EQ(calls, 1);
}

TEST_F(manager_test, leaves_nothing_of_an_object_for_which_there_is_no_memory) {
    open_options options = small_options();
    options.maximum_size = std::uint64_t{8} << 20;
    manager heap(create_only, path(), options);
    const usage before = usage_of(heap);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.construct<char>("big")[std::size_t{9} << 20]('x')); }),
              errc::out_of_memory);
    EXPECT_EQ(heap.construct<char>("big", std::nothrow)[std::size_t{9} << 20]('x'), nullptr);
    EXPECT_EQ(usage_of(heap), before);
    EXPECT_EQ(heap.find<char>("big").first, nullptr);
    EXPECT_NE(heap.construct<char>("big")[std::size_t{1} << 20]('x'), nullptr);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

}  // namespace
}  // namespace holdfast
