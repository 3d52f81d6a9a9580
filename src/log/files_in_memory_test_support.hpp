// The files of a log in a range of memory, for tests that look at every byte: their names, their sizes, their contents.
// A name is a number, and the word 0 means no file.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/units.hpp"
#include "log/log_files.hpp"
#include "persist/storage.hpp"

namespace holdfast::log {

class files_in_memory : public persist::storage {
public:
    [[nodiscard]] static constexpr std::uint64_t bytes_for(std::uint64_t files, std::uint64_t file_size) noexcept {
        return files * (2 * base::cache_line_size + file_size);
    }
    files_in_memory(std::byte* memory, std::uint64_t files, std::uint64_t file_size) noexcept
        : memory_(memory), files_(files), file_size_(file_size) {}

    [[nodiscard]] log_place place() const { return {"memory", "log.", file_size_}; }

    base::result<std::unique_ptr<persist::file>> open(const std::string& path, persist::access_mode /*mode*/) override {
        const std::uint64_t found = find(path);
        if (found == files_) {
            return failed(base::failure_code::missing, path);
        }
        return std::unique_ptr<persist::file>(std::make_unique<one_file>(*this, found, path));
    }
    base::result<std::unique_ptr<persist::file>> create(const std::string& path, persist::site where) override {
        for (std::uint64_t file = 0; file < files_; ++file) {
            if (word(name_at(file)) == 0) {
                put_word(size_at(file), 0, where);
                put_word(name_at(file), number_of(path) + 1, where);
                return open(path, persist::access_mode::read_write);
            }
        }
        return failed(base::failure_code::no_space, path);
    }
    base::result<bool> exists(const std::string& path) override { return find(path) != files_; }
    base::result<std::vector<std::string>> list(const std::string& /*directory*/) override {
        std::vector<std::string> names;
        for (std::uint64_t file = 0; file < files_; ++file) {
            if (const std::uint64_t name = word(name_at(file)); name != 0) {
                names.push_back(fmt::format("log.{:06}", name - 1));
            }
        }
        std::ranges::sort(names);
        return names;
    }
    base::result<void> rename(const std::string& from, const std::string& to, persist::site where) override {
        if (const std::uint64_t found = find(from); found != files_) {
            put_word(name_at(found), number_of(to) + 1, where);
        }
        return {};
    }
    base::result<void> remove(const std::string& path, persist::site where) override {
        if (const std::uint64_t found = find(path); found != files_) {
            put_word(name_at(found), 0, where);
        }
        return {};
    }
    base::result<void> sync_directory(const std::string& /*path*/, persist::site where) override {
        make_durable(0, files_ * base::cache_line_size, where);
        return {};
    }
    base::result<void> make_directory(const std::string& path, persist::site /*where*/) override {
        return failed(base::failure_code::unsupported, path);
    }
    base::result<void> make_link(const std::string& path, const std::string& /*target*/,
                                 persist::site /*where*/) override {
        return failed(base::failure_code::unsupported, path);
    }
    base::result<std::string> link_target(const std::string& /*path*/) override { return std::string(); }
    base::result<std::string> identity(const std::string& path) override { return path; }
    base::result<void> copy_content(persist::file& source, persist::file& /*target*/, persist::shared_blocks /*blocks*/,
                                    persist::site /*where*/) override {
        return failed(base::failure_code::unsupported, source.path());
    }

protected:
    /// Whole words.
    virtual void put(std::uint64_t at, std::span<const std::byte> data, persist::site /*where*/) {
        std::memcpy(memory_ + at, data.data(), data.size());
    }
    virtual void make_durable(std::uint64_t /*at*/, std::uint64_t /*bytes*/, persist::site /*where*/) {}
    /// Number of the file that open() takes where the name is not found; files_ is none.
    [[nodiscard]] virtual std::uint64_t in_place_of_missing() const { return files_; }

private:
    class one_file final : public persist::file {
    public:
        one_file(files_in_memory& of, std::uint64_t number, std::string path)
            : of_(of), number_(number), path_(std::move(path)) {}
        const std::string& path() const noexcept override { return path_; }
        base::result<std::uint64_t> size() override { return of_.word(of_.size_at(number_)); }
        base::result<void> read_at(std::uint64_t offset, std::span<std::byte> buffer) override {
            if (offset + buffer.size() > of_.word(of_.size_at(number_))) {
                return failed(base::failure_code::corrupt, path_);
            }
            if (!buffer.empty()) {
                std::memcpy(buffer.data(), of_.memory_ + of_.content_at(number_) + offset, buffer.size());
            }
            return {};
        }
        base::result<void> write_at(std::uint64_t offset, std::span<const std::byte> data,
                                    persist::site where) override {
            if (offset + data.size() > of_.file_size_) {
                return failed(base::failure_code::no_space, path_);
            }
            grow(offset + data.size(), where);
            of_.put(of_.content_at(number_) + offset, data, where);
            return {};
        }
        base::result<void> write_gather(std::uint64_t offset, std::span<const std::span<const std::byte>> parts,
                                        persist::site where) override {
            for (const auto part : parts) {
                HF_TRY(write_at(offset, part, where));
                offset += part.size();
            }
            return {};
        }
        base::result<void> sync(persist::site where) override {
            of_.make_durable(of_.size_at(number_), base::cache_line_size, where);
            of_.make_durable(of_.content_at(number_), of_.file_size_, where);
            return {};
        }
        void flush_mapped(std::uint64_t /*offset*/, std::span<const std::byte> /*mapped*/,
                          persist::site /*where*/) noexcept override {}  // nobody maps it
        void fence_mapped(persist::site /*where*/) noexcept override {}
        base::result<void> resize(std::uint64_t /*bytes*/, persist::site /*where*/) override {
            return failed(base::failure_code::unsupported, path_);
        }
        base::result<void> allocate(std::uint64_t /*offset*/, std::uint64_t /*length*/,
                                    persist::site /*where*/) override {
            return {};
        }
        base::result<void> punch_hole(std::uint64_t /*offset*/, std::uint64_t /*length*/,
                                      persist::site /*where*/) override {
            return failed(base::failure_code::unsupported, path_);
        }
        base::result<std::uint64_t> charged() override { return of_.file_size_; }
        int native_handle() const noexcept override { return -1; }

