// Strings in a heap: up to 22 chars (fewer of wider types) lie inside the string, longer ones in a block.
//
//     auto* title =
//         heap.construct<holdfast::string>("title")("a heap that outlives its process", heap.get_allocator<char>());
//
// A string compares with and can be assigned from std::string_view; std::string_view(*title) is a view of it. Unlike
// std::string, insert() and replace() do not take a part of the string itself: copy it first.
#pragma once

#include <string>
#include <utility>

#include <boost/container/string.hpp>
#include <holdfast/allocator.hpp>
#include <holdfast/detail/heap_bound.hpp>
#include <holdfast/hash.hpp>

namespace holdfast {

template <class Char, class Traits = std::char_traits<Char>, class Allocator = allocator<Char>>
using basic_string = boost::container::basic_string<Char, Traits, Allocator>;
using string = basic_string<char>;
using wstring = basic_string<wchar_t>;
using u8string = basic_string<char8_t>;
using u16string = basic_string<char16_t>;
using u32string = basic_string<char32_t>;

/// Between two heaps: copies the text of both.
template <class Char, class Traits, class Allocator>
    requires requires(const Allocator& of) { of.key(); }
void swap(boost::container::basic_string<Char, Traits, Allocator>& a,
          boost::container::basic_string<Char, Traits, Allocator>& b) {
    if (&a == &b) {
        return;
    }
    if (a.get_allocator() == b.get_allocator()) {
        boost::container::basic_string<Char, Traits, Allocator> moved(std::move(a));
        a = std::move(b);
        b = std::move(moved);
        return;
    }
    detail::swap_containers<boost::container::basic_string<Char, Traits, Allocator>>(a, b);
}

namespace container {
using holdfast::basic_string;
using holdfast::string;
using holdfast::u16string;
using holdfast::u32string;
using holdfast::u8string;
using holdfast::wstring;
}  // namespace container

}  // namespace holdfast

// Boost's member swap() takes the other string's memory, whatever its heap. With other traits or allocators use swap(a,
// b).
#define HF_STRING_MEMBERS(character, allocator)                                                         \
    template <>                                                                                         \
    inline void boost::container::basic_string<character, std::char_traits<character>,                  \
                                               holdfast::allocator<character>>::swap(basic_string& x) { \
        holdfast::swap(*this, x);                                                                       \
    }
HF_STRING_MEMBERS(char, allocator)
HF_STRING_MEMBERS(char, fallback_allocator)
HF_STRING_MEMBERS(wchar_t, allocator)
HF_STRING_MEMBERS(wchar_t, fallback_allocator)
HF_STRING_MEMBERS(char8_t, allocator)
HF_STRING_MEMBERS(char8_t, fallback_allocator)
HF_STRING_MEMBERS(char16_t, allocator)
HF_STRING_MEMBERS(char16_t, fallback_allocator)
HF_STRING_MEMBERS(char32_t, allocator)
HF_STRING_MEMBERS(char32_t, fallback_allocator)
#undef HF_STRING_MEMBERS
