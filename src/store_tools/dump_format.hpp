// The text format that mdb_dump writes and mdb_load reads: for each database a header of lines NAME=VALUE, and a line
// for each key and each data item.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <lmdb.h>

namespace holdfast_store_tools {

/// what(): "line 7: ...".
class format_error : public std::runtime_error {
public:
    format_error(std::uint64_t line, const std::string& what)
        : std::runtime_error("line " + std::to_string(line) + ": " + what) {}
};

struct dump_header {
    bool printable = false;  ///< format=print; otherwise bytevalue
    std::optional<std::string> database;
    std::size_t map_size = 0;
    unsigned readers = 0;
    unsigned flags = 0;  ///< of the database
    unsigned page_size = 0;
};

void write_header(std::FILE* to, const dump_header& header);
/// Of a key or data: hexadecimal digits, or characters that print, and escapes.
void write_value(std::FILE* to, std::string_view bytes, bool printable);
void write_footer(std::FILE* to);

class dump_reader {
public:
    /// `plain_text`: no headers; lines are keys and data in turn, with the escapes of format=print.
    dump_reader(std::FILE* from, bool plain_text) : from_(from), plain_text_(plain_text) {}

    /// Nothing at the end of the input. Throws format_error.
    [[nodiscard]] std::optional<dump_header> read_header();
    /// False behind a database's last item. Throws format_error.
    [[nodiscard]] bool read_item(std::string& key, std::string& data);
    [[nodiscard]] std::uint64_t line() const noexcept { return line_; }

private:
    [[nodiscard]] bool read_line(std::string& line);
    [[nodiscard]] std::string decode(std::string_view text) const;
    void set_field(dump_header& header, const std::string& name, const std::string& value) const;

    std::FILE* from_;
    bool plain_text_;
    bool printable_ = true;
    std::uint64_t line_ = 0;
};

}  // namespace holdfast_store_tools
