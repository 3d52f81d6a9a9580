#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <type_traits>
#include <unordered_set>

#include <gtest/gtest.h>
#include <holdfast/ptr.hpp>

namespace holdfast {
namespace {

struct first_base {
    int a = 1;
};
struct second_base {
    int b = 2;
};
struct derived : first_base, second_base {
    int c = 3;
};
struct polymorphic {
    virtual ~polymorphic() = default;
};
struct more_polymorphic : polymorphic {};
struct incomplete;

std::uint64_t word_of(const void* pointer) {
    std::uint64_t word = 0;
    std::memcpy(&word, pointer, sizeof(word));
    return word;
}
void set_word(void* pointer, std::uint64_t word) { std::memcpy(pointer, &word, sizeof(word)); }
constexpr std::uint64_t stamp_mask = ~((std::uint64_t{1} << 48) - 1);

TEST(ptrs, zeroed_memory_is_null) {
    alignas(8) unsigned char zeros[8] = {};
    const auto* pointer = reinterpret_cast<const ptr<int>*>(zeros);
    EXPECT_EQ(pointer->get(), nullptr);
    EXPECT_FALSE(*pointer);
    EXPECT_TRUE(*pointer == nullptr);
    EXPECT_EQ(word_of(&*std::make_unique<ptr<int>>()), 0U);
}

TEST(ptrs, to_themselves_and_to_their_surroundings_are_not_null) {
    struct node {
        char before = 0;
        ptr<void> self;
        char after = 0;
    } one;
    one.self = &one.self;
    EXPECT_TRUE(one.self);
    EXPECT_EQ(one.self.get(), static_cast<void*>(&one.self));
    one.self = &one.before;
    EXPECT_EQ(one.self.get(), static_cast<void*>(&one.before));
    one.self = &one.after;
    EXPECT_EQ(one.self.get(), static_cast<void*>(&one.after));
}

TEST(ptrs, hold_the_highest_and_lowest_user_addresses) {
    auto* const highest = reinterpret_cast<char*>((std::uintptr_t{1} << 47) - 1);
    auto* const lowest = reinterpret_cast<char*>(1);
    ptr<char> pointer = highest;
    EXPECT_EQ(pointer.get(), highest);
    pointer = lowest;
    EXPECT_EQ(pointer.get(), lowest);
}

TEST(ptrs, follow_their_target_when_both_move) {
    struct pair {
        ptr<int> pointer;
        int target;
    };
    alignas(pair) unsigned char from[sizeof(pair)];
    alignas(pair) unsigned char to[sizeof(pair)];
    auto* const first = ::new (from) pair{nullptr, 7};
    first->pointer = &first->target;
    std::memcpy(to, from, sizeof(pair));  // as remapping does: all of the memory, not the pointer alone
    const auto* const second = reinterpret_cast<const pair*>(to);
    EXPECT_EQ(second->pointer.get(), &second->target);
}

TEST(ptrs, keep_their_stamp_when_assigned) {
    int target = 0;
    ptr<int> pointer;
    set_word(&pointer, std::uint64_t{0xABCD} << 48);
    EXPECT_EQ(pointer, nullptr);
    const ptr<int> other = &target;
    pointer = other;
    EXPECT_EQ(pointer.get(), &target);
    EXPECT_EQ(word_of(&pointer) & stamp_mask, std::uint64_t{0xABCD} << 48);
    pointer = nullptr;
    EXPECT_FALSE(pointer);
    EXPECT_EQ(word_of(&pointer), std::uint64_t{0xABCD} << 48);
    pointer = &target;
    ++pointer;
    EXPECT_EQ(word_of(&pointer) & stamp_mask, std::uint64_t{0xABCD} << 48);
    ptr<int> unstamped;
    swap(pointer, unstamped);
    EXPECT_EQ(word_of(&pointer) & stamp_mask, std::uint64_t{0xABCD} << 48);
    EXPECT_EQ(word_of(&unstamped) & stamp_mask, 0U);
    EXPECT_EQ(unstamped.get(), &target + 1);
    const ptr<int> copy = pointer;
    EXPECT_EQ(word_of(&copy) & stamp_mask, 0U);
}

TEST(ptrs, convert_as_raw_pointers_do) {
    derived object;
    const ptr<derived> down = &object;
    const ptr<second_base> up = down;
    EXPECT_EQ(up.get(), static_cast<second_base*>(&object));
    EXPECT_EQ(static_cast<ptr<derived>>(up).get(), &object);
    const ptr<const derived> constant = down;
    EXPECT_EQ(constant.get(), &object);
    const ptr<void> erased = down;
    EXPECT_EQ(static_cast<ptr<derived>>(erased).get(), &object);
    static_assert(!std::is_convertible_v<ptr<const int>, ptr<int>>);
    static_assert(!std::is_constructible_v<ptr<int>, ptr<const int>>);
    static_assert(!std::is_convertible_v<ptr<void>, ptr<int>>);
    static_assert(!std::is_constructible_v<ptr<int>, ptr<double>>);
    static_assert(sizeof(ptr<incomplete>) == 8);
    const ptr<second_base> null_up = ptr<derived>{};
    EXPECT_EQ(null_up, nullptr);
    EXPECT_EQ(static_cast<ptr<derived>>(null_up), nullptr);
}

TEST(ptrs, are_cast_by_name) {
    more_polymorphic object;
    const ptr<polymorphic> pointer = &object;
    EXPECT_EQ(dynamic_pointer_cast<more_polymorphic>(pointer).get(), &object);
    EXPECT_EQ(static_pointer_cast<more_polymorphic>(pointer).get(), &object);
    polymorphic plain;
    EXPECT_EQ(dynamic_pointer_cast<more_polymorphic>(ptr<polymorphic>{&plain}), nullptr);
    const ptr<const int> constant;
    EXPECT_EQ(const_pointer_cast<int>(constant), nullptr);
    EXPECT_EQ(ptr<derived>::static_cast_from(ptr<first_base>{}), nullptr);
    EXPECT_EQ(to_raw_pointer(pointer), &object);
    EXPECT_EQ(to_raw_pointer(pointer.get()), &object) << "for templates that take either";
}

TEST(ptrs, take_the_literal_zero_as_null) {
    int target = 0;
    ptr<int> pointer(0);  // NOLINT(modernize-use-nullptr): the subject
    EXPECT_FALSE(pointer);
    pointer = &target;
    pointer = 0;  // NOLINT(modernize-use-nullptr): the subject
    EXPECT_FALSE(pointer);
    pointer = {};
    EXPECT_FALSE(pointer);
}

TEST(ptrs, are_random_access_iterators) {
    static_assert(std::random_access_iterator<ptr<int>>);
    int array[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    ptr<int> first = array;
    const ptr<int> last = array + 10;
    EXPECT_EQ(last - first, 10);
    EXPECT_EQ(*(first + 3), 3);
    EXPECT_EQ(*(3 + first), 3);
    EXPECT_EQ(*(last - 1), 9);
    EXPECT_EQ(first[4], 4);
    EXPECT_EQ(*first++, 0);
    EXPECT_EQ(*++first, 2);
    EXPECT_EQ(*first--, 2);
    EXPECT_EQ(*--first, 0);
    first += 5;
    first -= 2;
    EXPECT_EQ(*first, 3);
    EXPECT_LT(first, last);
    EXPECT_GE(last, first);
    EXPECT_TRUE(first == array + 3);
    EXPECT_TRUE(array + 3 == first);
    EXPECT_TRUE(first < array + 4);
    const ptr<const int> constant = first;
    EXPECT_TRUE(constant == first);
    int sum = 0;
    for (ptr<int> i = array; i != last; ++i) {
        sum += *i;
    }
    EXPECT_EQ(sum, 45);
}

TEST(ptrs, satisfy_pointer_traits) {
    using traits = std::pointer_traits<ptr<int>>;
    static_assert(std::is_same_v<traits::element_type, int>);
    static_assert(std::is_same_v<traits::difference_type, std::ptrdiff_t>);
    static_assert(std::is_same_v<traits::rebind<void>, ptr<void>>);
    int target = 5;
    EXPECT_EQ(traits::pointer_to(target).get(), &target);
    EXPECT_EQ(std::to_address(ptr<int>{&target}), &target);
    EXPECT_EQ(std::to_address(ptr<int>{}), nullptr);
    std::unordered_set<ptr<int>> hashed;
    hashed.insert(&target);
    EXPECT_TRUE(hashed.contains(ptr<int>{&target}));
}

// A ptr in a local variable to memory elsewhere: a compiler that took the sum of an address and a distance for an
// address within the same object would reorder these stores and loads (GCC bug 49330).
__attribute__((noinline)) int store_through_ptr_then_load(int* target) {
    *target = 1;
    const ptr<int> local = target;
    *local = 2;
    return *target;
}
int global_target = 0;
__attribute__((noinline)) int store_to_global_through_ptr(const ptr<int>& elsewhere) {
    global_target = 1;
    const ptr<int> local = elsewhere;  // NOLINT(performance-unnecessary-copy-initialization): the subject
    *local = 2;
    return global_target;
}

TEST(ptrs, on_the_stack_alias_what_they_point_to) {
    auto target = std::make_unique<int>(0);
    EXPECT_EQ(store_through_ptr_then_load(target.get()), 2);
    const ptr<int> pointer = &global_target;
    EXPECT_EQ(store_to_global_through_ptr(pointer), 2);
    int local = 1;
    const ptr<int> to_local = &local;
    *to_local = 2;
    EXPECT_EQ(local, 2);
}

TEST(ptrs, hold_low_bits_for_boost_intrusive_wherever_they_are_mapped) {
    using bits = boost::intrusive::pointer_plus_bits<ptr<std::uint64_t>, 3>;
    struct block {
        ptr<std::uint64_t> null_with_bits;
        ptr<std::uint64_t> inside;
        std::uint64_t target = 0;
    };
    block here;
    set_word(&here.inside, std::uint64_t{0xABCD} << 48);
    for (std::size_t value = 0; value < 8; ++value) {
        bits::set_bits(here.null_with_bits, value);
        bits::set_bits(here.inside, value);
        bits::set_pointer(here.inside, &here.target);
        block elsewhere;
        std::memcpy(static_cast<void*>(&elsewhere), static_cast<const void*>(&here), sizeof here);
        EXPECT_EQ(bits::get_bits(elsewhere.null_with_bits), value);
        EXPECT_EQ(bits::get_pointer(elsewhere.null_with_bits), nullptr);
        EXPECT_EQ(bits::get_bits(elsewhere.inside), value);
        EXPECT_EQ(bits::get_pointer(elsewhere.inside).get(), &elsewhere.target);
        bits::set_pointer(here.inside, nullptr);
        EXPECT_EQ(bits::get_bits(here.inside), value);
        EXPECT_EQ(bits::get_pointer(here.inside), nullptr);
        EXPECT_EQ(word_of(&here.inside) & stamp_mask, std::uint64_t{0xABCD} << 48) << "the stamp is the word's";
    }
    bits::set_bits(here.null_with_bits, 0);
    EXPECT_EQ(word_of(&here.null_with_bits), 0U);
    EXPECT_EQ((boost::intrusive::max_pointer_plus_bits<ptr<void>, 8>::value), 3U);
    EXPECT_EQ((boost::intrusive::max_pointer_plus_bits<ptr<void>, 2>::value), 1U);
    EXPECT_EQ((boost::intrusive::max_pointer_plus_bits<ptr<void>, 1>::value), 0U);
}

}  // namespace
}  // namespace holdfast
