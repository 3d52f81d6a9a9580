// Data files of LMDB that somebody made: reading one gives its items or an error, in memory and items that the file's
// size bounds, and never a crash or a loop.
//
// An input that begins with 0xff is a file itself. Any other is a byte that chooses a sound file, of version 0.9 or of
// a release of LMDB 1.0, and a list of changes: a page's number, an offset in it, and two bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "lmdb_file/golden_file.hpp"
#include "lmdb_file/lmdb_file_reader.hpp"
#include "lmdb_file/lmdb_file_writer.hpp"

namespace {

using holdfast_lmdb_file::byte_source;
using holdfast_lmdb_file::database_writer;
using holdfast_lmdb_file::file_error;
using holdfast_lmdb_file::file_reader;
using holdfast_lmdb_file::tree;
namespace database_flag = holdfast_lmdb_file::database_flag;

class memory_source : public byte_source {
public:
    explicit memory_source(std::vector<std::byte> content) : content_(std::move(content)) {}
    [[nodiscard]] std::uint64_t size() const override { return content_.size(); }
    void read(std::uint64_t offset, std::span<std::byte> to) const override {
        if (offset > content_.size() || to.size() > content_.size() - offset) {
            std::abort();
        }
        std::memcpy(to.data(), content_.data() + offset, to.size());
    }

private:
    std::vector<std::byte> content_;
};

std::string padded(unsigned number, std::size_t size) {
    std::string text = std::to_string(100000 + number);
    text.resize(size, 'x');
    return text;
}

tree write_database(holdfast_lmdb_file::page_writer& pages, unsigned flags, unsigned keys, unsigned items,
                    std::size_t size) {
    database_writer writer(pages, flags);
    for (unsigned key = 0; key < keys; ++key) {
        for (unsigned item = 0; item < items; ++item) {
            writer.add(padded(key, 8 + key % 300), padded(item, size));
        }
    }
    return writer.finish();
}

/// Branches, leaves, big values, small pages and trees of duplicates, of a fixed size and not.
std::vector<std::byte> sound_file() {
    std::vector<std::byte> file;
    const auto sink = [&](std::uint64_t offset, holdfast_lmdb_file::bytes content) {
        file.resize(std::max<std::size_t>(file.size(), offset + content.size()));
        std::memcpy(file.data() + offset, content.data(), content.size());
    };
    holdfast_lmdb_file::page_writer pages(sink);
    database_writer main(pages, 0);
    main.add("big", std::string(9000, 'b'));
    main.add_database("dups", write_database(pages, database_flag::duplicates, 4, 9, 20));
    main.add_database("fixed", write_database(pages, database_flag::duplicates | database_flag::fixed, 3, 8, 8));
    main.add_database("fixed tree", write_database(pages, database_flag::duplicates | database_flag::fixed, 2, 900, 8));
    main.add_database("large", write_database(pages, 0, 60, 1, 900));
    main.add_database("tree", write_database(pages, database_flag::duplicates, 2, 40, 200));
    main.add("value", "small");
    holdfast_lmdb_file::write_meta(sink, pages, main.finish(), 0);
    return file;
}

struct base_file {
    std::vector<std::byte> content;
    std::size_t page_size;
};
std::vector<base_file> base_files() {
    std::vector<base_file> all{{sound_file(), holdfast_lmdb_file::written_page_size}};
    const auto add = [&](const char* name, std::size_t page_size) {
        const std::string content =
            holdfast_lmdb_file::golden_file(std::string(HOLDFAST_TEST_FILES "/store/lmdb_files/") + name + ".runs");
        const auto* const begin = reinterpret_cast<const std::byte*>(content.data());
        all.push_back({{begin, begin + content.size()}, page_size});
    };
    add("v2_4096", 4096);
    add("v3_256", 256);
    add("v3_512", 512);
    add("v3_4096", 4096);
    add("v3_sum", 4096);
    return all;
}

void read_all(const byte_source& source) {
    file_reader reader(source);
    std::uint64_t passed = 0;
    std::vector<tree> databases;
    const auto count = [&](std::string_view key, std::string_view data) { passed += key.size() + data.size() + 1; };
    reader.read_main(count, [&](std::string_view, const tree& named) { databases.push_back(named); });
    for (const tree& named : databases) {
        reader.read_database(named, count);
    }
    reader.check_free_pages();
    // A key, of which each item is passed with it, is shorter than a page.
    if (passed > source.size() * (1 + reader.page_size())) {
        std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::vector<base_file> sound = base_files();
    std::vector<std::byte> file;
    if (size > 0 && data[0] == 0xff) {
        file.assign(reinterpret_cast<const std::byte*>(data) + 1, reinterpret_cast<const std::byte*>(data) + size);
    } else {
        const base_file& base = sound[size == 0 ? 0 : data[0] % sound.size()];
        file = base.content;
        for (std::size_t at = 1; at + 6 <= size; at += 6) {
            std::uint16_t change[3];
            std::memcpy(change, data + at, sizeof(change));
            const std::size_t page = change[0] % (file.size() / base.page_size);
            // The first 64 bytes have most of what leads elsewhere.
            const std::size_t offset = (change[1] & 0x8000U) != 0 ? change[1] % 64U : change[1] % (base.page_size - 1);
            std::memcpy(file.data() + page * base.page_size + offset, &change[2], 2);
        }
    }
    try {
        read_all(memory_source(std::move(file)));
    } catch (const file_error&) {
        return 0;
    }
    return 0;
}
