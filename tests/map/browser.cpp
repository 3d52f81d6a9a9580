#include "browser.hpp"

#include <charconv>
#include <sstream>

#include <gtest/gtest.h>

#include "cli/program.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {

std::string page_view::text_of(const std::string& id) const {
    const std::size_t tag = dom.find("id=\"" + id + "\"");
    const std::size_t begin = dom.find('>', tag);
    const std::size_t end = dom.find("</", begin);
    if (tag == std::string::npos || end == std::string::npos) {
        ADD_FAILURE() << "no element " << id;
        return {};
    }
    return dom.substr(begin + 1, end - begin - 1);
}

std::string page_view::attribute(const std::string& mark, const std::string& name) const {
    const std::size_t at = dom.find(mark);
    if (at == std::string::npos) {
        return {};
    }
    const std::size_t begin = dom.rfind('<', at);
    const std::string tag = dom.substr(begin, dom.find('>', at) - begin);
    const std::size_t value = tag.find(" " + name + "=\"");
    if (value == std::string::npos) {
        return {};
    }
    const std::size_t first = value + name.size() + 3;
    return tag.substr(first, tag.find('"', first) - first);
}

std::uint64_t page_view::number(const std::string& mark, const std::string& name) const {
    const std::string text = attribute(mark, name);
    std::uint64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    EXPECT_TRUE(!text.empty() && parsed.ptr == text.data() + text.size()) << mark << ": " << name << "=" << text;
    return value;
}

page_view open_page(const std::string& file, const std::string& fragment) {
    const scratch_directory profile;
    const answer said =
        run_program("timeout", {"--kill-after=5", "120", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
                                "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
                                "--enable-logging=stderr", "--user-data-dir=" + profile.path(),
                                "--window-size=1280,1400", "--dump-dom", "file://" + file + fragment});
    EXPECT_EQ(said.status, 0) << "chromium (scripts/install-dependencies.sh installs it): " << said.err;
    page_view view{said.out, {}};
    std::istringstream lines(said.err);
    for (std::string line; std::getline(lines, line);) {
        if (line.find("CONSOLE") != std::string::npos) {
            view.console += line + "\n";
        }
    }
    return view;
}

}  // namespace holdfast::support
