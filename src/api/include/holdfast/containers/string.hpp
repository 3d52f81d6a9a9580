// Strings in a heap: up to 22 chars (fewer of wider types) lie inside the string, longer ones in a block of their own.
//
//     auto* title =
//         heap.construct<holdfast::string>("title")("a heap that outlives its process", heap.get_allocator<char>());
//
// A string compares with and can be assigned from std::string_view; std::string_view(*title) is a view of it.
#pragma once

#include <string>

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

/// Between two heaps: copies the text of both. (Boost's member swap() takes the memory as it is: use it within one
/// heap.)
template <class Char, class Traits, class Allocator>
    requires requires(const Allocator& of) { of.key(); }
void swap(boost::container::basic_string<Char, Traits, Allocator>& a,
          boost::container::basic_string<Char, Traits, Allocator>& b) {
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
