#include "store_tools/dump_format.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <utility>

namespace holdfast_store_tools {
namespace {

constexpr std::array<std::pair<const char*, unsigned>, 6> flag_names = {{{"reversekey", MDB_REVERSEKEY},
                                                                         {"dupsort", MDB_DUPSORT},
                                                                         {"integerkey", MDB_INTEGERKEY},
                                                                         {"dupfixed", MDB_DUPFIXED},
                                                                         {"integerdup", MDB_INTEGERDUP},
                                                                         {"reversedup", MDB_REVERSEDUP}}};

constexpr char digits[] = "0123456789abcdef";

int digit_of(char character) {
    const std::string_view known = digits;
    const auto found = known.find(static_cast<char>(std::tolower(static_cast<unsigned char>(character))));
    return found == std::string_view::npos ? -1 : static_cast<int>(found);
}

/// Of two hexadecimal digits; false where they are none.
bool append_byte(std::string& to, std::string_view two) {
    if (two.size() < 2 || digit_of(two[0]) < 0 || digit_of(two[1]) < 0) {
        return false;
    }
    to += static_cast<char>(digit_of(two[0]) * 16 + digit_of(two[1]));
    return true;
}

}  // namespace

void write_header(std::FILE* to, const dump_header& header) {
    std::fprintf(to, "VERSION=3\nformat=%s\n", header.printable ? "print" : "bytevalue");
    if (header.database) {
        std::fprintf(to, "database=%s\n", header.database->c_str());
    }
    std::fprintf(to, "type=btree\nmapsize=%zu\nmaxreaders=%u\n", header.map_size, header.readers);
    if ((header.flags & MDB_DUPSORT) != 0) {
        std::fprintf(to, "duplicates=1\n");
    }
    for (const auto& [name, flag] : flag_names) {
        if ((header.flags & flag) != 0) {
            std::fprintf(to, "%s=1\n", name);
        }
    }
    std::fprintf(to, "db_pagesize=%u\nHEADER=END\n", header.page_size);
}

void write_value(std::FILE* to, std::string_view bytes, bool printable) {
    std::string line = " ";
    for (const char byte : bytes) {
        const auto code = static_cast<unsigned char>(byte);
        if (printable && std::isprint(code) != 0) {
            line += byte == '\\' ? std::string(2, byte) : std::string(1, byte);
            continue;
        }
        line += printable ? "\\" : "";
        line += digits[code >> 4U];
        line += digits[code & 15U];
    }
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), to);
}

void write_footer(std::FILE* to) { std::fprintf(to, "DATA=END\n"); }

bool dump_reader::read_line(std::string& line) {
    line.clear();
    for (int character = 0; (character = std::getc(from_)) != EOF;) {
        if (character == '\n') {
            ++line_;
            return true;
        }
        line += static_cast<char>(character);
    }
    if (std::ferror(from_) != 0) {
        throw format_error(line_ + 1, "cannot read");
    }
    if (!line.empty()) {
        ++line_;
    }
    return !line.empty();
}

void dump_reader::set_field(dump_header& header, const std::string& name, const std::string& value) const {
    const auto number = [&] {
        std::size_t read = 0;
        const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), read);
        if (error != std::errc{} || end != value.data() + value.size()) {
            throw format_error(line_, "the value of " + name + " is no number: " + value);
        }
        return read;
    };
    if (name == "VERSION") {
        if (value != "3") {
            throw format_error(line_, "unsupported VERSION " + value);
        }
    } else if (name == "format") {
        if (value != "print" && value != "bytevalue") {
            throw format_error(line_, "unsupported FORMAT " + value);
        }
        header.printable = value == "print";
    } else if (name == "type") {
        if (value != "btree") {
            throw format_error(line_, "unsupported type " + value);
        }
    } else if (name == "database") {
        header.database = value;
    } else if (name == "mapsize") {
        header.map_size = number();
    } else if (name == "maxreaders") {
        header.readers = static_cast<unsigned>(number());
    } else if (name == "duplicates") {
        header.flags |= number() != 0 ? unsigned{MDB_DUPSORT} : 0U;
    } else if (name != "db_pagesize" && name != "mapaddr") {
        for (const auto& [known, flag] : flag_names) {
            if (name == known) {
                header.flags |= number() != 0 ? flag : 0U;
                return;
            }
        }
        std::fprintf(stderr, "mdb_load: line %llu: unrecognized keyword ignored: %s\n",
                     static_cast<unsigned long long>(line_), name.c_str());
    }
}

std::optional<dump_header> dump_reader::read_header() {
    dump_header header;
    header.printable = true;
    std::string line;
    if (plain_text_) {
        const int next = std::getc(from_);
        return next == EOF || std::ungetc(next, from_) == EOF ? std::nullopt : std::optional(header);
    }
    header.printable = false;
    bool begun = false;
    while (read_line(line)) {
        if (line == "HEADER=END") {
            if ((header.flags & (MDB_DUPFIXED | MDB_INTEGERDUP | MDB_REVERSEDUP)) != 0) {
                header.flags |= MDB_DUPSORT;  // those have no meaning without
            }
            printable_ = header.printable;
            return header;
        }
        begun = true;
        const auto sign = line.find('=');
        if (sign == std::string::npos) {
            throw format_error(line_, "unexpected format");
        }
        set_field(header, line.substr(0, sign), line.substr(sign + 1));
    }
    if (begun) {
        throw format_error(line_, "unexpected end of the header");
    }
    return std::nullopt;
}

std::string dump_reader::decode(std::string_view text) const {
    std::string bytes;
    bytes.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        if (!printable_) {
            if (!append_byte(bytes, text.substr(at))) {
                throw format_error(line_, "no hexadecimal digits");
            }
            at += 2;
        } else if (text[at] != '\\') {
            bytes += text[at++];
        } else if (at + 1 < text.size() && text[at + 1] == '\\') {
            bytes += '\\';
            at += 2;
        } else {
            if (!append_byte(bytes, text.substr(at + 1))) {
                throw format_error(line_, "a backslash is followed by neither a backslash nor two digits");
            }
            at += 3;
        }
    }
    return bytes;
}

bool dump_reader::read_item(std::string& key, std::string& data) {
    std::string line;
    const auto read_value = [&](std::string& value) {
        std::string_view text = line;
        if (!plain_text_) {
            if (text.empty() || text.front() != ' ') {
                throw format_error(line_, "unexpected end of input");
            }
            text.remove_prefix(1);
        }
        value = decode(text);
    };
    const auto begin = line_;
    if (!read_line(line)) {
        // An empty line at the very end is none.
        if (plain_text_ || line_ > begin) {
            return false;
        }
        throw format_error(line_, "unexpected end of input");
    }
    if (!plain_text_ && line == "DATA=END") {
        return false;
    }
    read_value(key);
    if (!read_line(line)) {
        throw format_error(line_, "failed to read key value");
    }
    read_value(data);
    return true;
}

}  // namespace holdfast_store_tools
