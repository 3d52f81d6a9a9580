// An inverted index that outlives its process: which files contain all of these words?
//
//     inverted_index HEAP add FILE...     indexes text files; those that it knows are left out
//     inverted_index HEAP find WORD...    prints the files that contain every word
//
// Each file is one commit: a crash loses at most the file that was being added, and never half of it.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

namespace {

using file_number = std::uint32_t;
using posting_list = holdfast::vector<file_number>;  // in ascending order

/// All that the index keeps. It takes the allocator of the heap that it lies in and hands it on.
struct text_index {
    using allocator_type = holdfast::allocator<std::byte>;
    explicit text_index(const allocator_type& heap) : files(heap), postings(heap) {}

    holdfast::vector<holdfast::string> files;
    holdfast::unordered_map<holdfast::string, posting_list> postings;
};

/// Calls `each` with every word of the text, in lower case.
template <class Each>
void for_each_word(std::istream& text, Each&& each) {
    std::string word;
    for (std::istreambuf_iterator<char> next(text), end; next != end; ++next) {
        const auto letter = static_cast<unsigned char>(*next);
        if (std::isalnum(letter) != 0) {
            word.push_back(static_cast<char>(std::tolower(letter)));
        } else if (!word.empty()) {
            each(word);
            word.clear();
        }
    }
    if (!word.empty()) {
        each(word);
    }
}

void add(holdfast::manager& heap, text_index& index, const char* path) {
    if (std::find(index.files.begin(), index.files.end(), std::string_view(path)) != index.files.end()) {
        return;
    }
    std::ifstream text(path);
    if (!text) {
        throw std::runtime_error(std::string(path) + " cannot be read");
    }
    const auto number = static_cast<file_number>(index.files.size());
    index.files.emplace_back(path);
    for_each_word(text, [&](std::string_view word) {
        // A known word is found without making a string in the heap.
        auto found = index.postings.find(word);
        if (found == index.postings.end()) {
            found = index.postings.try_emplace(holdfast::string(word, heap.get_allocator<char>())).first;
        }
        posting_list& files = found->second;
        if (files.empty() || files.back() != number) {
            files.push_back(number);
        }
    });
    heap.commit();
}

std::vector<file_number> find(const text_index& index, char** words, int count) {
    std::vector<file_number> common;
    for (int i = 0; i < count; ++i) {
        const auto found = index.postings.find(std::string_view(words[i]));
        if (found == index.postings.end()) {
            return {};
        }
        const posting_list& files = found->second;
        std::vector<file_number> both;
        std::set_intersection(common.begin(), common.end(), files.begin(), files.end(), std::back_inserter(both));
        common = i == 0 ? std::vector<file_number>(files.begin(), files.end()) : both;
    }
    return common;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view command = argc > 3 ? argv[2] : "";
    try {
        if (command == "add") {
            holdfast::manager heap(holdfast::open_or_create, argv[1]);
            auto* index = heap.find_or_construct<text_index>("index")();
            for (int i = 3; i < argc; ++i) {
                add(heap, *index, argv[i]);
            }
            return 0;
        }
        if (command == "find") {
            const holdfast::manager heap(holdfast::open_read_only, argv[1]);  // any number of readers
            const auto* index = heap.find<text_index>("index").first;
            for (const file_number file : find(*index, argv + 3, argc - 3)) {
                std::printf("%s\n", index->files[file].c_str());
            }
            return 0;
        }
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "inverted_index: %s\n", failure.what());
        return 1;
    }
    std::fprintf(stderr, "usage: inverted_index HEAP add FILE... | find WORD...\n");
    return 2;
}
