// The files of a log: found by their names, made, used again. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"

namespace holdfast::log {

struct log_place {
    std::string directory;
    std::string prefix;  ///< of the files' names; the number follows, of six digits or more
    std::uint64_t file_size = 0;
};

enum class file_content {
    written,    ///< later writes change no metadata of the file system
    allocated,  ///< they may, and the first one makes its size durable: for few and long ones
    later,      ///< of a file that is reserved: allocated until make() is asked for one that is written
};

class log_files {
public:
    log_files(persist::storage& storage, log_place place) : storage_(storage), place_(std::move(place)) {}

    [[nodiscard]] std::uint64_t file_size() const noexcept { return place_.file_size; }
    [[nodiscard]] std::string path_of(std::uint64_t number) const;

    /// Ascending.
    [[nodiscard]] base::result<std::vector<std::uint64_t>> numbers() const;
    [[nodiscard]] base::result<bool> exists(std::uint64_t number) const { return storage_.exists(path_of(number)); }
    [[nodiscard]] base::result<std::unique_ptr<persist::file>> open(std::uint64_t number,
                                                                    persist::access_mode mode) const {
        return mode == persist::access_mode::read_only ? storage_.open_changing(path_of(number))
                                                       : storage_.open(path_of(number), mode);
    }

    /// Nothing in this file counts any more; make() may give it another name. The first to be added is the first to go:
    /// who looks behind an old mark misses the file there, and not one behind it.
    void add_spare(std::uint64_t number);
    /// Another writer may have used them.
    void forget_spares() noexcept {
        spares_.clear();
        unwritten_.clear();
    }
    /// Its name is durable behind sync_names(), that of a spare at once. Its content may be that of an earlier file.
    /// After a failure it is not there, or a spare.
    [[nodiscard]] base::result<std::unique_ptr<persist::file>> make(std::uint64_t number,
                                                                    file_content content = file_content::written);
    [[nodiscard]] base::result<void> sync_names() const {
        return storage_.sync_directory(place_.directory, "log.create.directory");
    }
    /// So many spares are there; the new ones have numbers from `next` on, and all but the first this content; `later`
    /// that one, too.
    /// `no_space`: some may be.
    [[nodiscard]] base::result<void> reserve(std::size_t spares, std::uint64_t next, file_content content);
    void keep_spares(std::size_t most) {
        most_spares_ = std::max(is_reserved_ ? most_spares_ : 0, most);
        is_reserved_ = true;
        spares_.reserve(2 * most);
        unwritten_.reserve(2 * most);
    }
    /// A few stay for make().
    void remove_spares();

private:
    [[nodiscard]] base::result<std::unique_ptr<persist::file>> create(std::uint64_t number, file_content content);
    [[nodiscard]] base::result<void> fill(persist::file& file, file_content content) const;
    [[nodiscard]] base::result<void> write_zeros(persist::file& file, std::uint64_t from) const;

    persist::storage& storage_;
    log_place place_;
    std::vector<std::uint64_t> spares_;
    std::vector<std::uint64_t> unwritten_;  // spares of the content `later`
    std::size_t most_spares_ = 2;
    bool is_reserved_ = false;
};

}  // namespace holdfast::log
