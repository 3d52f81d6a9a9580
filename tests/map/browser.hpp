// A page in chromium without a window, and what the page said.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::support {

struct page_view {
    std::string dom;      ///< as the page's scripts left it
    std::string console;  ///< what was written to the console, errors too

    /// The content of the element with this id, as HTML has it.
    [[nodiscard]] std::string text_of(const std::string& id) const;
    /// The attribute of the first element that has `mark` ("id=\"x\"") in its tag; "" where there is none.
    [[nodiscard]] std::string attribute(const std::string& mark, const std::string& name) const;
    [[nodiscard]] std::uint64_t number(const std::string& mark, const std::string& name) const;
};

/// Opens a file, with the fragment behind it ("#at=0x10000", or nothing). Fails the test where chromium is not there.
[[nodiscard]] page_view open_page(const std::string& file, const std::string& fragment = "");

}  // namespace holdfast::support