    private:
        void grow(std::uint64_t to, persist::site where) {
            if (to > of_.word(of_.size_at(number_))) {
                of_.put_word(of_.size_at(number_), to, where);
            }
        }
        files_in_memory& of_;
        std::uint64_t number_;
        std::string path_;
    };

    [[nodiscard]] static std::uint64_t name_at(std::uint64_t file) noexcept { return file * base::cache_line_size; }
    [[nodiscard]] std::uint64_t size_at(std::uint64_t file) const noexcept { return name_at(files_ + file); }
    [[nodiscard]] std::uint64_t content_at(std::uint64_t file) const noexcept {
        return name_at(2 * files_) + file * file_size_;
    }
    [[nodiscard]] std::uint64_t word(std::uint64_t at) const noexcept {
        std::uint64_t value = 0;
        std::memcpy(&value, memory_ + at, sizeof value);
        return value;
    }
    void put_word(std::uint64_t at, std::uint64_t value, persist::site where) {
        put(at, std::as_bytes(std::span{&value, 1}), where);
    }
    [[nodiscard]] static std::uint64_t number_of(const std::string& path) {
        std::uint64_t number = 0;
        const char* const begin = path.data() + path.rfind('.') + 1;
        std::from_chars(begin, path.data() + path.size(), number);
        return number;
    }
    [[nodiscard]] std::uint64_t find(const std::string& path) const {
        for (std::uint64_t file = 0; file < files_; ++file) {
            if (word(name_at(file)) == number_of(path) + 1) {
                return file;
            }
        }
        return in_place_of_missing();
    }
    static base::failure failed(base::failure_code code, const std::string& path) {
        base::failure what;
        what.code = code;
        what.path = path;
        return what;
    }

    std::byte* memory_;
    std::uint64_t files_;
    std::uint64_t file_size_;
};

}  // namespace holdfast::log
